"""Training stands still while a checkpoint is written.

The state is copied to the host, turned into a file and written, and only then the next step is launched.
What a checkpoint costs is its time over the steps between two of them: a short recording that holds one
overstates it.
"""

from stepscope.analyse.features import disk_written_share, idle_checkpoint_share, periodic_stall_steps
from stepscope.analyse.features.host import checkpoint_steps
from stepscope.analyse.features.telemetry import host_disk_written_bytes_per_second
from stepscope.model.text import Text
from stepscope.rules.capture import FEW_STEPS
from stepscope.rules.rule import Layer, OnHost, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

ASYNC_SAVE = Patch(
    kind="code",
    before="torch.distributed.checkpoint.save(state, checkpoint_id=path)",
    after="if saving is not None:\n    saving.result()  # of the save before\n"
    "saving = torch.distributed.checkpoint.async_save(state, checkpoint_id=path)",
)

RULE = Rule(
    id="checkpoint-stall",
    cause="training waits for checkpoints",
    layer=Layer.BUSINESS,
    about=Subject.RANK,
    verdict="other-stall",
    title=Text(en="The device waits while a checkpoint is written", zh="设备在等待写检查点"),
    explanation=Text(
        en="The loop saves the model and launches nothing until that is done. In a short recording one "
        "checkpoint weighs more than in the run: compare with the steps between two of them.",
        zh="训练循环在保存模型，完成之前没有任何下发。录制较短时一次检查点的占比会高于整个运行："
        "请与两次检查点之间的步数对照。",
    ),
    when=(idle_checkpoint_share >= 0.05,),
    corroborated_by=(disk_written_share >= 0.50,),
    cost=idle_checkpoint_share,
    shows=(checkpoint_steps, periodic_stall_steps, host_disk_written_bytes_per_second),
    checks=(
        Text(
            en="How many steps lie between two checkpoints of the run, and how many in this recording?",
            zh="实际运行中两次检查点相隔多少步？本次录制中又是多少步？",
        ),
        Text(
            en="Where does the time go: copies to the host, serialisation, or the file system? Shared "
            "storage is slower for many ranks at once.",
            zh="时间花在哪里：拷回主机、序列化，还是文件系统？多个 rank 同时写共享存储会更慢。",
        ),
        Text(
            en="Does every rank write, or one for all while the others wait?",
            zh="是每个 rank 都写，还是一个写、其他都在等？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Write checkpoints in the background: only the copy to the host is left in the loop. Wait "
                "for the copy before the step that changes the state.",
                zh="在后台写检查点：循环中只剩拷回主机的时间。在改变状态的那一步之前要等拷贝完成。",
            ),
            clears=idle_checkpoint_share <= 0.02,
            patch=ASYNC_SAVE,
        ),
        Remedy(
            Text(
                en="Write to local disk first, and copy to shared storage beside the training.",
                zh="先写到本地盘，再与训练并行地拷到共享存储。",
            ),
            clears=idle_checkpoint_share <= 0.02,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Save less often: several steps of this recording write a checkpoint.",
                zh="降低保存频率：本次录制中有多个步在写检查点。",
            ),
            only_if=(checkpoint_steps >= 2,),
            clears=idle_checkpoint_share <= 0.02,
        ),
    ),
    references={
        idle_checkpoint_share: Text(
            en="synchronous checkpoints are 16 % of the issues of An Empirical Study on Low GPU "
            "Utilization (ICSE 2024), with 96 s of a 168 s epoch in one of them; 5 % is where a finding "
            "becomes a warning here",
            zh="同步检查点占 An Empirical Study on Low GPU Utilization（ICSE 2024）所列问题的 16 %，"
            "其中一例在 168 秒的 epoch 中占 96 秒；5 % 是本工具由提示升为警告的界线",
        ),
        checkpoint_steps: Text(
            en="our choice: two in one recording can be made fewer, of one nobody knows how often it comes",
            zh="自定：一次录制中有两次即可减少，只有一次则无从知道间隔",
        ),
        disk_written_share: Text(
            en="our choice, half of the slow steps write: the coincidence is no accident",
            zh="自定，一半的慢步都在写盘：并非巧合",
        ),
    },
    needs=FEW_STEPS,
    explains=("idle-in-checkpoint", "periodic-stall", "slow-rank"),
    explains_peers=("waiting-for-peers",),
    on_host=OnHost(
        title=Text(en="Training stands still while a checkpoint is written", zh="训练在写检查点期间停住"),
        explanation=Text(
            en="The loop saves the model and makes no step until that is done.",
            zh="训练循环在保存模型，完成之前不再推进。",
        ),
        checks=(
            Text(
                en="Where does its time go: copies to the host, serialisation, or the file system? Shared "
                "storage is "
                "slower for many ranks at once.",
                zh="时间花在哪里：拷回主机、序列化，还是文件系统？多个 rank 同时写共享存储会更慢。",
            ),
            Text(
                en="Does every rank write, or one for all while the others wait?",
                zh="是每个 rank 都写，还是一个写、其他都在等？",
            ),
        ),
        remedies=(
            Remedy(
                Text(
                    en="Write checkpoints in the background: only the copy of the state is left in the loop.",
                    zh="在后台写检查点：循环中只剩复制状态的时间。",
                ),
                clears=idle_checkpoint_share <= 0.02,
                patch=ASYNC_SAVE,
            ),
            Remedy(
                Text(
                    en="Save less often, or to local disk first.",
                    zh="降低保存频率，或先写到本地盘。",
                ),
                clears=idle_checkpoint_share <= 0.02,
                is_partial=True,
            ),
        ),
    ),
    signature=Signature(
        caption=Text(
            en="Every so many steps the loop saves, and the device has nothing to do until it is done.",
            zh="每隔若干步循环要保存一次，完成之前设备无事可做。",
        ),
        lanes=(
            Lane(HOST, "ll..|ll..|ll..wwwwww|ll..|ll..|ll..wwwwww"),
            Lane(DEVICE, "cccc|cccc|ccccmm....|cccc|cccc|ccccmm...."),
        ),
    ),
)
