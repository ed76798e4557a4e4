"""The machine's power brake is set: a signal from outside the device that halves its clock or worse.

A power supply that failed, a feed that is overdrawn or a rack that sheds load pulls the line. No setting of
the job changes it.
"""

from stepscope.analyse.features.telemetry import (
    clock_bound_share,
    clock_drop_share,
    matrix_slowdown,
    power_braked_share,
    power_watts_mean,
    sm_clock_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import CLOCKS
from stepscope.rules.patch import QUERY_REASONS
from stepscope.rules.reference import CLOCK_DROP, SLOWER_PRODUCTS
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="power-brake",
    cause="the power brake of the machine",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    severity="critical",
    title=Text(
        en="The machine's power brake is set and holds the device's clock down",
        zh="整机功率制动生效，压低了设备的时钟频率",
    ),
    explanation=Text(
        en="The device is told from outside, by the power supply or the rack, to draw less. It is a fault of "
        "the machine and no setting of the job.",
        zh="设备收到来自电源或机柜的外部信号而降低功耗。这是机器故障，与作业的设置无关。",
    ),
    when=(power_braked_share >= 0.05, clock_drop_share >= 0.05),
    corroborated_by=(matrix_slowdown >= 1.03,),
    cost=clock_bound_share,
    shows=(sm_clock_share, power_watts_mean),
    checks=(
        Text(
            en="Are all power supplies of the node alive (its management controller's log)?",
            zh="该节点的电源是否都正常（查看管理控制器日志）？",
        ),
        Text(
            en="Are other nodes of the rack braked at the same time? Then it is the feed.",
            zh="同一机柜的其他节点是否同时被制动？若是，问题在供电回路。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Take the node out of the job, and have its power supplies and feed looked at.",
                zh="让作业避开该节点，并请人检查其电源与供电。",
            ),
            clears=power_braked_share <= 0.01,
            patch=QUERY_REASONS,
        ),
    ),
    references={
        power_braked_share: Text(
            en="our choice, a twentieth of the time under load: no machine sets it in ordinary work, and "
            "nvidia_gpu_exporter's alerts ask for 5 minutes of it",
            zh="自定，负载时间的二十分之一：正常机器不会出现，nvidia_gpu_exporter 的告警要求持续 5 分钟",
        ),
        clock_drop_share: CLOCK_DROP,
        matrix_slowdown: SLOWER_PRODUCTS,
    },
    needs=CLOCKS,
    explains=("slow-rank",),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="From one moment on everything that the clock bounds takes twice as long.",
            zh="从某一刻起，受时钟限制的一切都慢了一倍。",
        ),
        lanes=(
            Lane(Text(en="brake", zh="制动"), "........xxxxxxxxxxxxxx"),
            Lane(DEVICE, "ccc.|ccc.|ccccccc|ccccccc"),
        ),
    ),
)
