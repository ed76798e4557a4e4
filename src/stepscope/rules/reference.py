"""Where thresholds come from, where several rules share the source."""

from __future__ import annotations

from stepscope.model.text import Text

LOW_SM_ACTIVE = Text(
    en="70 % is the line of low use of SageMaker Debugger's BatchSize and LowGPUUtilization rules, there for "
    "the 95th percentile of nvidia-smi's utilisation; that it serves for the mean of SM active is our choice",
    zh="70 % 是 SageMaker Debugger 的 BatchSize 与 LowGPUUtilization 规则的低利用率界线，"
    "原本针对 nvidia-smi 利用率的第 95 百分位；沿用于 SM active 的均值是本工具自定",
)
RECORDED_ONCE = Text(
    en="our choice, once: what a recorder or a stack shows of a rank needs no second one",
    zh="自定，一次：记录器或调用栈显示的情况无需第二次佐证",
)
BUSY_CORES = Text(
    en="SageMaker Debugger's CPUBottleneck rule: processors above 90 % while the GPU is below 10 %, in more "
    "than 50 % of the samples; only the 90 % is taken over",
    zh="SageMaker Debugger 的 CPUBottleneck 规则：超过 50 % 的样本中处理器高于 90 % 而 GPU 低于 10 %；"
    "此处只沿用 90 %",
)
OUR_FIVE_PERCENT = Text(
    en="our choice, a twentieth of the step: less is no more than a note",
    zh="自定，一步的二十分之一：低于此仅作提示",
)
TF32 = Text(
    en="our choice, a tenth of the step; PyTorch's documentation (CUDA semantics) says what TF32 gives "
    "and what it costs in precision",
    zh="自定，一步的十分之一；TF32 的收益与精度代价见 PyTorch 文档（CUDA semantics）",
)
NOTHING_TO_WIN = Text(
    en="our choice: below 3 % of the step nothing is to be won",
    zh="自定：不足一步的 3 % 没有可赢得的时间",
)
REASON_SHARE = Text(
    en="our choice, a tenth of the time under load: NVIDIA's NVML reference names the reasons and gives no "
    "share; nvidia_gpu_exporter's alerts ask for 5 minutes of it without a pause",
    zh="自定，负载时间的十分之一：NVIDIA 的 NVML 参考只给出降频原因而无比例；"
    "nvidia_gpu_exporter 的告警要求连续 5 分钟",
)
CLOCK_DROP = Text(
    en="our choice, a twentieth: a reason that leaves the clock where it is costs nothing",
    zh="自定，二十分之一：时钟没有变低的降频原因不造成损失",
)
SLOWER_PRODUCTS = Text(
    en="our choice: equal devices differ by a percent or two",
    zh="自定：同型设备相差一两个百分点",
)
HARDLY_BUSY = Text(
    en="our choice: a mean of 5 % over five minutes, half of the lower line of SageMaker Debugger's "
    "LowGPUUtilization rule, there for the 5th percentile",
    zh="自定：五分钟均值 5 %，为 SageMaker Debugger 的 LowGPUUtilization 规则下限的一半（原本针对第 5 "
    "百分位）",
)
MOSTLY_QUIET = Text(
    en="our choice, half of five minutes under 5 % busy: the device rests for longer than it works, whatever "
    "the mean; shorter pauses are judged by their share of the steps",
    zh="自定，五分钟中有一半低于 5 %：无论均值如何，设备休息的时间都多于工作；更短的停顿按其占步的比例判定",
)
MOST_OF_IT = Text(
    en="our choice, half of the time without work: then it is most of the reason",
    zh="自定，空闲时间的一半：此时它就是主要原因",
)
STANDSTILL = Text(
    en="our choice: half a minute, so that a slow step or a pause in a log is none yet",
    zh="自定：半分钟，慢步或日志的短暂停顿还不算",
)
HOST_KNOWN = Text(
    en="known at all: then busy-cores and cpu-quota have been judged",
    zh="只要已知：busy-cores 与 cpu-quota 即已判定",
)
BELOW_PEERS = Text(
    en="our choice: 30 points under the others, for devices of one job that do the same work differ by a few",
    zh="自定：比其他设备低 30 个百分点；同一作业中做相同工作的设备只相差几个百分点",
)
XID = Text(
    en="our choice, one: NVIDIA's Xid catalogue says what to do after each, and which end the work",
    zh="自定，一次：NVIDIA 的 Xid 目录说明每种之后该怎么做，以及哪些会终止工作",
)
MEMORY_ERRORS = Text(
    en="our choice, one: NVIDIA's guide to GPU memory errors says what each flag means and what to do",
    zh="自定，一次：NVIDIA 的 GPU 显存错误管理指南说明各标志的含义与处置",
)
NEARLY_FULL = Text(
    en="PyTorch Profiler's TensorBoard plugin advises to save memory where its peak is above 90 % of the "
    "device's",
    zh="PyTorch Profiler 的 TensorBoard 插件在显存峰值超过设备的 90 % 时建议节省显存",
)
LOW_POWER = Text(
    en="our choice, 60 % of the limit: a device that computes takes most of it, one that waits does not",
    zh="自定，功耗上限的 60 %：在计算的设备会用掉大部分，在等待的不会",
)
LINK_UNUSED = Text(
    en="our choice, a fiftieth: an NVLink that carries the collective is far above it",
    zh="自定，五十分之一：承载集合通信的 NVLink 远高于此",
)
BUS_INSTEAD = Text(
    en="our choice, a tenth: the bytes go over the bus instead",
    zh="自定，十分之一：数据改走了 PCIe",
)
TENSOR_PIPES_REST = Text(
    en="our choice, a twentieth of the cycles: products on tensor cores take many times that",
    zh="自定，周期的二十分之一：在 tensor core 上做矩阵乘会远高于此",
)
FP32_PIPE_WORKS = Text(
    en="our choice, a fifth of the cycles: products on the vector units keep their pipe busy",
    zh="自定，周期的五分之一：在向量单元上做矩阵乘会使其流水线繁忙",
)
