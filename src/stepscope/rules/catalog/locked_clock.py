"""The clock stands still below its highest value, and the driver gives no reason.

Somebody locked it (`nvidia-smi -lgc`, application clocks): for a benchmark, to save power, or to make devices
equal. A clock that heat or power holds down swings; one that is locked does not.
"""

from stepscope.analyse.features.telemetry import (
    application_clock_share,
    clock_bound_share,
    clock_spread_share,
    power_braked_share,
    power_capped_share,
    sm_clock_share,
    thermal_throttled_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import CLOCKS
from stepscope.rules.reference import NOTHING_TO_WIN
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import Lane, Signature

_SPEAKS = Text(
    en="our choice: where the driver gives a reason, the rule of that reason speaks",
    zh="自定：驱动给出原因时，由对应的规则报告",
)

RULE = Rule(
    id="locked-clock",
    cause="a clock that somebody locked",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(
        en="The device's clock stands still below its highest value, without a reason from the driver",
        zh="设备的时钟固定在最高值以下，且驱动没有给出原因",
    ),
    explanation=Text(
        en="Heat and power make a clock swing. One that hardly moves under load was locked, and whatever the "
        "clock bounds takes longer.",
        zh="温度与功耗会使时钟波动。负载下几乎不动的时钟是被锁定的，受时钟限制的部分都会变慢。",
    ),
    when=(sm_clock_share <= 0.90, clock_spread_share <= 0.03, clock_bound_share >= 0.03),
    unless=(power_capped_share >= 0.10, thermal_throttled_share >= 0.10, power_braked_share >= 0.05),
    corroborated_by=(application_clock_share >= 0.50,),
    cost=clock_bound_share,
    checks=(
        Text(
            en="Did someone lock it on purpose: a benchmark, a site's policy, an earlier job's prologue "
            "(nvidia-smi -q -d CLOCK)?",
            zh="是否有人有意锁定：基准测试、站点策略，或上一个作业的启动脚本（nvidia-smi -q -d CLOCK）？",
        ),
        Text(
            en="Is the highest clock that it states one that this model holds under load at all?",
            zh="它所报告的最高频率，该型号在负载下是否真能维持？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Reset locked and application clocks, where nobody wants them.",
                zh="若无人需要，重置锁定的时钟与应用时钟。",
            ),
            clears=clock_bound_share <= 0.01,
            patch=Patch(kind="command", after="nvidia-smi -rgc\nnvidia-smi -rac"),
        ),
    ),
    references={
        sm_clock_share: Text(
            en="our choice, a tenth below the highest: Greyhound (ATC 2025) locks clocks to make a slow "
            "device on purpose",
            zh="自定，比最高值低一成：Greyhound（ATC 2025）正是用锁定时钟来制造慢设备",
        ),
        clock_spread_share: Text(
            en="our choice: a locked clock moves by a step or two of 15 MHz, one that power holds by more",
            zh="自定：锁定的时钟只变动一两档（每档 15 MHz），受功耗限制的变动更大",
        ),
        clock_bound_share: NOTHING_TO_WIN,
        power_capped_share: _SPEAKS,
        thermal_throttled_share: _SPEAKS,
        power_braked_share: _SPEAKS,
        application_clock_share: Text(
            en="our choice, half of the time under load: NVIDIA's NVML reference names it as a clock that "
            "was asked for",
            zh="自定，负载时间的一半：NVIDIA 的 NVML 参考将其说明为人为请求的时钟",
        ),
    },
    needs=CLOCKS,
    explains=("slow-rank",),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="Every step is slower than on its neighbour, by the same amount.",
            zh="每一步都比相邻设备慢，幅度始终相同。",
        ),
        lanes=(
            Lane(Text(en="this device", zh="本设备"), "xxxxxx|xxxxxx|xxxxxx|xxxxxx"),
            Lane(Text(en="its neighbour", zh="相邻设备"), "cccc..|cccc..|cccc..|cccc.."),
        ),
    ),
)
