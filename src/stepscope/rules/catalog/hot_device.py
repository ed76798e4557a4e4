"""A device runs hot and has not lowered its clock for it.

It costs nothing yet: hot is not throttled. It is told so that the airflow is looked at before it does, and
so that nobody blames the temperature for a slow step.
"""

from stepscope.analyse.features.telemetry import (
    sm_clock_share,
    temperature_celsius_max,
    temperature_margin_celsius,
    thermal_throttled_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import CLOCKS
from stepscope.rules.reference import REASON_SHARE
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="hot-device",
    cause="a hot device, not slowed yet",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="other-stall",
    severity="info",
    title=Text(
        en="The device runs hot, but does not lower its clock for it", zh="设备温度高，但尚未因此降低时钟频率"
    ),
    explanation=Text(
        en="The driver gives no thermal reason in the time under load. The temperature costs no time here; a "
        "slow step has another cause.",
        zh="负载期间驱动没有给出温度原因。温度在此不造成时间损失，慢步另有原因。",
    ),
    when=(temperature_celsius_max >= 85, thermal_throttled_share < 0.10),
    unless=(temperature_margin_celsius >= 10,),
    shows=(sm_clock_share,),
    checks=(
        Text(
            en="Are the neighbours in the node as hot? Then it is the air and not the device.",
            zh="节点内相邻设备是否同样热？若是，问题在风道而非该设备。",
        ),
        Text(
            en="How far is it from where this model slows down by itself (nvidia-smi -q -d TEMPERATURE)?",
            zh="距离该型号自动降频的温度还有多少（nvidia-smi -q -d TEMPERATURE）？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Change nothing in the job; have airflow and fans of the node looked at before the summer "
                "or a fuller rack does the rest.",
                zh="作业无需改动；请在夏季或机柜更满之前检查节点的风道与风扇。",
            ),
            clears=temperature_celsius_max < 85,
            is_partial=True,
        ),
    ),
    references={
        temperature_celsius_max: Text(
            en="TraceML and nvidia_gpu_exporter's alerts flag 85 °C",
            zh="TraceML 与 nvidia_gpu_exporter 的告警以 85 °C 为界",
        ),
        thermal_throttled_share: REASON_SHARE,
        temperature_margin_celsius: Text(
            en="our choice, 10 °C to where the model slows down: models differ, and 85 °C is cool for some",
            zh="自定，距该型号降频温度还有 10 °C：型号不同，85 °C 对某些型号并不算热",
        ),
    },
    needs=CLOCKS,
    signature=Signature(
        caption=Text(
            en="Hot or not, the same products take as long.",
            zh="无论是否高温，同样的矩阵乘耗时不变。",
        ),
        lanes=(
            Lane(Text(en="hot", zh="高温"), "..........xxxxxxxxxx"),
            Lane(DEVICE, "cccc.|cccc.|cccc.|cccc."),
        ),
    ),
)
