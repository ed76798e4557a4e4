"""The device lowers its clock under load because it is too hot.

Hot alone is no fault. Three things together are: a thermal reason from the driver, while the device works,
with a clock that is really lower. Products and attention slow down with the clock; what waits for memory
does not, so peers of one job drift apart only in the former.
"""

from stepscope.analyse.features.telemetry import (
    clock_bound_share,
    clock_drop_share,
    matrix_slowdown,
    sm_clock_share,
    temperature_celsius_max,
    temperature_margin_celsius,
    thermal_throttled_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import CLOCKS
from stepscope.rules.patch import QUERY_REASONS
from stepscope.rules.reference import REASON_SHARE, SLOWER_PRODUCTS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="thermal-throttle",
    cause="a device too hot for its clock",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    severity="warning",
    title=Text(
        en="The device lowers its clock under load because it is too hot",
        zh="设备过热，在负载下降低了时钟频率",
    ),
    explanation=Text(
        en="The driver gives a thermal reason while the device works, and the clock is lower then. Kernels "
        "that the clock bounds take longer; those that wait for memory do not.",
        zh="设备工作时驱动给出了温度原因，且时钟确实变低。受时钟限制的 kernel 变慢，等待显存的不受影响。",
    ),
    when=(thermal_throttled_share >= 0.10, clock_drop_share >= 0.05),
    corroborated_by=(matrix_slowdown >= 1.03,),
    cost=clock_bound_share,
    shows=(temperature_celsius_max, temperature_margin_celsius, sm_clock_share),
    checks=(
        Text(
            en="Is it this device alone, its node, or the whole row? One device: its cooler or its seat; a "
            "node: a fan; a row: the inlet air.",
            zh="是只有这块设备、整台节点，还是整排机柜？单块：散热器或安装；整台：风扇；整排：进风温度。",
        ),
        Text(
            en="Does the reason come and go with the load, or with the hour of the day?",
            zh="该原因随负载出现，还是随一天中的时段出现？",
        ),
        Text(
            en="Does the job wait for this rank in collectives? Then one hot device slows them all.",
            zh="作业是否在集合通信中等待该 rank？若是，一块过热的设备会拖慢全部。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Let the job run without this node until its airflow, fans and inlet temperature are put "
                "right.",
                zh="在修复风道、风扇与进风温度之前，让作业避开该节点。",
            ),
            clears=thermal_throttled_share <= 0.01,
            patch=QUERY_REASONS,
        ),
        Remedy(
            Text(
                en="Until then lower the power limit of all devices of the job by the same amount: equal "
                "clocks cost less than one that swings.",
                zh="在此之前，把作业所有设备的功耗上限降低相同幅度：频率一致比其中一块忽高忽低损失更小。",
            ),
            clears=thermal_throttled_share <= 0.01,
            patch=Patch(kind="command", after="nvidia-smi -pl WATTS  # the same on every device of the job"),
            is_partial=True,
        ),
    ),
    references={
        thermal_throttled_share: REASON_SHARE,
        clock_drop_share: Text(
            en="our choice, a twentieth: Greyhound (ATC 2025) found that a high temperature alone slows "
            "nothing, the clock under load must be lower",
            zh="自定，二十分之一：Greyhound（ATC 2025）指出仅温度高并不会变慢，负载下时钟必须真正变低",
        ),
        matrix_slowdown: SLOWER_PRODUCTS,
    },
    needs=CLOCKS,
    explains=("slow-rank",),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="While the driver gives the reason, the same products take longer.",
            zh="驱动给出降频原因期间，同样的矩阵乘变慢。",
        ),
        lanes=(
            Lane(Text(en="too hot", zh="过热"), "..........xxxxxxxxxxxxxx"),
            Lane(DEVICE, "cccc.|cccc.|ccccccc|ccccccc"),
        ),
    ),
)
