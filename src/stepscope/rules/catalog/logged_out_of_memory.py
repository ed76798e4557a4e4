"""The log says that a request for device memory failed, and that it was not for pieces.

Nearly all that the framework held was in use, or the memory was taken outside of it: by another process, by
a limit, by what the driver keeps.
"""

from stepscope.analyse.features import memory_used_share
from stepscope.analyse.features.telemetry import (
    foreign_memory_share,
    log_oom_unallocated_share,
    log_out_of_memory,
    memory_used_bytes_max,
)
from stepscope.model.text import Text
from stepscope.rules.capture import RUN_LOG
from stepscope.rules.catalog.out_of_memory import RECOMPUTE
from stepscope.rules.patch import LIST_PROCESSES
from stepscope.rules.reference import NEARLY_FULL
from stepscope.rules.rule import Layer, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="logged-out-of-memory",
    cause="a failed request for device memory",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="critical",
    title=Text(en="The log says that a request for device memory failed", zh="日志显示显存申请失败"),
    explanation=Text(
        en="What the framework held unused was less than the request, so pieces are not the cause: too much "
        "was in use, or the memory was taken outside of it.",
        zh="框架持有的未用显存少于申请量，因此原因不是碎片：占用过多，或显存被框架之外占去。",
    ),
    when=(log_out_of_memory >= 1,),
    unless=(log_oom_unallocated_share >= 1,),
    corroborated_by=(memory_used_share >= 0.90,),
    readings=(
        Reading(
            Text(
                en="A request for device memory failed, and other processes hold a part of the device's",
                zh="显存申请失败，且其他进程占用了该设备的部分显存",
            ),
            only_if=(foreign_memory_share >= 0.10,),
        ),
        Reading(
            Text(
                en="A request for device memory failed although the device was not full",
                zh="显存申请失败，而设备显存并未用满",
            ),
            only_if=(memory_used_share < 0.80,),
        ),
    ),
    shows=(memory_used_bytes_max, log_oom_unallocated_share, foreign_memory_share),
    checks=(
        Text(
            en="Did it fail in the first steps (too large from the start) or late (growth, a longer batch)?",
            zh="是开头几步就失败（一开始就放不下），还是后来才失败（增长或更长的批次）？",
        ),
        Text(
            en="Does the message state much free memory beside the failure? Then look outside the framework: "
            "another process, a limit of the process, a MIG slice.",
            zh="失败信息是否显示仍有大量空闲显存？若是，请检查框架之外：其他进程、进程上限、MIG 切片。",
        ),
        Text(
            en="Is it device memory at all, and no memory error of the hardware (Xid 48, 94, 95)?",
            zh="是否确为显存不足，而不是硬件的显存错误（Xid 48、94、95）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Recompute activations in the backward pass, lower the micro-batch, or shard parameters "
                "and optimizer state over the ranks.",
                zh="在反向中重计算激活、减小 micro-batch，或把参数与优化器状态切分到各 rank。",
            ),
            unless=(foreign_memory_share >= 0.10,),
            clears=log_out_of_memory < 1,
            patch=RECOMPUTE,
        ),
        Remedy(
            Text(
                en="Free the device of the other processes first.",
                zh="先清理该设备上的其他进程。",
            ),
            only_if=(foreign_memory_share >= 0.10,),
            clears=log_out_of_memory < 1,
            patch=LIST_PROCESSES,
        ),
        Remedy(
            Text(
                en="Take a memory snapshot of the failing step: it names who holds the most.",
                zh="为失败的那一步保存显存快照：可看到谁占用最多。",
            ),
            clears=log_out_of_memory < 1,
            is_step_towards=True,
        ),
    ),
    references={
        log_out_of_memory: Text(
            en="our choice, once: a request that fails and is not caught ends the run",
            zh="自定，一次：未被捕获的失败申请会结束运行",
        ),
        log_oom_unallocated_share: Text(
            en="our choice: where the unused reserve would have held it, fragmented-out-of-memory speaks",
            zh="自定：未用的保留放得下时，由 fragmented-out-of-memory 报告",
        ),
        memory_used_share: Text(
            en=NEARLY_FULL.en + "; that under 80 % a failure is strange is our choice",
            zh=NEARLY_FULL.zh + "；低于 80 % 时失败属异常，为本工具自定",
        ),
        foreign_memory_share: Text(
            en="our choice, a tenth of the device: a monitor's context takes far less",
            zh="自定，设备显存的十分之一：监控程序的上下文远小于此",
        ),
    },
    needs=RUN_LOG,
    explains=("memory-nearly-full", "killed-process"),
    signature=Signature(
        caption=Text(
            en="Memory in use reaches the limit, and the next request fails.",
            zh="显存占用达到上限，下一次申请失败。",
        ),
        lanes=(
            Lane(Text(en="memory", zh="显存"), "bbbbbbbbbbbb...."),
            Lane(Text(en="request", zh="申请"), "...........x...."),
            Lane(DEVICE, "cccccccccccc...."),
        ),
    ),
)
