"""The device waits inside an evaluation.

An evaluation that keeps the device computing is planned work, and no stall. One that computes its metric on
the host, reads every result back or uploads it leaves the device idle.
"""

from stepscope.analyse.features import idle_eval_share, periodic_stall_steps
from stepscope.analyse.features.host import eval_steps
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, OnHost, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

ON_DEVICE = Patch(
    kind="code",
    before="for batch in val_loader:\n    correct += metric(model(batch).cpu(), batch.labels)",
    after="for batch in val_loader:\n    correct += metric(model(batch), batch.labels)  # on the device\n"
    "result = correct.item()  # once, at the end",
)

RULE = Rule(
    id="eval-stall",
    cause="evaluation leaves the device idle",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device idles inside an evaluation", zh="评测期间设备空闲"),
    explanation=Text(
        en="What is counted is idle time only: an evaluation that computes on the device costs nothing "
        "here. In a short recording one evaluation weighs more than in the run.",
        zh="这里只计空闲时间：在设备上计算的评测不计入。录制较短时一次评测的占比会高于整个运行。",
    ),
    when=(idle_eval_share >= 0.05,),
    cost=idle_eval_share,
    shows=(eval_steps, periodic_stall_steps),
    checks=(
        Text(
            en="What does the host do in it: a metric on the processor, the loader of the validation set, an "
            "upload?",
            zh="期间主机在做什么：在处理器上算指标、加载验证集，还是上传结果？",
        ),
        Text(
            en="If the metric runs on the processor, how many threads may it use (OMP_NUM_THREADS)?",
            zh="如果指标在处理器上计算，它可用几个线程（OMP_NUM_THREADS）？",
        ),
        Text(
            en="How many steps lie between two evaluations of the run, and how many in this recording?",
            zh="实际运行中两次评测相隔多少步？本次录制中又是多少步？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Keep the metric on the device, and read it once at the end of the evaluation.",
                zh="把指标留在设备上计算，评测结束时只读取一次。",
            ),
            clears=idle_eval_share <= 0.02,
            patch=ON_DEVICE,
        ),
        Remedy(
            Text(
                en="Give the validation loader workers and a batch size of its own: without gradients more "
                "fits into memory.",
                zh="为验证集加载器单独设置 worker 和批大小：没有梯度时显存可容纳更大的批。",
            ),
            clears=idle_eval_share <= 0.02,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Evaluate less often: several steps of this recording do.",
                zh="降低评测频率：本次录制中有多个步在评测。",
            ),
            only_if=(eval_steps >= 2,),
            clears=idle_eval_share <= 0.02,
        ),
    ),
    references={
        idle_eval_share: Text(
            en="evaluation and the upload of metrics inside the loop are 2 % of the issues of An Empirical "
            "Study on Low GPU Utilization (ICSE 2024); 5 % is where a finding becomes a warning here",
            zh="循环内的评测与指标上传占 An Empirical Study on Low GPU Utilization（ICSE 2024）"
            "所列问题的 2 %；5 % 是本工具由提示升为警告的界线",
        ),
        eval_steps: Text(
            en="our choice: two in one recording can be made fewer, of one nobody knows how often it comes",
            zh="自定：一次录制中有两次即可减少，只有一次则无从知道间隔",
        ),
    },
    needs=FEW_STEPS,
    explains=("idle-in-evaluation", "periodic-stall", "slow-rank"),
    explains_peers=("waiting-for-peers",),
    on_host=OnHost(
        title=Text(en="Training stands still while an evaluation runs", zh="训练在评测期间停住"),
        explanation=Text(
            en="All of the evaluation's time counts here, whatever it computes: it may be planned work.",
            zh="这里计入评测的全部时间，不论其内部在算什么：它可能是计划内的工作。",
        ),
        checks=(
            Text(
                en="What does it do: the model, a metric on the processor, the loader of the validation "
                "set, an "
                "upload? A trace of one evaluation tells.",
                zh="它在做什么：模型计算、处理器上的指标、验证集加载，还是上传？录一次评测的 trace "
                "即可知道。",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Evaluate less often, on fewer samples, or beside the training.",
                    zh="降低评测频率、减少样本，或与训练并行地评测。",
                ),
                clears=idle_eval_share <= 0.02,
                is_partial=True,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="Within the evaluation the device works for a moment and waits for the host's part of it.",
            zh="评测期间设备只工作片刻，其余时间在等主机完成它的部分。",
        ),
        lanes=(
            Lane(HOST, "ll..|ll..|leeeeeleeeeeleeeee|ll..|ll.."),
            Lane(DEVICE, "cccc|cccc|.cc....cc....cc...|cccc|cccc"),
        ),
    ),
)
