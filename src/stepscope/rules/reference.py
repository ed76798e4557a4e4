"""Where thresholds come from, where several rules share the source."""

from __future__ import annotations

from stepscope.model.text import Text

LOW_SM_ACTIVE = Text(
    en="70 % is the line of low use of SageMaker Debugger's BatchSize and LowGPUUtilization rules, there for "
    "the 95th percentile of nvidia-smi's utilisation; that it serves for the mean of SM active is our choice",
    zh="70 % 是 SageMaker Debugger 的 BatchSize 与 LowGPUUtilization 规则的低利用率界线，"
    "原本针对 nvidia-smi 利用率的第 95 百分位；沿用于 SM active 的均值是本工具自定",
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
