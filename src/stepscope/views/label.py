"""Words that renderers put beside numbers, in both languages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stepscope.diagnose.word import ORIGIN, PART, VERDICT, part_of
from stepscope.model import report
from stepscope.model.analysis import ALL_ACCOUNTING, ALL_CAUSES, COLLECTIVE_PARTS
from stepscope.model.text import Lang, Text

__all__ = [
    "COMPUTE_KIND",
    "HEALTH_CODE",
    "LAYER",
    "MARK",
    "ORIGIN",
    "PART",
    "UNIT",
    "VERDICT",
    "WORD",
    "YOUR_TRACE",
    "brackets",
    "colon",
    "counted",
    "health_code",
    "joined",
    "listed",
    "part_of",
    "withheld_name",
    "word",
]

WORD: Mapping[str, Text] = {
    "ok": Text(en="ok", zh="正常"),
    "degraded": Text(en="degraded", zh="有缺损"),
    "withheld": Text(en="withheld", zh="不予给出"),
    "unusable": Text(en="unusable", zh="不可用"),
    "none": Text(en="note", zh="提示"),
    "info": Text(en="info", zh="提示"),
    "warning": Text(en="warning", zh="警告"),
    "critical": Text(en="critical", zh="严重"),
    "low": Text(en="low", zh="低"),
    "medium": Text(en="medium", zh="中"),
    "high": Text(en="high", zh="高"),
    "confidence": Text(en="confidence", zh="置信度"),
    "data": Text(en="Data", zh="数据"),
    "not_used": Text(en="not used", zh="未使用"),
    "rank": Text(en="rank", zh="rank"),
    "device": Text(en="device", zh="设备"),
    "host": Text(en="host", zh="主机"),
    "steps": Text(en="steps", zh="步"),
    "step": Text(en="step", zh="步"),
    "per_step": Text(en="a step", zh="每步"),
    "device_windows": Text(en="device windows", zh="设备窗口"),
    "host_windows": Text(en="host windows", zh="主机窗口"),
    "whole_trace": Text(en="whole trace", zh="整个 trace"),
    "since": Text(en="since step", zh="始于第"),
    "first_in": Text(en="first in step", zh="首见于第"),
    "costs": Text(en="costs", zh="代价"),
    "phases": Text(en="device time by phase", zh="各阶段的设备时间"),
    "forward": Text(en="forward", zh="前向"),
    "backward": Text(en="backward", zh="反向"),
    "recompute": Text(en="recomputed", zh="重计算"),
    "optimizer": Text(en="optimizer", zh="优化器"),
    "other": Text(en="other", zh="其他"),
    "kinds": Text(en="compute time by kind", zh="各类计算的时间"),
    "arithmetic": Text(en="matrix arithmetic", zh="矩阵运算量"),
    "a_step": Text(en=" a step", zh="/步"),
    "of_known": Text(en="known for", zh="可知部分占"),
    "called_from": Text(en="Called from", zh="调用自"),
    "could_win": Text(en="to win at most", zh="至多可省"),
    "evidence": Text(en="Evidence", zh="证据"),
    "thresholds": Text(en="thresholds in brackets", zh="括号内为阈值"),
    "checks": Text(en="Check, in this order", zh="依次检查"),
    "remedies": Text(en="Change", zh="改动"),
    "first_change": Text(en="Change first", zh="首先改动"),
    "sections_left_out": Text(
        en="sections left out: a comment has room for 65,536 characters; the JSON report has all",
        zh="节未列出：一条评论最多 65,536 个字符，JSON 报告中有全部内容",
    ),
    "looks": Text(en="Before any change", zh="改动之前"),
    "gain": Text(en="gain if it works", zh="若见效"),
    "verify": Text(en="proof", zh="验证"),
    "before": Text(en="before", zh="改前"),
    "after": Text(en="after", zh="改后"),
    "ruled_out": Text(en="Ruled out", zh="已排除"),
    "unknown": Text(en="Not known", zh="未知"),
    "consequence": Text(en="A consequence, not a cause", zh="属于后果而非原因"),
    "largest": Text(en="mostly", zh="主要在"),
    "meanwhile": Text(en="Running meanwhile", zh="其间正在运行"),
    "nested": Text(en="nested in part: do not add up", zh="可能互相嵌套，不可相加"),
    "overlaps": Text(en="overlaps with", zh="与下列重叠"),
    "top_operators": Text(en="Hottest operators", zh="最热的算子"),
    "operator": Text(en="operator", zh="算子"),
    "class": Text(en="class", zh="类别"),
    "count": Text(en="calls", zh="次数"),
    "device_time": Text(en="device time", zh="设备时间"),
    "share": Text(en="share", zh="占比"),
    "limit": Text(en="of its limit", zh="达其上限"),
    "bound_compute": Text(en="compute", zh="算力"),
    "bound_memory": Text(en="memory", zh="显存"),
    "undecided": Text(en="Undecided", zh="尚不能判定"),
    "wants": Text(en="needs", zh="需要"),
    "next": Text(en="Next", zh="下一步"),
    "row": Text(en="others", zh="其余"),
    "compute": Text(en="computing", zh="计算"),
    "communication": Text(en="comm. exposed", zh="未掩盖通信"),
    "copies": Text(en="copies", zh="拷贝"),
    "idle": Text(en="idle", zh="空闲"),
    "largest_idle": Text(en="largest idle cause", zh="最大空闲原因"),
    "device_causes": Text(en="GPU causes", zh="GPU 方面的原因"),
    "more_rows": Text(en="more rows in the JSON report", zh="行见 JSON 报告"),
    "part": Text(en="part", zh="部分"),
    "time": Text(en="time", zh="时间"),
    "where": Text(en="Where the time went", zh="时间去向"),
    "span": Text(en="event", zh="事件"),
    "rules": Text(en="Rules", zh="规则"),
    "fires": Text(en="Fires when", zh="触发条件"),
    "unless": Text(en="Unless", zh="除非"),
    "corroborated": Text(en="Agreeing, where measured", zh="佐证（若有测量）"),
    "cost": Text(en="Costs", zh="代价"),
    "references": Text(en="Where the thresholds come from", zh="阈值出处"),
    "needs": Text(en="Least recording", zh="最少需要的录制"),
    "explains": Text(en="Explains", zh="可解释"),
    "verdict": Text(en="Verdict", zh="结论"),
    "severity": Text(en="Severity, for it costs no time", zh="严重程度（不计时间代价）"),
    "severity_unpriced": Text(
        en="Severity, where nobody knows the time it costs", zh="严重程度（时间代价未知时）"
    ),
    "layer": Text(en="Layer", zh="层"),
    "only_if": Text(en="only if", zh="仅当"),
    "clears": Text(en="worked when", zh="见效标志"),
    "open": Text(en="Stays open unless", zh="除非满足下列条件，否则原因未定"),
    "also_shown": Text(en="Also shown", zh="同时给出"),
    "sum_of_trace": Text(en="sum of the whole trace", zh="整个 trace 合计"),
    "sum_of_steps": Text(en="sum of all counted steps", zh="全部计入的步合计"),
    "share_of_device": Text(en="share of device time", zh="占比以设备时间计"),
    "readings": Text(en="Says more where more is known", zh="已知更多时的说法"),
    "partial": Text(en="partial", zh="不完整"),
    "warm_up": Text(en="warm-up", zh="预热"),
    "no_device_data": Text(en="no device activity", zh="没有设备活动"),
    "captured": Text(en="captured", zh="被采集"),
    "stream": Text(en="stream", zh="流"),
    "thread": Text(en="thread", zh="线程"),
    "slow": Text(en="slow", zh="慢"),
    "yes": Text(en="yes", zh="是"),
    "no": Text(en="no", zh="否"),
    "with_all_ranks": Text(en="where all ranks were given", zh="给出全部 rank 时"),
    "on_host": Text(en="In a run without an accelerator", zh="没有加速器的运行"),
}

COMPUTE_KIND: Mapping[str, Text] = {
    "recompute": Text(en="recomputed forward work", zh="重计算"),
    "optimizer": Text(en="optimizer", zh="优化器"),
    "layout": Text(en="layout changes", zh="布局转换"),
    "copy": Text(en="copies and fills by kernels", zh="kernel 拷贝与填充"),
    "gemm": Text(en="matrix products", zh="矩阵乘"),
    "convolution": Text(en="convolutions", zh="卷积"),
    "attention": Text(en="fused attention", zh="融合注意力"),
    "normalization": Text(en="normalisation", zh="归一化"),
    "softmax": Text(en="softmax", zh="softmax"),
    "elementwise": Text(en="elementwise", zh="逐元素"),
    "reduction": Text(en="reductions, scans and sorts", zh="归约、扫描与排序"),
    "embedding": Text(en="embedding look-ups", zh="嵌入查表"),
    "triton": Text(en="generated kernels (compiler, Triton)", zh="生成的 kernel（编译器、Triton）"),
    "other": Text(en="other", zh="其他"),
}
"""What compute time of each kind is called; keys are those of `report.Compute` without `_ns`."""

YOUR_TRACE = Text(
    en="stepscope diagnose TRACE  # TRACE: a trace of yours (.json, .json.gz); none yet: stepscope demo",
    zh="stepscope diagnose TRACE  # TRACE：你的 trace（.json、.json.gz）；还没有：stepscope demo",
)
"""The next command where no trace was given."""

# Units that are words; the others are written alike in both languages.
UNIT: Mapping[str, Text] = {
    "kernels": Text(en="kernels", zh="个 kernel"),
    "launches": Text(en="launches", zh="次下发"),
    "steps": Text(en="steps", zh="步"),
    "ranks": Text(en="ranks", zh="个 rank"),
    "collectives": Text(en="collectives", zh="次集合通信"),
    "syncs": Text(en="syncs", zh="次同步"),
    "ops": Text(en="ops", zh="个算子"),
    "optimizers": Text(en="optimizers", zh="个优化器"),
    "cores": Text(en="cores", zh="核"),
    "processes": Text(en="processes", zh="个进程"),
    "rows": Text(en="rows", zh="行"),
    "samples": Text(en="samples", zh="个读数"),
    "celsius": Text(en="°C", zh="°C"),
}

HEALTH_CODE: Mapping[str, Text] = {
    "truncated": Text(en="file is cut off", zh="文件被截断"),
    "malformed_events": Text(en="malformed events", zh="事件格式错误"),
    "mixed_writers": Text(en="several writers in one file", zh="一个文件由多方写入"),
    "corrupt_duration": Text(en="corrupt durations", zh="时长损坏"),
    "bad_timestamp": Text(en="bad timestamps", zh="时间戳错误"),
    "no_anchor": Text(en="no wall time", zh="没有绝对时间基准"),
    "clock_inversion": Text(en="device before host", zh="设备时钟早于主机"),
    "clock_offset": Text(en="device clock ahead", zh="设备时钟超前"),
    "stream_overlap": Text(en="overlaps on one stream", zh="同一流上有重叠"),
    "missing_launch": Text(en="kernels without launch", zh="kernel 缺少下发记录"),
    "missing_kernels": Text(en="launches without kernel", zh="下发缺少 kernel 记录"),
    "partial_step": Text(en="partial steps", zh="不完整的步"),
    "no_device_data": Text(en="no device activity", zh="没有设备活动"),
    "no_steps": Text(en="no step marks", zh="没有步标记"),
    "light_capture": Text(en="light capture", zh="轻量采集"),
    "graph_underrecorded": Text(en="graph replays not fully recorded", zh="图重放记录不全"),
    "unrecorded_or_dependent_work": Text(en="unrecorded or dependent work", zh="未记录或有依赖的任务"),
    "no_host_rows": Text(en="only calls on the host", zh="主机只录到调用"),
    "unclassified_kernels": Text(en="kernels of no known class", zh="未归类的 kernel"),
    "impossible_rate": Text(en="faster than the device", zh="快于设备峰值"),
    "clock_conflict": Text(en="clocks and collectives disagree", zh="时钟与集合通信矛盾"),
    "clock_prior": Text(en="several clocks on one host", zh="同一主机有多个时钟"),
    "rank_conflict": Text(en="conflicting ranks", zh="rank 有冲突"),
    "rank_missing": Text(en="ranks not given", zh="缺少部分 rank"),
    "rule_broken": Text(en="a rule of another package left out", zh="外部规则无法加载"),
    "malformed_lines": Text(en="malformed lines", zh="格式错误的行"),
    "duplicate_samples": Text(en="duplicated samples", zh="重复样本"),
    "time_zone_unknown": Text(en="time zone unknown", zh="时区未知"),
    "partial_answer": Text(en="partial answer", zh="服务器回答不完整"),
    "resampled": Text(en="resampled by the server", zh="由服务器重采样"),
    "replica": Text(en="copies of one exporter", zh="同一导出器的副本"),
    "sum_of_cards": Text(en="a sum of devices", zh="多卡之和"),
    "energy_as_power": Text(en="energy taken for power", zh="将能量当作功率"),
    "percent_as_ratio": Text(en="percent taken for a ratio", zh="将百分数当作比率"),
    "both_directions": Text(en="both directions together", zh="双向之和"),
    "capacity_as_bandwidth": Text(en="capacity taken for bandwidth", zh="将容量当作带宽"),
    "device_unlabelled": Text(en="device not named", zh="未标明设备"),
    "window_too_short": Text(en="window too short", zh="采样窗口过短"),
    "no_wall_time": Text(en="no wall time", zh="没有绝对时间"),
    "boot_anchor": Text(en="times since boot", zh="自启动起的时间"),
    "year_assumed": Text(en="year assumed", zh="年份为推定"),
    "long_lines": Text(en="long lines", zh="超长行"),
    "events_left_out": Text(en="events left out", zh="省略的事件"),
    "other_ranks": Text(en="steps of other ranks", zh="其他 rank 的步"),
    "steps_of_epochs": Text(en="steps by epoch", zh="按 epoch 计数的步"),
    "lines_without_step": Text(en="lines without a step", zh="没有步号的行"),
    "marks_lost": Text(en="marks lost", zh="标记丢失"),
    "marks_damaged": Text(en="marks damaged", zh="标记损坏"),
    "marks_missing": Text(en="marks missing", zh="标记缺失"),
    "marks_unmatched": Text(en="marks without a partner", zh="不成对的标记"),
    "clock_set": Text(en="clock set", zh="时钟被调整"),
    "steps_renumbered": Text(en="steps renumbered", zh="步号已重排"),
    "steps_captured": Text(en="steps captured", zh="被采集的步"),
    "time_since_start": Text(en="times since the start", zh="自作业开始的时间"),
    "times_from_bar": Text(en="times from progress bars", zh="由进度条推算的时间"),
    "counter_broken": Text(en="broken counter", zh="计数器失效"),
    "log_elsewhere": Text(en="log of another time", zh="其他时间的日志"),
    "telemetry_elsewhere": Text(en="counters of another time", zh="其他时间的计数器"),
    "device_of_nobody": Text(en="devices of no known rank", zh="不属于任何已知 rank 的设备"),
    "telemetry_gap": Text(en="gaps in telemetry", zh="遥测有缺口"),
    "store_damage": Text(en="a damaged file of the store", zh="存储文件损坏"),
    "store_unknown": Text(en="samples the store does not know", zh="存储未知的样本"),
    "spool_damage": Text(en="damaged spool", zh="本地缓存损坏"),
    "spool_gap": Text(en="batches given up by the agent", zh="代理丢弃的批次"),
    "spool_duplicate": Text(en="batches twice in the spool", zh="本地缓存中重复的批次"),
    "spool_jobs": Text(en="several jobs in the spool", zh="本地缓存含多个作业"),
    "spool_unknown": Text(en="signals not known here", zh="此版本未知的信号"),
    "unit_suspect": Text(en="faster than the link", zh="快于链路"),
    "secrets_removed": Text(en="secrets removed", zh="已移除机密信息"),
}

WITHHELD: Mapping[str, Text] = {
    text.en: text
    for text in (
        Text(en=COLLECTIVE_PARTS, zh="集合通信的传输与等待"),
        Text(en=ALL_CAUSES, zh="空闲原因"),
        Text(en=ALL_ACCOUNTING, zh="设备时间核算"),
        Text(en="straggler", zh="落后的 rank"),
    )
}

# A letter for every part, so that a bar reads without colour and in ASCII.
MARK: Mapping[str, tuple[str, str]] = {
    "compute": ("#", "green"),
    "communication_exposed": ("=", "magenta"),
    "copy_exposed": ("%", "blue"),
    "idle.queued": ("q", "bright_black"),
    "idle.input": ("i", "red"),
    "idle.preprocess": ("b", "red"),
    "idle.host_sync": ("s", "yellow"),
    "idle.copy_wait": ("w", "blue"),
    "idle.allocator": ("a", "yellow"),
    "idle.gc": ("g", "yellow"),
    "idle.compile": ("c", "yellow"),
    "idle.checkpoint": ("k", "cyan"),
    "idle.eval": ("e", "cyan"),
    "idle.logging": ("o", "yellow"),
    "idle.launch": ("l", "yellow"),
    "idle.peer": ("r", "magenta"),
    "idle.profiler": ("f", "bright_black"),
    "idle.python": ("p", "yellow"),
    "idle.unknown": ("?", "bright_black"),
}


def word(key: str, lang: Lang) -> str:
    """A word of ours in the reader's language."""
    return WORD[key].in_(lang)


LAYER: Mapping[report.LayerName, Text] = {
    "hardware": Text(en="hardware", zh="硬件"),
    "framework": Text(en="framework", zh="框架"),
    "model": Text(en="model", zh="模型"),
    "business": Text(en="business (the training code and its data)", zh="业务（训练代码与数据）"),
    "scheduling": Text(en="scheduling", zh="调度"),
    "host": Text(en="host", zh="主机"),
}


def withheld_name(withheld: report.Withheld, lang: Lang) -> str:
    """What is withheld; what we have no word for keeps its own."""
    return WITHHELD[withheld.what].in_(lang) if withheld.what in WITHHELD else withheld.what


def joined(pieces: Iterable[str], lang: Lang) -> str:
    """Pieces of a sentence with the language's comma between them."""
    return ("，" if lang == "zh" else ", ").join(piece for piece in pieces if piece)


def listed(names: Iterable[str], lang: Lang) -> str:
    """Names beside one another, as the language lists them."""
    return ("、" if lang == "zh" else ", ").join(names)


def counted(number: int, lang: Lang, one: str, many: str, zh: str) -> str:
    """A number of things: `1 input`, `2 inputs`, `2 个输入`."""
    return f"{number:,} {zh}" if lang == "zh" else f"{number:,} {one if number == 1 else many}"


def colon(lang: Lang) -> str:
    """What stands between a label and its text."""
    return "：" if lang == "zh" else ": "


def brackets(text: str, lang: Lang) -> str:
    """A text in brackets, as the language writes them; nothing for nothing."""
    if not text:
        return ""
    return f"（{text}）" if lang == "zh" else f" ({text})"


def health_code(issue: report.HealthIssue, lang: Lang) -> str:
    """What a health issue is called; an unknown code is its own name."""
    return HEALTH_CODE[issue.code].in_(lang) if issue.code in HEALTH_CODE else issue.code
