"""Sentences of a report, in both languages. Numbers come in; what is true was decided elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from stepscope.analyse.features import Absence
from stepscope.model import report
from stepscope.model.feature import Clause
from stepscope.model.text import Lang, Text, duration, number, percent
from stepscope.rules.rule import Clear

VERDICT: Mapping[report.VerdictClass, Text] = {
    "waiting-for-data": Text(en="Waiting for data", zh="等待数据"),
    "waiting-for-communication": Text(en="Waiting for communication", zh="等待通信"),
    "computing-slowly": Text(en="Computing slowly", zh="计算慢"),
    "other-stall": Text(en="Other stall", zh="其他停顿"),
    "healthy": Text(en="Healthy", zh="健康"),
    "undecided": Text(en="Undecided", zh="无法判定"),
}

ORIGIN: Mapping[report.Origin, Text] = {
    "trace": Text(en="trace", zh="trace"),
    "telemetry": Text(en="telemetry", zh="遥测"),
    "host": Text(en="host counters", zh="主机计数器"),
    "job": Text(en="job data", zh="作业数据"),
    "log": Text(en="logs", zh="日志"),
    "memory": Text(en="memory events", zh="显存记录"),
}

PART: Mapping[str, Text] = {
    "compute": Text(en="computing", zh="计算"),
    "communication_exposed": Text(en="communication that nothing hides", zh="未被掩盖的通信"),
    "copy_exposed": Text(en="copies that nothing hides", zh="未被掩盖的拷贝"),
    "idle": Text(en="idle", zh="空闲"),
    "idle.queued": Text(en="idle before work already issued", zh="空闲：任务已下发"),
    "idle.input": Text(en="idle, waiting for input", zh="空闲：等待输入数据"),
    "idle.preprocess": Text(en="idle, host prepares the batch", zh="空闲：主机预处理批次"),
    "idle.host_sync": Text(en="idle, host had waited for the device", zh="空闲：主机同步等待"),
    "idle.copy_wait": Text(en="idle, host in blocking copies", zh="空闲：主机阻塞于拷贝"),
    "idle.allocator": Text(en="idle, memory allocation", zh="空闲：显存分配"),
    "idle.gc": Text(en="idle, garbage collection", zh="空闲：垃圾回收"),
    "idle.compile": Text(en="idle, compilation", zh="空闲：编译"),
    "idle.checkpoint": Text(en="idle, checkpoint", zh="空闲：写检查点"),
    "idle.eval": Text(en="idle, evaluation", zh="空闲：评测"),
    "idle.logging": Text(en="idle, logging", zh="空闲：写日志"),
    "idle.launch": Text(en="idle, host issues ops", zh="空闲：主机下发算子"),
    "idle.peer": Text(en="idle, waiting for other ranks", zh="空闲：等待其他 rank"),
    "idle.profiler": Text(en="idle, the profiler's own work", zh="空闲：分析器自身开销"),
    "idle.python": Text(en="idle, Python code without ops", zh="空闲：无算子的 Python 代码"),
    "idle.unknown": Text(en="idle, unknown cause", zh="空闲：原因未知"),
}

HOST_PART: Mapping[str, Text] = {
    "compute": Text(en="ops on the host", zh="主机算子"),
    "communication_exposed": Text(en="communication on the host", zh="主机上的通信"),
    "copy_exposed": Text(en="copies on the host", zh="主机上的拷贝"),
    "idle.preprocess": Text(en="preparing the batch", zh="预处理批次"),
}
"""Parts of a run without a device; idle causes not named here only lose the word *idle*."""

MARKED_PART: Mapping[str, Text] = {
    "compute": Text(en="forward, backward and optimizer", zh="前向、反向与优化器"),
    "communication_exposed": Text(en="waiting for other ranks and communicating", zh="等待其他 rank 与通信"),
    "idle.python": Text(en="host code outside of the marked phases", zh="标记阶段之外的主机代码"),
    "idle.unknown": Text(en="in no marked phase", zh="不在任何标记阶段内"),
}
"""Parts of a training loop that only its marks tell of."""


def part_of(row: report.Accounting, name: str) -> Text:
    """What a part of this row is called."""
    if row.device.kind == "marks" and name in MARKED_PART:
        return MARKED_PART[name]
    if row.device.kind not in report.HOST_KINDS:
        return PART[name]
    known = HOST_PART.get(name)
    plain = PART[name]
    return known or Text(en=plain.en.removeprefix("idle, "), zh=plain.zh.removeprefix("空闲："))


PHASE: Mapping[str, Text] = {
    "init": Text(en="init", zh="初始化"),
    "data": Text(en="data", zh="取数据"),
    "forward": Text(en="forward", zh="前向"),
    "backward": Text(en="backward", zh="反向"),
    "optimizer": Text(en="optimizer", zh="优化器"),
    "checkpoint": Text(en="checkpoint", zh="检查点"),
    "eval": Text(en="eval", zh="评测"),
    "logging": Text(en="logging", zh="日志"),
    "other": Text(en="other", zh="其他"),
    "gc": Text(en="gc", zh="垃圾回收"),
    "compile": Text(en="compile", zh="编译"),
    "communication": Text(en="communication", zh="通信"),
    "profiler": Text(en="profiler", zh="分析器"),
}
"""Phases that a loop marks. Names of one's own are as they are."""


def phase(name: str) -> Text:
    """What a phase is called."""
    return PHASE.get(name, Text(en=name, zh=name))


NO_STEPS = Text(
    en="No steps were marked, so warm-up cannot be told from steady state: the confidence is low.",
    zh="没有步标记，无法区分预热与稳态，因此置信度低。",
)
DEGRADED = Text(
    en="The data behind this are degraded (see the health report): the confidence is low.",
    zh="所依据的数据有缺损（见数据健康），因此置信度低。",
)

WITH_STACKS = Text(en="recorded again with with_stack=True", zh="打开 with_stack=True 重新录制之后")


WITH_TRACE = Text(en="TRACE: a trace of the same run", zh="TRACE：同一次运行的 trace")


def after_recording(what: str, lang: Lang) -> str:
    """That a recording comes first; `what` is in the report's language."""
    return Text(en=f"after recording {what}", zh=f"先录制：{what}").in_(lang)


RECORD_AGAIN = Text(
    en="after the change, with the same steps recorded again", zh="改动之后重新录制相同的步，再运行"
)


def record_all(world: int | None) -> Text:
    """That the other ranks must be recorded first."""
    if world is None:
        return Text(en="record all ranks first", zh="先录制所有 rank")
    return Text(en=f"record all {world} ranks first", zh=f"先录制全部 {world} 个 rank")


NOT_JOINED = Text(
    en="the collectives of the ranks could not be matched with each other",
    zh="各 rank 的集合通信无法相互对应",
)


def extremes(least: tuple[int, float], most: tuple[int, float], is_step: bool) -> Text:
    """Which ranks spend the least and the most time in collectives."""
    each, of_each = (" a step", "每步 ") if is_step else ("", "")
    return Text(
        en=f"Time in collectives: least on rank {least[0]} ({duration(least[1])}{each}), most on rank "
        f"{most[0]} ({duration(most[1])}{each}).",
        zh=f"集合通信耗时：rank {least[0]} 最短（{of_each}{duration(least[1])}），"
        f"rank {most[0]} 最长（{of_each}{duration(most[1])}）。",
    )


ONCE = Text(
    en="Most of it is one single gap, and no steps are marked: it may be start-up, so no gain is promised. "
    "Record marked steps after a warm-up step.",
    zh="其中大部分是同一个空隙，且没有步标记：可能是启动开销，因此不给出预期收益。请预热一步后录制带标记的步。",
)


def in_one_step(step: int) -> Text:
    """That one step holds most of a finding's time."""
    return Text(
        en=f"Most of it is in step {step} alone: the other steps hardly have it, and if that step is a "
        "start-up the job does not either. No gain is promised; record steps after a warm-up.",
        zh=f"其中大部分只在第 {step} 步：其他步几乎没有；若该步属于启动，则正常运行中也没有。"
        "因此不给出预期收益；请在预热之后录制。",
    )


ONE_STEP = Text(
    en="From one step: other steps may differ; record several.",
    zh="只依据一步：其他步可能不同，请多录几步。",
)
HOST_ONLY = Text(en="no device work was recorded", zh="没有录到设备活动")
"""Why nothing of a device is judged in a run without one."""

CUT = Text(en="the file is cut off or has holes", zh="文件被截断或有缺失")
NO_DEVICE = Text(en="no device work in this trace", zh="此 trace 中没有设备活动")
MARKS_ALONE = Text(en="marks of the loop do not tell", zh="训练循环的标记无法说明")
MARK_PHASE = Text(
    en='that phase marked in the loop (with monitor.phase("…"))',
    zh='在训练循环中标记该阶段（with monitor.phase("…")）',
)
WITHHELD = Text(en="the causes of idle time are withheld", zh="空闲原因不予给出")
UNKNOWN_DEVICE = Text(
    en="the peaks of this device are not in our table", zh="本工具的规格表中没有该设备的峰值"
)
NO_HOST_ROWS = Text(en="the host's own work was not recorded", zh="没有录到主机自身的工作")
UNMARKED = Text(en="no steps are marked", zh="没有步标记")


def absent(why: Absence, num_steps: int) -> Text | None:
    """Why a rule could not be judged; `None` where all there is to say is what would settle it."""
    match why:
        case "cut":
            return CUT
        case "marks":
            return MARKS_ALONE
        case "no_device":
            return NO_DEVICE
        case "withheld":
            return WITHHELD
        case "no_host_rows":
            return NO_HOST_ROWS
        case "unknown_device":
            return UNKNOWN_DEVICE
        case "no_steps":
            return UNMARKED
        case "few_steps":
            told = "1 step is too few" if num_steps == 1 else f"{num_steps} steps are too few"
            return Text(en=told, zh=f"只有 {num_steps} 步")
        case "unmeasured":
            return None


_LONGEST_FILE = 60


def file_of(row: report.Accounting, inputs: Sequence[report.Input]) -> str | None:
    """What the file of a row is called, where a rank does not tell the rows apart."""
    if row.input is None or row.input >= len(inputs):
        return None
    last = Counter(each.name.rpartition("/")[2] for each in inputs)
    whole = inputs[row.input].name
    name = whole.rpartition("/")[2]
    name = whole if last[name] > 1 or not name else name
    half = (_LONGEST_FILE - 3) // 2
    return name if len(name) <= _LONGEST_FILE else f"{name[:half]}...{name[-half:]}"


def whose(row: report.Accounting, inputs: Sequence[report.Input]) -> Text | None:
    """The rank or else the file of a row, `None` where there is but one that nobody named."""
    if row.rank is not None:
        return Text(en=f"rank {row.rank}", zh=f"rank {row.rank}")
    file = file_of(row, inputs)
    return None if file is None else Text(en=f"file {file}", zh=f"文件 {file}")


def span_of(row: report.Accounting, time_ns: int, owner: Text | None) -> Text:
    """How much of a row a time is: its share, and per step where there are steps."""
    share = percent(time_ns / row.total_ns) if row.total_ns else "0 %"
    steps = row.num_steps if row.scope == "steps" and row.num_steps else None
    each = duration(time_ns / (steps or 1))
    whole = duration(row.total_ns / (steps or 1))
    who, here = ("", "") if owner is None else (f", {owner.en}", f"，{owner.zh}")
    if steps:
        return Text(
            en=f"{share} of the step ({each} of {whole} a step{who})",
            zh=f"占每步的 {share}（每步 {whole} 中的 {each}{here}）",
        )
    return Text(
        en=f"{share} of the trace ({each} of {whole}{who})",
        zh=f"占 trace 的 {share}（{whole} 中的 {each}{here}）",
    )


def lowered(title: str) -> str:
    """A title within a sentence: its first letter small, unless it begins with an abbreviation."""
    return title if title[1:2].isupper() else title[:1].lower() + title[1:]


def measured(clause: Clause, value: float) -> str:
    """One measurement: `idle_input_share 3.1 %`."""
    return f"{clause.feature.name} {number(value, clause.feature.unit)}"


def limit(clause: Clause) -> str:
    """A clause as people read it: `idle_input_share >= 10.0 %`."""
    return f"{clause.feature.name} {clause.op} {number(clause.threshold, clause.feature.unit)}"


def because(clear: Clear, lang: Lang) -> str:
    """Why a rule did not fire."""
    clause = clear.because
    told = measured(clause, clear.value)
    wanted = f"{clause.op} {number(clause.threshold, clause.feature.unit)}"
    if clause in clear.rule.unless:
        return Text(en=f"{told} (excused at {wanted})", zh=f"{told}（符合排除条件 {wanted}）").in_(lang)
    return Text(en=f"{told} (fires at {wanted})", zh=f"{told}（触发条件为 {wanted}）").in_(lang)


def unmeasured(clause: Clause, lang: Lang, *, is_marked: bool = False) -> str:
    """A clause that could not be checked, and which layer would."""
    if clause.feature.origin == "trace":
        if is_marked:
            return Text(
                en=f"{limit(clause)} ({MARKS_ALONE.en})", zh=f"{limit(clause)}（{MARKS_ALONE.zh}）"
            ).in_(lang)
        return Text(
            en=f"{limit(clause)} (this trace does not tell)", zh=f"{limit(clause)}（此 trace 中没有）"
        ).in_(lang)
    origin = ORIGIN[clause.feature.origin]
    return Text(en=f"{limit(clause)} (needs {origin.en})", zh=f"{limit(clause)}（需要{origin.zh}）").in_(lang)


def proof(clause: Clause, now: float | None, lang: Lang) -> str:
    """What would prove that a remedy worked."""
    was = "" if now is None else number(now, clause.feature.unit)
    text = Text(
        en=f"Record the same steps again: {limit(clause)}" + (f" (now {was})" if was else ""),
        zh=f"重新录制相同的步：应有 {limit(clause)}" + (f"（现为 {was}）" if was else ""),
    )
    return text.in_(lang)


def overridden(clause: Clause, lang: Lang) -> str:
    """That the site set a threshold itself."""
    told = limit(clause)
    return Text(en=f"Threshold set by this site: {told}", zh=f"阈值由本站点自行设定：{told}").in_(lang)
