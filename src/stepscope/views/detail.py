"""Details in the reader's language: of health issues, of withheld numbers, of inputs that cannot be used.

Those who find them write them in English, and JSON keeps that. For Chinese each code has one short sentence
here with the issue's count; what is in no table stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from stepscope.diagnose.word import RANKS_ALONE
from stepscope.model import report
from stepscope.model.text import Lang

ISSUE: Mapping[str, str] = {
    "truncated": "文件中途断开，断开之前的事件已保留",
    "malformed_events": "{count:,} 处事件格式错误，已修补或略去",
    "mixed_writers": "文件中混入了另一份 trace，其后的内容未使用；请在文件名中加入 rank",
    "bad_timestamp": "{count:,} 个事件的时间为零、为负或相差过远，未计入",
    "no_anchor": "没有基准时间：其中的时间不是绝对时间",
    "corrupt_duration": "{count:,} 个设备活动的时长不可信，已在同一流的下一个活动处截断",
    "stream_overlap": "{count:,} 个活动与同一流上的下一个重叠，时间只计一次",
    "missing_launch": "{count:,} 个设备活动没有下发记录",
    "missing_kernels": "{count:,} 次下发没有设备活动",
    "clock_inversion": "{count:,} 个活动早于自己的下发",
    "graph_underrecorded": "{count:,} 次图重放没有录到设备活动，其空闲原因与各 kernel 占比不可信",
    "unrecorded_or_dependent_work": "大部分空闲发生在任务已下发之后，或其下发未被记录："
    "可能是未录到的图节点，或设备上的依赖；其原因不予给出",
    "no_steps": "没有 ProfilerStep 标注，整个 trace 作为一个窗口",
    "partial_step": "{count:,} 步被截断，未计入",
    "no_device_data": "{count:,} 步只有下发而没有设备活动，未计入",
    "no_host_rows": "主机只录到调用，没有算子、标注或 Python 函数：主机在调用之间做什么不得而知",
    "unclassified_kernels": "{count:,} 个 kernel 不属于任何已知类别",
    "rank_conflict": "同一 rank 出现在多个文件中，只使用了第一个；请只给同一次运行的文件",
    "rank_missing": "缺少 {count:,} 个 rank，无法得知谁迟到",
    "rule_broken": "其他软件包的 {count:,} 条规则无法加载，未使用",
    "counter_broken": "{count:,} 个计数器的读数不可信，未使用",
    "telemetry_gap": "遥测中有 {count:,} 处缺口",
    "unit_suspect": "{count:,} 个信号的单位可疑",
    "secrets_removed": "已移除 {count:,} 处机密信息",
}

# Where one code says two things.
ISSUE_BY_EFFECT: Mapping[tuple[str, report.Effect], str] = {
    ("no_device_data", "withheld"): "加速器的任务在此 trace 中不可见，核算只含主机",
    ("rank_conflict", "none"): "文件名与文件内容所说的 rank 不一致，以内容为准",
}
NO_DEVICE = "没有录到下发，也没有设备活动：若运行使用了加速器，其任务在此不可见"

WITHHELD: Mapping[str, str] = {
    "one rank cannot tell a slow link from a late peer": "仅凭一个 rank 分不清是链路慢还是对端迟到",
    RANKS_ALONE.en: RANKS_ALONE.zh,
    "the traces of all ranks of the same steps": "所有 rank 在相同步上的 trace",
    "a trace that records host calls too (ProfilerActivity.CPU beside CUDA)": "同时录制主机调用的 trace"
    "（ProfilerActivity.CPU 与 CUDA）",
    "a trace with CUDA graphs off, or a newer CUPTI that records graph nodes": "关闭 CUDA graph 的 trace，"
    "或能记录图节点的较新 CUPTI",
    "nsys profile --cuda-graph-trace=node: it records graph nodes": "nsys profile --cuda-graph-trace=node"
    "（可记录图节点）",
    "a trace with the accelerator's ProfilerActivity and a warm-up step": "打开加速器的 ProfilerActivity "
    "并预热一步的 trace",
}

# What an input's error says, and what would mend it: patterns over the English text.
ERROR: tuple[tuple[str, str], ...] = (
    (r"no such file", "文件不存在"),
    (r"no file matches", "没有匹配的文件"),
    (r"no permission to read it", "没有读取权限"),
    (r"cannot be read(?:: .*)?", "无法读取"),
    (r"cannot be opened \(.*\)", "无法打开"),
    (r"is a directory", "是一个目录"),
    (r"the directory holds no trace", "目录中没有 trace"),
    (r"the archive holds no trace", "归档中没有 trace"),
    (r"is no readable archive \(.*\)", "不是可读的归档"),
    (r"is (?:not|no file) in the archive", "不在归档中"),
    (r"the file is empty", "文件为空"),
    (r"holds no trace event", "其中没有 trace 事件"),
    (r"breaks off before the first event", "在第一个事件之前就断开了"),
    (r"is no JSON", "不是 JSON"),
    (r"is JSON that breaks off or is damaged, without traceEvents", "是中断或损坏的 JSON，没有 traceEvents"),
    (r"has no key traceEvents \(its keys: (.*)\)", r"没有 traceEvents 键（其键：\1）"),
    (r"no traceEvents in the first (\d+) MB", r"前 \1 MB 中没有 traceEvents"),
    (r"is a rocprofv3 result, which is not read yet", "是 rocprofv3 的结果，尚不支持"),
    (r"is an? (PNG|JPEG) image", r"是 \1 图片"),
    (r"is a PDF", "是 PDF"),
    (r"is a zip archive", "是 zip 归档"),
    (r"is a pickle", "是 pickle 文件"),
    (r"is an SQLite file", "是 SQLite 文件"),
    (r"is (bzip2|xz)-compressed", r"由 \1 压缩"),
    (r"is zstd-compressed, and the codec is not installed", "由 zstd 压缩，而解码器未安装"),
    (r"is a program", "是可执行程序"),
    (r"is HTML or XML", "是 HTML 或 XML"),
    (r"the (gzip|zstd) stream is damaged \(.*\)", r"\1 流已损坏"),
    (r"the (gzip|zstd) stream ends too early", r"\1 流提前结束"),
    (r"bytes that are no gzip follow the gzip stream", "gzip 流之后还有不属于 gzip 的字节"),
    (r"more than (\d+) GB of text come out of it", r"解压后超过 \1 GB"),
    (r"the same bytes as (.*); left out", r"与 \1 字节完全相同，已略去"),
    (r".* as in a decompression bomb", "解压倍率异常，疑似解压炸弹"),
)
MEND: tuple[tuple[str, str], ...] = (
    (r"check the path", "请检查路径"),
    (r"check the path and its permissions", "请检查路径及其权限"),
    (r"check the path and the disk", "请检查路径和磁盘"),
    (r"check the disk or copy the file again", "请检查磁盘，或重新拷贝文件"),
    (r"check the pattern.*", "请检查通配符（并加引号，以免被 shell 展开）"),
    (r"check the address and your access", "请检查地址和访问权限"),
    (r"ask its owner, or run: (.*)", r"请联系其所有者，或运行：\1"),
    (r"copy it again, or record again", "请重新拷贝或重新录制"),
    (r"give the directory alone, or one of its files", "请只给该目录，或给其中一个文件"),
    (
        r"traces end in (.*); name the file if yours is called otherwise",
        r"trace 以 \1 结尾；若不同名请直接给出文件",
    ),
    (r"traces end in (.*)", r"trace 以 \1 结尾"),
    (r"unpack it, or give its files", "请解包，或给出其中的文件"),
    (r"unpack it, and give the trace inside", "请解包并给出其中的 trace"),
    (r"unpack it by hand if you trust it", "若可信，请手动解压"),
    (r"decompress it with (\w+)", r"请用 \1 解压"),
    (r"list its members with tar -tf", "可用 tar -tf 列出其成员"),
    (r"record fewer steps, or split the file", "请少录几步，或拆分文件"),
    (r"was the job ended while it exported\? record again", "任务是否在导出时被终止？请重新录制"),
    (
        r"(?:.*; )?(?:.*\? )?give (?:the|a) trace.*",
        "请给出 torch.profiler 导出的 trace（*.json 或 *.json.gz）",
    ),
)
_PLACE = (("its beginning", "文件开头"), (r"byte (\d+)", r"第 \1 字节"))


def issue_detail(issue: report.HealthIssue, lang: Lang) -> str:
    """What a health issue says."""
    if lang == "en":
        return issue.detail
    if issue.code == "no_device_data" and issue.count == 0:
        return NO_DEVICE
    sentence = ISSUE_BY_EFFECT.get((issue.code, issue.effect)) or ISSUE.get(issue.code)
    return issue.detail if sentence is None else sentence.format(count=issue.count)


def withheld_why(withheld: report.Withheld, issues: Iterable[report.HealthIssue], lang: Lang) -> str:
    """Why a number is withheld; where an issue is the reason, what that issue says."""
    if lang == "en":
        return withheld.why
    cause = next((issue for issue in issues if issue.detail == withheld.why), None)
    return WITHHELD.get(withheld.why, withheld.why) if cause is None else issue_detail(cause, lang)


def settling(text: str, lang: Lang) -> str:
    """What would settle a question."""
    return WITHHELD.get(text, text) if lang == "zh" else text


def input_error(given: report.Input, lang: Lang) -> str:
    """Why an input could not be used: its name, the place, what is wrong and what would mend it."""
    error = given.error or ""
    rest = error.removeprefix(given.name)
    found = re.fullmatch(r"(?: at (?P<place>[^:;]+))?: (?P<what>.*?)(?:; (?P<mend>.*))?", rest, re.DOTALL)
    if lang == "en" or found is None or rest == error:
        return error
    place = f"（{_said(found['place'], _PLACE)}）" if found["place"] else ""
    mend = f"；{_said(found['mend'], MEND)}" if found["mend"] else ""
    return f"{given.name}{place}：{_said(found['what'], ERROR)}{mend}"


def _said(text: str, table: Iterable[tuple[str, str]]) -> str:
    for pattern, chinese in table:
        found = re.fullmatch(pattern, text, re.DOTALL)
        if found:
            return found.expand(chinese)
    return text
