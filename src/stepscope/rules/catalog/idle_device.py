"""One device of the job is hardly busy while the others work.

A rank that was never started, a device that the launcher did not use, or a card that is broken. All the
others are fine, so it is neither a pause of the job nor its end.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.telemetry import (
    busy_below_peers,
    compute_busy_five_minutes,
    compute_busy_mean,
    grave_xids,
    num_foreign_processes,
    quiet_before_steps,
    quiet_in_checkpoint,
    quiet_in_eval,
)
from stepscope.model.text import Text
from stepscope.rules.capture import COUNTERS
from stepscope.rules.reference import BELOW_PEERS, HARDLY_BUSY, MOST_OF_IT
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

RULE = Rule(
    id="idle-device",
    cause="a device that the job does not use",
    layer=Layer.SCHEDULING,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="warning",
    title=Text(
        en="This device is hardly busy while the job's others work",
        zh="该设备几乎空闲，而作业的其他设备在工作",
    ),
    explanation=Text(
        en="The other devices of the job are busy, so the job is alive. This one was given to it and is not "
        "used, or cannot work.",
        zh="作业的其他设备都在忙，说明作业是活的。这块设备已分配却没有被使用，或无法工作。",
    ),
    when=(compute_busy_five_minutes <= 0.05, busy_below_peers >= 0.30),
    unless=(quiet_in_checkpoint >= 0.50, quiet_in_eval >= 0.50, quiet_before_steps >= 0.50),
    shows=(compute_busy_mean, memory_used_share, num_foreign_processes, grave_xids),
    checks=(
        Text(
            en="Does a process of the job hold memory on it? If not, no rank was started there.",
            zh="作业是否有进程在其上占用显存？若无，说明没有 rank 在此启动。",
        ),
        Text(
            en="Compare processes per node and CUDA_VISIBLE_DEVICES with the devices that were asked for.",
            zh="将每节点进程数与 CUDA_VISIBLE_DEVICES 同申请的设备数对照。",
        ),
        Text(
            en="Is there an Xid on it, or does a small test program fail there?",
            zh="其上是否有 Xid，或运行小测试程序是否失败？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Start a rank on it, or ask for as many devices as the job uses; drain its node where a "
                "test fails.",
                zh="在其上启动一个 rank，或只申请作业实际使用的设备数；若测试失败则排空该节点。",
            ),
            clears=busy_below_peers <= 0.10,
            patch=Patch(kind="command", after="torchrun --nproc_per_node=DEVICES train.py"),
        ),
    ),
    references={
        compute_busy_five_minutes: HARDLY_BUSY,
        busy_below_peers: BELOW_PEERS,
        quiet_in_checkpoint: MOST_OF_IT,
        quiet_in_eval: MOST_OF_IT,
        quiet_before_steps: MOST_OF_IT,
    },
    needs=COUNTERS,
    signature=Signature(
        caption=Text(
            en="The other devices work, this one rests all the time.",
            zh="其他设备在工作，这一块始终空闲。",
        ),
        lanes=(
            Lane(Text(en="this device", zh="本设备"), "....................|...."),
            Lane(Text(en="the others", zh="其他设备"), "cccccccccccccccccccc|cccc"),
            Lane(Text(en="unused", zh="未使用"), "xxxxxxxxxxxxxxxxxxxx|xxxx"),
        ),
    ),
)
