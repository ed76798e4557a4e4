"""The host stops for the device, and the device then stops for the host.

A `.item()`, a printed loss or a timer waits until the device has drained; the launches that should
have been issued meanwhile come late. What counts is the run-ahead that was lost, not the time in
the call.
"""

from stepscope.analyse.features import host_sync_share, idle_host_sync_share, sm_active_mean
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.reference import LOW_SM_ACTIVE
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

NO_ITEM = Patch(
    kind="code",
    before="running += loss.item()",
    after="running += loss.detach()  # .item() only in the steps that log",
)

RULE = Rule(
    id="hidden-sync",
    cause="host waits for the device inside the step",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(
        en="The host waits for the device in the step, and the device then runs dry",
        zh="主机在训练步内等待设备，随后设备因无任务而空转",
    ),
    explanation=Text(
        en="A synchronising call drains the device, and the launches that should have run ahead come late.",
        zh="同步调用使设备排空，本应提前下发的任务随之推迟。",
    ),
    when=(idle_host_sync_share >= 0.05,),
    corroborated_by=(sm_active_mean <= 0.70,),
    cost=idle_host_sync_share,
    shows=(host_sync_share,),
    checks=(
        Text(
            en='Run a few steps with torch.cuda.set_sync_debug_mode("warn"): it names the lines that wait.',
            zh='用 torch.cuda.set_sync_debug_mode("warn") 跑几步：它会指出发生等待的代码行。',
        ),
        Text(
            en="Look for .item(), .cpu(), print(loss), nonzero, boolean indexing and timers inside the loop.",
            zh="检查循环内的 .item()、.cpu()、print(loss)、nonzero、布尔索引和计时器。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Keep losses and metrics on the device and read them only in the steps that log.",
                zh="把损失和指标留在设备上，只在需要记录日志的步读取。",
            ),
            clears=idle_host_sync_share <= 0.02,
            patch=NO_ITEM,
        ),
    ),
    references={
        idle_host_sync_share: Text(
            en="PyTorch's performance tuning guide names avoidable synchronisation among the first "
            "things to remove; 5 % of a step is where a finding becomes a warning here",
            zh="PyTorch 性能调优指南把不必要的同步列为应先消除的问题；一步的 5 % "
            "是本工具由提示升为警告的界线",
        ),
        sm_active_mean: LOW_SM_ACTIVE,
    },
    needs=FEW_STEPS,
    signature=Signature(
        caption=Text(
            en="The host waits for the device, then the device waits for the host's next launch.",
            zh="主机先等设备，随后设备又要等主机的下一次下发。",
        ),
        lanes=(
            Lane(HOST, "lllsssss..lll..sss|lllsssss..lll..sss"),
            Lane(DEVICE, ".ccccccc...ccccccc|.ccccccc...ccccccc"),
        ),
    ),
    explains=("slow-rank",),
)
