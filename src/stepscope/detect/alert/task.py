"""Conditions of the task: steps, processes, losses, collectives, checkpoints. See `table`."""

from __future__ import annotations

from stepscope.detect.alert.condition import MINUTE_NS, SECOND_NS, Condition
from stepscope.model.text import Text

_SPEC = "published default of the specification"

TASK: tuple[Condition, ...] = (
    Condition(
        id="hang", level="task", how="elsewhere", severity="critical", feature="no_step_seconds", unit="s",
        threshold=30.0, title=Text("No step advances", "步不再推进"),
        text=Text("{who}: no step for {value}", "{who}：已 {value} 没有新的步"),
        needs="marked steps", reference="no step for max(30 s, 3 × the learned tail) (detect.hang)",
    ),
    Condition(
        id="process-gone", level="task", how="elsewhere", severity="critical", feature="exit", unit="1",
        title=Text("A process is gone", "进程消失"),
        text=Text("{who}: ended without a word", "{who}：未留任何信息即结束"),
        needs="step rings, which a living process holds", reference="detect.hang",
    ),
    Condition(
        id="never-started", level="task", how="elsewhere", severity="warning", feature="start", unit="1",
        title=Text("Never came to a step", "始终没有开始训练步"),
        text=Text("{who}: marked its start and no step for {value}",
                  "{who}：已启动，但 {value} 内没有任何步"),
        needs="step rings", reference="detect.hang",
    ),
    Condition(
        id="agent-silent", level="task", how="elsewhere", severity="warning", feature="silence_seconds",
        unit="s",
        title=Text("An agent is silent", "采集代理静默"),
        text=Text("{who}: nothing was heard of its agent for {value}: nothing is known of its ranks",
                  "{who}：已 {value} 未收到其代理的消息：其 rank 状态未知"),
        needs="an agent that was heard before", reference="detect.hang",
    ),
    Condition(
        id="loss-not-finite", level="task", how="task", severity="critical", feature="loss", unit="1",
        clear_for_ns=MINUTE_NS, title=Text("The loss is no number", "损失不是有限值"),
        text=Text("{who}: the loss is {value}", "{who}：损失为 {value}"),
        needs="a logged loss", reference=_SPEC + ": loss not updated",
    ),
    Condition(
        id="loss-not-updated", level="task", how="task", severity="warning", feature="loss", unit="1",
        for_ns=2 * MINUTE_NS, clear_for_ns=10 * SECOND_NS,
        title=Text("The loss does not change", "损失不再更新"),
        text=Text("{who}: steps advance and the loss stays at {value} for 20 steps and {held}",
                  "{who}：步在推进，但损失在 20 步、{held} 内一直为 {value}"),
        needs="a logged loss", reference=_SPEC,
    ),
    Condition(
        id="collective-timeout", level="task", how="event", severity="critical", feature="nccl_watchdog",
        unit="1", clear_for_ns=10 * MINUTE_NS,
        title=Text("A collective timed out", "集合通信超时"),
        text=Text("{who}: a collective timed out: {value}", "{who}：集合通信超时：{value}"),
        needs="the log that NCCL or the framework's watchdog writes",
        reference="PyTorch's NCCL watchdog: 10 min by default",
    ),
    Condition(
        id="checkpoint-stuck", level="task", how="task", severity="critical", feature="checkpoint_seconds",
        unit="s", threshold=600.0, title=Text("A checkpoint does not end", "检查点迟迟未完成"),
        text=Text("{who}: in a checkpoint for {value}, the longest so far took {normal}",
                  "{who}：检查点已持续 {value}，此前最长 {normal}"),
        needs="marked phase checkpoint",
        reference="max(10 min, 3 × the longest before); measured checkpoints take 96 s of a 168 s epoch",
    ),
)  # fmt: skip
