"""The device waits while the host writes logs.

A tracker, a progress bar, histograms of all weights: each call costs little, and in short steps little is
much. A loss that is read for a log costs a wait for the device besides; that is hidden-sync.
"""

from stepscope.analyse.features import host_sync_share, idle_logging_share, periodic_stall_steps
from stepscope.analyse.features.host import logging_steps
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, OnHost, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

SELDOM = Patch(
    kind="code",
    before="tracker.log(metrics)",
    after="if step % 50 == 0:\n    tracker.log(metrics)",
)

RULE = Rule(
    id="logging-stall",
    cause="logging in the training loop",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device waits while the host writes logs", zh="设备在等待主机写日志"),
    explanation=Text(
        en="Logging, trackers or progress bars run in the loop, and nothing is launched meanwhile. The "
        "cost is by call, so it weighs most where steps are short.",
        zh="日志、实验跟踪或进度条在训练循环中运行，期间没有任何下发。开销按调用计，步越短占比越高。",
    ),
    when=(idle_logging_share >= 0.05,),
    cost=idle_logging_share,
    shows=(logging_steps, periodic_stall_steps, host_sync_share),
    checks=(
        Text(
            en="Which call is it: a tracker that writes or sends at once, histograms of weights and "
            "gradients, or print?",
            zh="是哪个调用：立即写入或发送的跟踪器、权重与梯度的直方图，还是 print？",
        ),
        Text(
            en="Does the time grow over the run? Some trackers keep all that was logged.",
            zh="耗时是否随运行增长？有的跟踪器会保留全部已记录的内容。",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Log every so many steps, and let the tracker send in the background.",
                zh="每隔若干步记录一次，并让跟踪器在后台发送。",
            ),
            unless=(logging_steps <= 1,),
            clears=idle_logging_share <= 0.02,
            patch=SELDOM,
        ),
        Remedy(
            Text(
                en="One step of this recording logs: make that call cheaper (fewer histograms, a background "
                "thread).",
                zh="本次录制中只有一步写日志：请减轻这次调用（减少直方图，或放到后台线程）。",
            ),
            only_if=(logging_steps <= 1,),
            clears=idle_logging_share <= 0.02,
        ),
    ),
    references={
        idle_logging_share: Text(
            en="uploads of metrics inside the loop are among the issues of An Empirical Study on Low GPU "
            "Utilization (ICSE 2024); 5 % is where a finding becomes a warning here",
            zh="循环内上传指标是 An Empirical Study on Low GPU Utilization（ICSE 2024）所列问题之一；"
            "5 % 是本工具由提示升为警告的界线",
        ),
        logging_steps: Text(
            en="our choice: what one step does cannot be done less often within this recording",
            zh="自定：只有一步写日志时，无法从本次录制判断能否减少次数",
        ),
    },
    needs=FEW_STEPS,
    explains=("periodic-stall", "slow-rank"),
    on_host=OnHost(
        title=Text(en="The training loop waits for its own logging", zh="训练循环在等待写日志"),
        explanation=Text(
            en="Logging, trackers or progress bars run in the loop, and no step goes on meanwhile.",
            zh="日志、实验跟踪或进度条在训练循环中运行，期间不再推进。",
        ),
        checks=(
            Text(
                en="Which call is it: a tracker that writes or sends at once, histograms of weights and "
                "gradients, or "
                "print?",
                zh="是哪个调用：立即写入或发送的跟踪器、权重与梯度的直方图，还是 print？",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Log every so many steps, and let the tracker send in the background.",
                    zh="每隔若干步记录一次，并让跟踪器在后台发送。",
                ),
                clears=idle_logging_share <= 0.02,
                patch=SELDOM,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="The step is over, the host writes its logs, and the next launch comes after them.",
            zh="一步结束后主机写日志，之后才有下一次下发。",
        ),
        lanes=(
            Lane(HOST, "lll......ooo|lll......ooo|lll......ooo"),
            Lane(DEVICE, ".cccccccc...|.cccccccc...|.cccccccc..."),
        ),
    ),
)
