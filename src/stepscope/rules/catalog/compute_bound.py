"""The device computes nearly all the time: nothing to wait for.

A real answer, and no praise: busy says that a kernel ran, not that it ran well. What remains is the
kernels themselves, and whether they use the hardware is a question for counters and shapes.
"""

from stepscope.analyse.features import (
    busy_share,
    copy_exposed_share,
    exposed_communication_share,
    idle_share,
    sm_active_mean,
)
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="compute-bound",
    cause="the device computes",
    layer=Layer.MODEL,
    about=Subject.DEVICE,
    verdict="healthy",
    title=Text(
        en="The device computes nearly all the time; what is left to gain is in the kernels",
        zh="设备几乎一直在计算，余下的优化空间在 kernel 本身",
    ),
    explanation=Text(
        en="No input, communication or launch stall is worth removing. Busy is not efficient: whether the "
        "kernels use the hardware well is another question.",
        zh="没有值得消除的输入、通信或下发停顿。忙碌不等于高效：kernel 是否用好了硬件是另一个问题。",
    ),
    when=(busy_share >= 0.90, exposed_communication_share < 0.05, copy_exposed_share < 0.05),
    corroborated_by=(sm_active_mean >= 0.80,),
    shows=(idle_share,),
    checks=(
        Text(
            en="Look at the hottest operators: are the large ones matrix products on tensor cores, in the "
            "precision you meant?",
            zh="查看最热的算子：大头是否为使用 tensor core 的矩阵乘，精度是否符合预期？",
        ),
        Text(
            en="Take telemetry beside it (SM active, tensor active, clocks): busy kernels may still wait "
            "for memory.",
            zh="同时采集遥测（SM active、tensor active、时钟）：忙碌的 kernel 仍可能在等内存。",
        ),
    ),
    references={
        busy_share: Text(
            en="TraceML calls a run compute-bound from 90 %; what is left is under the 10 % at which waiting "
            "for input or communication is a finding",
            zh="TraceML 自 90 % 起称为受计算限制；其余部分低于等待输入或通信成为结论的 10 %",
        ),
        exposed_communication_share: Text(
            en="TraceLens flags exposed communication above 5 % of the time",
            zh="TraceLens 在未被掩盖的通信超过时间的 5 % 时标出",
        ),
        copy_exposed_share: Text(
            en="TraceLens flags copies above 5 % of the time",
            zh="TraceLens 在拷贝超过时间的 5 % 时标出",
        ),
        sm_active_mean: Text(
            en="NVIDIA's DCGM guide: 0.8 or more is needed, though not sufficient, for effective use",
            zh="NVIDIA DCGM 指南：有效利用至少需要 0.8，但并不充分",
        ),
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="The host is far ahead, and the device has no gap worth removing.",
            zh="主机远远跑在前面，设备上没有值得消除的空隙。",
        ),
        lanes=(
            Lane(HOST, "llll........|llll........"),
            Lane(DEVICE, "cccccccccccc|cccccccccccc"),
        ),
    ),
)
