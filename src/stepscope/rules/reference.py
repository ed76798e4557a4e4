"""Where thresholds come from, where several rules share the source."""

from __future__ import annotations

from stepscope.model.text import Text

LOW_SM_ACTIVE = Text(
    en="SageMaker Debugger's batch-size and bottleneck rules take 70 % as the line of low use",
    zh="SageMaker Debugger 的批次大小与瓶颈规则以 70 % 为低利用率界线",
)
BUSY_CORES = Text(
    en="SageMaker Debugger calls processors above 90 % a bottleneck",
    zh="SageMaker Debugger 将处理器利用率超过 90 % 视为瓶颈",
)
