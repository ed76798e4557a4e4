"""The power limit holds the clock down, and products take longer for it.

At full load that is how a large accelerator works: its rated limit lets it run a little below its highest
clock. It is a cause where the clock is well below, and where the trace has products for the clock to slow.
"""

from stepscope.analyse.features.telemetry import (
    clock_bound_share,
    clock_loss_share,
    power_braked_share,
    power_capped_share,
    power_limit_rated_share,
    power_limit_share_loaded,
    power_watts_mean,
    sm_clock_share,
    thermal_throttled_share,
)
from stepscope.model.text import Text
from stepscope.rules.capture import CLOCKS
from stepscope.rules.reference import NOTHING_TO_WIN, REASON_SHARE
from stepscope.rules.rule import Layer, Patch, Reading, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, Lane, Signature

RULE = Rule(
    id="power-cap",
    cause="a power limit that holds the clock down",
    layer=Layer.HARDWARE,
    about=Subject.DEVICE,
    verdict="computing-slowly",
    title=Text(en="The power limit holds the device's clock down", zh="功耗上限压低了设备的时钟频率"),
    explanation=Text(
        en="The driver lowers the clock so that the board stays within its power limit. Products and "
        "attention take as much longer; at the rated limit a few percent of it are normal.",
        zh="驱动为使整卡不超过功耗上限而降低时钟，矩阵乘与注意力相应变慢；在额定上限下有几个百分点属正常。",
    ),
    when=(power_capped_share >= 0.10, clock_loss_share >= 0.08, clock_bound_share >= 0.03),
    unless=(power_braked_share >= 0.05, thermal_throttled_share >= 0.10),
    corroborated_by=(power_limit_rated_share <= 0.95, power_limit_share_loaded >= 0.95),
    cost=clock_bound_share,
    readings=(
        Reading(
            Text(
                en="The power limit is set below the model's rating, and holds the clock down",
                zh="功耗上限低于该型号的额定值，压低了时钟频率",
            ),
            only_if=(power_limit_rated_share <= 0.95,),
        ),
    ),
    shows=(sm_clock_share, power_watts_mean),
    checks=(
        Text(
            en="Is the enforced limit the model's own (nvidia-smi -q -d POWER)? A script for another model "
            "may have set it.",
            zh="生效的上限是否为该型号自身的额定值（nvidia-smi -q -d POWER）？可能是为其他型号写的脚本所设。",
        ),
        Text(
            en="Is the board near its limit when it is capped? A cap far below the limit points at the feed, "
            "the power supply or the sensor.",
            zh="被限制时整卡功耗是否接近上限？若远低于上限，应检查供电、电源或传感器。",
        ),
        Text(
            en="Is it all devices or one? One alone that is capped earlier draws more for the same work.",
            zh="是所有设备还是单独一块？若单独一块更早被限制，说明它做同样的工作耗电更多。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Raise the power limit to the model's rating, where cooling and feed allow it.",
                zh="在散热与供电允许时，把功耗上限恢复到该型号的额定值。",
            ),
            only_if=(power_limit_rated_share <= 0.95,),
            clears=clock_bound_share <= 0.01,
            patch=Patch(kind="command", after="nvidia-smi -pl WATTS  # the rated limit of this model"),
        ),
        Remedy(
            Text(
                en="At the rated limit, accept it, or spread the load: fewer devices at their limit in one "
                "rack, less work per product (a lower precision).",
                zh="若已是额定上限，则接受，或分散负载：减少同一机柜内同时到上限的设备，"
                "或用更低精度减少运算量。",
            ),
            unless=(power_limit_rated_share <= 0.95,),
            clears=clock_bound_share <= 0.01,
            is_partial=True,
        ),
    ),
    references={
        power_capped_share: REASON_SHARE,
        clock_loss_share: Text(
            en="our choice: at the rated limit a large accelerator runs some percent below its highest clock",
            zh="自定：在额定上限下，大型加速器的时钟本就比最高值低几个百分点",
        ),
        clock_bound_share: NOTHING_TO_WIN,
        power_braked_share: Text(
            en="our choice: where the machine's brake is set, power-brake speaks",
            zh="自定：整机功率制动生效时由 power-brake 报告",
        ),
        thermal_throttled_share: Text(
            en="our choice: where heat lowers the clock too, thermal-throttle speaks",
            zh="自定：温度也压低时钟时由 thermal-throttle 报告",
        ),
        power_limit_rated_share: Text(
            en="our choice: 5 % below the model's rating is set, not rounded",
            zh="自定：低于额定值 5 % 即为人为设置，而非取整",
        ),
        power_limit_share_loaded: Text(
            en="our choice: a board within 5 % of its limit is at it",
            zh="自定：距上限不足 5 % 即为到达上限",
        ),
    },
    needs=CLOCKS,
    explains=("slow-rank",),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="Where products run the board is at its limit, and they take longer.",
            zh="运行矩阵乘时整卡功耗到达上限，耗时变长。",
        ),
        lanes=(
            Lane(Text(en="at the limit", zh="到达上限"), ".xxxxxx..xxxxxx..xxxxxx."),
            Lane(DEVICE, "cccccccc|cccccccc|cccccccc"),
        ),
    ),
)
