"""Batches as readable lines, one a series, for a person who watches."""

from __future__ import annotations

from datetime import datetime, timezone

from stepscope.model.batch import Batch, BatchOwner, Happened, Lines, Marks, Samples
from stepscope.model.signal import SIGNALS
from stepscope.model.text import Lang, Text

_STEPS = Text(en="steps", zh="步")
_VALUES = Text(en="{num} values", zh="{num} 个值")
_MARKS = Text(en="{num} marks", zh="{num} 条标记")
_LOST = Text(en="{num} lost", zh="丢失 {num} 条")
_OWN_FIRST = ("job", "run", "rank", "pod", "namespace", "container", "scheduler_job")
_NOT_SHOWN = frozenset(("run", "dcgm", "container_id", "pod_uid", "log"))


def lines(batch: Batch, lang: Lang = "en") -> list[str]:
    """What a batch says: of each series the newest value. Names of signals and events are those of the
    reference in any language."""
    if isinstance(batch, Samples):
        found = []
        for each in batch.series:
            if each.signal.startswith("agent_read"):
                continue  # of each source: for `/metrics`
            steps = f" {_STEPS.in_(lang)} {each.steps[0]}–{each.steps[1]}" if each.steps else ""
            count = f" ({_VALUES.in_(lang).format(num=len(each.value))})" if len(each.value) > 1 else ""
            value = f"{each.value[-1]:.6g} {_unit(each.signal)}".rstrip()
            found.append(
                f"{moment(each.at_ns[-1])} {batch.source} {_whose(each.owner)} {each.signal} {value}{count}"
                f"{_labels(each.labels)}{steps}"
            )
        return found
    if isinstance(batch, Marks):
        steps_ = [step for step in batch.step if step >= 0]
        span = f", {_STEPS.in_(lang)} {min(steps_)}–{max(steps_)}" if steps_ else ""
        lost = f", {_LOST.in_(lang).format(num=batch.num_lost)}" if batch.num_lost else ""
        marks = _MARKS.in_(lang).format(num=len(batch.number))
        rank = batch.identity.get("rank", "?")
        return [
            f"{moment(batch.real_ns[-1])} rings rank {rank}: {marks}{span}{lost}" for _ in batch.real_ns[-1:]
        ]
    if isinstance(batch, Happened):
        whose = f" {_whose(batch.owner)}" if batch.owner is not None else ""
        return [f"{moment(batch.at_ns)} {batch.what}{whose}: {batch.text}{_labels(batch.labels)}"]
    assert isinstance(batch, Lines)
    return [
        f"{moment(at)} {batch.log} {batch.name}: {text}"
        for at, text in zip(batch.at_ns, batch.text, strict=True)
    ]


def moment(at_ns: int) -> str:
    """`2026-01-31T08:48:19.123Z`."""
    seconds, rest = divmod(at_ns, 1_000_000_000)
    when = datetime.fromtimestamp(seconds, timezone.utc)
    return f"{when:%Y-%m-%dT%H:%M:%S}.{rest // 1_000_000:03d}Z"


def _unit(signal: str) -> str:
    row = SIGNALS.get(signal)
    return "" if row is None or row.unit in ("1", "ratio", "state", "mask", "code") else row.unit


def _whose(owner: BatchOwner) -> str:
    if owner.kind == "device":
        mig = f"/{owner.mig}" if owner.mig is not None else ""
        number = "?" if owner.index is None else str(owner.index)
        return f"device {number}{mig}"
    if owner.pid is not None:
        return f"process {owner.pid}"
    return f"{owner.kind} {owner.name or owner.host or ''}".rstrip()


def _labels(labels: dict[str, str]) -> str:
    known = [name for name in _OWN_FIRST if name in labels]
    others = sorted(name for name in labels if name not in known)
    shown = [f"{name}={labels[name]}" for name in (*known, *others) if name not in _NOT_SHOWN]
    return f" [{' '.join(shown)}]" if shown else ""
