"""The device is hardly busy because no step has been made yet.

Packages, data, weights and compilation come before the first step. That is no fault, unless it takes longer
than anybody planned; and it is no dead job.
"""

from stepscope.analyse.features.telemetry import (
    compute_busy_five_minutes,
    host_network_bytes_per_second,
    quiet_before_steps,
    quiet_five_minutes,
    quiet_in_checkpoint,
    quiet_in_eval,
    steps_logged,
)
from stepscope.model.text import Text
from stepscope.rules.capture import RUN_LOG
from stepscope.rules.reference import MOST_OF_IT, MOSTLY_QUIET
from stepscope.rules.rule import Layer, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="initialising",
    cause="a job that has not begun its steps",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    severity="info",
    title=Text(
        en="The device is hardly busy: the job has not made its first step",
        zh="设备几乎空闲：作业尚未完成第一步",
    ),
    explanation=Text(
        en="Most of the time without work lies before the log's first step. Packages, data, weights and "
        "compilation come there.",
        zh="大部分空闲时间位于日志的第一步之前：安装依赖、准备数据、加载权重与编译都在这一阶段。",
    ),
    when=(quiet_five_minutes >= 0.50, quiet_before_steps >= 0.50),
    unless=(quiet_in_checkpoint >= 0.50, quiet_in_eval >= 0.50),
    readings=(
        Reading(
            Text(
                en="The device was hardly busy until the job made its first step",
                zh="在作业完成第一步之前，设备几乎空闲",
            ),
            only_if=(steps_logged > 0,),
        ),
    ),
    shows=(host_network_bytes_per_second, compute_busy_five_minutes),
    checks=(
        Text(
            en="Which lines of the log lie in that time: packages, downloads, weights, compilation?",
            zh="这段时间的日志在写什么：安装依赖、下载、加载权重还是编译？",
        ),
        Text(
            en="Is it as long on every start, or only on this node?",
            zh="每次启动都这么久，还是只在该节点？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Put packages into the image, data and weights onto the node, and keep the compiler's "
                "cache between runs.",
                zh="把依赖放进镜像，数据与权重放到节点上，并在多次运行之间保留编译缓存。",
            ),
            clears=quiet_five_minutes < 0.50,
            is_partial=True,
        ),
    ),
    references={
        quiet_five_minutes: MOSTLY_QUIET,
        quiet_before_steps: MOST_OF_IT,
        quiet_in_checkpoint: MOST_OF_IT,
        quiet_in_eval: MOST_OF_IT,
        steps_logged: Text(en="any step at all: then the start is over", zh="只要有一步：启动就已结束"),
    },
    needs=RUN_LOG,
    signature=Signature(
        caption=Text(
            en="The host works for long before the first step begins.",
            zh="第一步开始之前，主机已忙了很久。",
        ),
        lanes=(
            Lane(HOST, "xxxxxxxxxxxx|ll..|ll.."),
            Lane(DEVICE, "............|cccc|cccc"),
        ),
    ),
)
