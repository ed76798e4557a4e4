"""The loader waits for the disk.

The device waits for its batch, and the host meanwhile for storage: pages that are read in when they are
touched, and processors idle with a request outstanding. More workers would ask for more of the same.
"""

from stepscope.analyse.features import idle_input_share
from stepscope.analyse.features.telemetry import (
    host_disk_busy_share,
    host_disk_read_bytes_per_second,
    host_iowait_share,
    host_major_faults_per_second,
    host_memory_used_share,
    major_faults_with_loader,
)
from stepscope.model.text import Text
from stepscope.rules.capture import HOST_COUNTERS
from stepscope.rules.rule import Layer, Patch, Remedy, Rule, Subject
from stepscope.rules.signature import DEVICE, HOST, Lane, Signature

RULE = Rule(
    id="slow-storage",
    cause="storage too slow for the loader",
    layer=Layer.HOST,
    about=Subject.RANK,
    verdict="waiting-for-data",
    title=Text(
        en="The device waits for batches that the loader waits for storage for",
        zh="设备在等批次，而数据加载在等存储",
    ),
    explanation=Text(
        en="While the device waits for input the host reads pages from disk and its processors are idle with "
        "requests outstanding. The loader has cores enough; storage does not answer fast enough.",
        zh="设备等待输入期间，主机在从磁盘读页，处理器空闲但有未完成的磁盘请求。加载不缺核，"
        "是存储响应不够快。",
    ),
    when=(idle_input_share >= 0.03, host_major_faults_per_second >= 100, host_iowait_share >= 0.05),
    corroborated_by=(major_faults_with_loader >= 0.50, host_disk_busy_share >= 0.50),
    cost=idle_input_share,
    shows=(host_disk_read_bytes_per_second, host_memory_used_share),
    checks=(
        Text(
            en="Read the same samples twice in a row: if the second time is fast, it is storage and the page "
            "cache; if not, it is decoding.",
            zh="连续两次读取同样的样本：第二次变快说明瓶颈在存储与页缓存，否则在解码。",
        ),
        Text(
            en="Is it the first epoch only? Then the cache was cold.",
            zh="是否只有第一个 epoch 如此？若是，缓存尚未预热。",
        ),
        Text(
            en="Where do the samples lie: a shared file system, a disk of the node, memory? And how large is "
            "one read?",
            zh="样本在哪里：共享文件系统、本地盘还是内存？单次读取多大？",
        ),
    ),
    remedies=(
        Remedy(
            Text(
                en="Copy the data to a disk of the node before training, or let a cache do it.",
                zh="训练前把数据拷贝到本地盘，或使用缓存。",
            ),
            clears=idle_input_share <= 0.01,
            patch=Patch(kind="command", after="rsync -a SHARED_DATA/ /local_nvme/data/"),
        ),
        Remedy(
            Text(
                en="Pack samples into large files that are read from front to back, instead of many small "
                "ones at random.",
                zh="把样本打包成大文件顺序读取，而不是随机读取大量小文件。",
            ),
            clears=idle_input_share <= 0.01,
            is_partial=True,
        ),
        Remedy(
            Text(
                en="Leave the page cache more memory: fewer workers with smaller copies, no second copy of "
                "the data in the process.",
                zh="给页缓存留更多内存：减少 worker 与其副本，不要在进程内再存一份数据。",
            ),
            clears=idle_input_share <= 0.01,
            is_partial=True,
        ),
    ),
    references={
        idle_input_share: Text(
            en="our choice, below the 10 % of TraceML's warning, for here the host names the cause; remote "
            "reads are 3 % of the issues of An Empirical Study on Low GPU Utilization (ICSE 2024)",
            zh="自定，低于 TraceML 的 10 % 告警线，因为主机侧已指明原因；远程读取占 An Empirical Study on "
            "Low GPU "
            "Utilization（ICSE 2024）所列问题的 3 %",
        ),
        host_major_faults_per_second: Text(
            en="our choice: a host whose data are in memory has a few in a second",
            zh="自定：数据已在内存中的主机每秒只有个位数",
        ),
        host_iowait_share: Text(
            en="our choice, a twentieth of all processor time: on a host of many cores a few waiting threads "
            "are no more; SageMaker Debugger's IOBottleneck rule asks for 50 %",
            zh="自定，全部处理器时间的二十分之一：多核主机上少数等待线程只占这么多；"
            "SageMaker Debugger 的 IOBottleneck 规则取 50 %",
        ),
        major_faults_with_loader: Text(
            en="our choice: faults and waiting for input rise and fall together",
            zh="自定：缺页与等待输入同升同降",
        ),
        host_disk_busy_share: Text(
            en="our choice, half of the time: a disk that is the limit is rarely idle",
            zh="自定，一半的时间：成为瓶颈的磁盘很少空闲",
        ),
    },
    needs=HOST_COUNTERS,
    explains=("input-starvation", "irregular-pauses", "periodic-stall", "slow-rank"),
    explains_peers=("waiting-for-peers",),
    signature=Signature(
        caption=Text(
            en="The loader stands still for the disk, and the device for the loader.",
            zh="加载等磁盘，设备等加载。",
        ),
        lanes=(
            Lane(Text(en="disk", zh="磁盘"), "xxxxxx....|xxxxxx...."),
            Lane(HOST, "ddddddlll.|ddddddlll."),
            Lane(DEVICE, "......cccc|......cccc"),
        ),
    ),
)
