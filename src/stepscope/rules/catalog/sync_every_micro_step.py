"""Gradients are reduced after every micro-step, and used only after the last.

With accumulation the optimizer runs once for several forward and backward passes. Unless told otherwise, the
wrapper reduces after each of them: all but the last exchange is for nothing.
"""

from stepscope.analyse.features import exposed_communication_share
from stepscope.analyse.features.communication import gradient_syncs_per_update, repeated_sync_share
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.patch import NO_SYNC
from stepscope.rules.rule import Layer, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="sync-every-micro-step",
    cause="gradients reduced after every micro-step",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="waiting-for-communication",
    title=Text(
        en="Gradients are reduced after every micro-step, though the optimizer uses only the last",
        zh="每个微步之后都在归约梯度，而优化器只使用最后一次的结果",
    ),
    explanation=Text(
        en="Several micro-steps before one step of the optimizer each exchange gradients, as the last does. "
        "All but the last exchange could be left out: gradients add up locally meanwhile.",
        zh="一次优化器更新之前有多个微步，每个微步都像最后一个那样交换梯度。"
        "除最后一次外都可以省去：期间梯度在本地累加即可。",
    ),
    when=(gradient_syncs_per_update >= 2, repeated_sync_share >= 0.02),
    cost=repeated_sync_share,
    shows=(exposed_communication_share,),
    checks=(
        Text(
            en="Is no_sync() around the forward pass too? Around backward alone it changes nothing.",
            zh="no_sync() 是否也包住了前向？只包住反向不起作用。",
        ),
        Text(
            en="Is it accumulation at all? Two losses with a backward pass each before one update look the "
            "same, and the first of them needs no exchange either.",
            zh="是否真的是梯度累积？一次更新之前有两个损失各做一次反向也是这种形态，其中第一次同样无需交换。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Leave the exchange out of all micro-steps but the last.",
                zh="除最后一个微步外，其余微步都不做归约。",
            ),
            clears=repeated_sync_share <= 0.005,
            patch=NO_SYNC,
        ),
    ),
    references={
        gradient_syncs_per_update: Text(
            en="our choice: more than one exchange for an update is one too many",
            zh="自定：一次更新只需一次交换，多于一次即为多余",
        ),
        repeated_sync_share: Text(
            en="our choice, 2 % of the step: the exchange is for nothing, and leaving it out costs a line",
            zh="自定，一步的 2 %：这些交换毫无用处，省去只需改一行",
        ),
    },
    needs=FEW_STEPS,
    explains=("communication-bound", "exposed-communication", "tiny-collectives"),
    signature=Signature(
        caption=Text(
            en="The same exchange after each of the micro-steps; the optimizer comes after the last.",
            zh="每个微步之后都有同样的交换；优化器只在最后一个之后运行。",
        ),
        lanes=(
            Lane(HOST, "ll......ll......ll......ll......l.|ll......"),
            Lane(DEVICE, "cccccnnncccccnnncccccnnncccccnnncc|cccccnnn"),
        ),
    ),
)
