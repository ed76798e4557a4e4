"""Details in the reader's language: of health issues, of withheld numbers, of unusable inputs, of patches.

Those who find them write them in English, and JSON keeps that. For Chinese each clause has its pattern here,
with every number it holds; what is in no table stays as it was written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from stepscope.diagnose.word import NOT_JOINED
from stepscope.model import report
from stepscope.model.text import Lang
from stepscope.views.chinese import in_chinese
from stepscope.views.detail_job import JOB
from stepscope.views.detail_marks import MARKS, marks_text
from stepscope.views.detail_snapshot import SNAPSHOT_ERROR, SNAPSHOT_MEND

_DAMAGE: tuple[tuple[str, str], ...] = (
    (r"the (gzip|zstd) stream is damaged \((.*)\)", r"\1 流已损坏（\2）"),
    (r"the (gzip|zstd) stream ends too early", r"\1 流提前结束"),
    (r"the (gzip) checksum is wrong", r"\1 校验和不符"),
    (r"bytes that are no gzip follow the gzip stream", "gzip 流之后还有不属于 gzip 的字节"),
)

ISSUE: tuple[tuple[str, str], ...] = (
    *_DAMAGE,
    *JOB,
    *MARKS,
    # trace/load.py and trace/assemble.py: what the file lost
    (
        r"(\d+) bytes of it hold no event that can be read: device work of any step may be among the others: "
        r"its accounting is withheld",
        r"其中 \1 字节读不出任何事件，可能含任一步的设备活动：其核算不予给出",
    ),
    (
        r"device work of any step may be among the others: its accounting is withheld",
        "其余事件可能含任一步的设备活动：其核算不予给出",
    ),
    (r"the text breaks off inside the events", "文件在事件中途断开"),
    (r"at byte (\d+)", r"位于第 \1 字节"),
    (r"the ([\d,]+) events before it are kept", r"其前的 \1 个事件已保留"),
    (r"behind the events: all of them are kept", "位于全部事件之后：事件均已保留"),
    (r"the text breaks off behind the events: all of them are kept", "文件在全部事件之后断开：事件均已保留"),
    (r"(\d+) members of the metadata are damaged and were given up", r"元数据中有 \1 项损坏，已放弃"),
    (
        r"another file's text begins at byte (\d+): two ranks wrote one file",
        r"从第 \1 字节起是另一个文件的内容：两个 rank 写入了同一个文件",
    ),
    (
        r"another trace follows in the same file and was left out: two ranks wrote one file",
        "同一文件中还有另一份 trace，未使用：两个 rank 写入了同一个文件",
    ),
    (r"events before it are kept", "其前的事件已保留"),
    (r"put the rank in the file name", "请在文件名中加入 rank"),
    (r"(\d+) events could not be read and were left out", r"\1 个事件无法读取，已略去"),
    (
        r"(\d+) events with stray commas or words for numbers were mended",
        r"\1 个事件有多余的逗号或以词代数，已修补",
    ),
    (
        r"(\d+) texts with bad escapes, control characters or bytes that are no UTF-8 were mended",
        r"\1 处文本有错误转义、控制字符或非 UTF-8 字节，已修补",
    ),
    (
        r"(\d+) complete events have no duration that can be read \(taken as 0\)",
        r"\1 个完整事件没有可读的时长（按 0 计）",
    ),
    (
        r"(\d+) begin or end events lack their other half and were left out",
        r"\1 个开始或结束事件缺少另一半，已略去",
    ),
    (r"the first at byte (\d+)", r"第一处在第 \1 字节"),
    (
        r"(\d+) events have a time that is no number or beyond 64 bits and were left out",
        r"\1 个事件的时间不是数字或超出 64 位，已略去",
    ),
    (r"no base time: times are the trace's own, not wall time", "没有基准时间：其中的时间不是绝对时间"),
    # trace/health.py: what the events say that cannot be
    (
        r"(\d+) events have a zero, negative or far-off time and were left out",
        r"\1 个事件的时间为零、为负或相差过远，已略去",
    ),
    (
        r"(\d+) device durations? cannot be true and (?:was|were) cut at the next activity of "
        r"(?:its|their) stream",
        r"\1 个设备活动的时长不可信，已在同一流的下一个活动处截断",
    ),
    (r"(\d+) of them stays? unexplained", r"其中 \1 个仍无法解释"),
    (r"all of them stay unexplained", "全部仍无法解释"),
    (r"it stays unexplained", "它仍无法解释"),
    (r"at most ([\d,]+) µs together", r"合计至多 \1 µs"),
    (
        r"(\d+) activit(?:y|ies) overlaps? the next one on (?:its|their) stream by more than (\d+) µs",
        r"\1 个活动与同一流上的下一个重叠超过 \2 µs",
    ),
    (r"time is counted once", "时间只计一次"),
    (
        r"(\d+) device activit(?:y|ies) (?:has|have) no recorded launch \((\d+) % of kernels\)",
        r"\1 个设备活动没有下发记录（占 kernel 的 \2 %）",
    ),
    (
        r"(\d+) device activit(?:y|ies) (?:has|have) no recorded launch \(all of them copies\)",
        r"\1 个设备活动没有下发记录（都是拷贝）",
    ),
    (
        r"(\d+) device activit(?:y|ies) (?:has|have) no recorded launch \(a copy\)",
        r"\1 个设备活动没有下发记录（是拷贝）",
    ),
    (r"(\d+) of them (?:was|were) launched before the trace began", r"其中 \1 个在 trace 开始之前下发"),
    (r"all of them were launched before the trace began", "全部在 trace 开始之前下发"),
    (r"it was launched before the trace began", "在 trace 开始之前下发"),
    (r"no host calls were recorded at all", "完全没有录到主机调用"),
    (r"they are (\d+) % of device time", r"它们占设备时间的 \1 %"),
    (r"it is (\d+) % of device time", r"它占设备时间的 \1 %"),
    (r"so causes of idle time are degraded", "因此空闲原因有缺损"),
    (r"so causes of idle time are withheld", "因此空闲原因不予给出"),
    (r"(\d+) of (\d+) launches (?:has|have) no device activity", r"\2 次下发中有 \1 次没有设备活动"),
    (
        r"(\d+) of (\d+) activities start before their launch: host and device clocks differ by "
        r"at least (\S+) µs",
        r"\2 个活动中有 \1 个早于自己的下发：主机与设备的时钟至少相差 \3 µs",
    ),
    (r"launch delays are unreliable", "下发延迟不可信"),
    (r"(\d+) activit(?:y|ies) starts? before (?:its|their) launch", r"\1 个活动早于自己的下发"),
    (r"by at most (\S+) µs", r"至多早 \1 µs"),
    (r"(\d+) % of kernel time is of no known class", r"\1 % 的 kernel 时间不属于任何已知类别"),
    # analyse/: what the accounting cannot carry
    (
        r"no launch and no device activity was recorded: if this run used an accelerator",
        "没有录到下发，也没有设备活动：若运行使用了加速器",
    ),
    (r"its work cannot be seen here", "其任务在此不可见"),
    (r"no op, annotation or Python row was recorded", "没有录到算子、标注或 Python 函数"),
    (
        r"only calls: what the host did between its calls is unknown",
        "只录到调用：主机在调用之间做什么不得而知",
    ),
    (
        r"no ProfilerStep annotations: the whole trace is one window",
        "没有 ProfilerStep 标注：整个 trace 作为一个窗口",
    ),
    (
        r"(\d+) device rows? of category (.+?) (?:is|are) not understood: device work cannot be seen",
        r"\1 个类别为 \2 的设备事件无法解读：设备任务不可见",
    ),
    (
        r"(\d+) launch(?:es)? (?:was|were) recorded and no device activity: device work cannot be seen",
        r"录到 \1 次下发而没有设备活动：设备任务不可见",
    ),
    (r"the accounting is the host's alone", "核算只含主机"),
    (r"steps? (.+?) (?:is|are) cut and (?:is|are) not counted", r"第 \1 步被截断，未计入"),
    (
        r"steps? (.+?) (?:has|have) launches but no device data and (?:is|are) not counted",
        r"第 \1 步只有下发而没有设备活动，未计入",
    ),
    (r"(\S+) % of (\d+) graph launches have recorded device work", r"\2 次图重放中有 \1 % 录到了设备活动"),
    (r"idle and per-kernel shares of the others are withheld", "其余图重放的空闲与各 kernel 占比不予给出"),
    (
        r"(\d+) % of ([\d,]+) ms idle lies before work already issued or without a recorded launch: "
        r"unrecorded graph nodes, or a dependency on the device",
        r"\2 ms 空闲中有 \1 % 发生在任务已下发之后，或其下发未被记录：可能是未录到的图节点，或设备上的依赖",
    ),
    (r"CUDA graphs are replayed here", "此处重放了 CUDA graph"),
    (r"its cause is withheld", "其原因不予给出"),
    (
        r"(\d+) collectives? impl(?:y|ies) up to ([\d,]+) GB/s where the link carries ([\d,]+): "
        r"(?:its|their) recorded size, group or duration is wrong",
        r"\1 次集合通信按记录快至 \2 GB/s，而链路只有 \3 GB/s：所记录的数据量、通信组或时长有误",
    ),
    (r"and (?:its|their) bandwidth is withheld", "其带宽不予给出"),
    (
        r"the run would use (\S+) % of the peak of (.+?): (?:the model FLOPs that were given \(they are of "
        r"one rank and one step\)|the recorded shapes, their precision or the kernels of an op) are wrong, "
        r"or the device's name is",
        r"将用到 \2 峰值的 \1 %：所给的模型运算量（应为一个 rank 一步）"
        r"或所录形状、精度、kernel 有误，或设备名有误",
    ),
    (r"no utilisation is given", "不给出利用率"),
    (
        r"(.+?) would reach (\S+) % of the peak of (.+?): its recorded shapes, its precision, the kernels "
        r"recorded for it or the device's name cannot be right",
        r"\1 将达到 \3 峰值的 \2 %：所记录的形状、精度、kernel 或设备名称有误",
    ),
    (r"its rates are left out", "其速率不予给出"),
    (
        r"(\d+) of (\d+) waits? for the device returns? before its work ends: its clock is ahead of the "
        r"host's by at least (\S+) µs",
        r"\2 次等待设备中有 \1 次在其任务结束之前返回：设备时钟比主机至少超前 \3 µs",
    ),
    (r"hardly any work starts sooner than (\S+) µs after its launch", r"几乎没有任务在下发后 \1 µs 之内开始"),
    (
        r"and the device is idle for (\d+) %: its clock may be ahead of the host's",
        r"而设备有 \1 % 的时间空闲：设备时钟可能超前于主机",
    ),
    (r"which side waits cannot be told", "无法判断是哪一方在等待"),
    # offline/ and diagnose/data.py: what the inputs say together
    (
        r"rank (\d+) is in (\d+) files: (.*) was used, (.*) was not",
        r"rank \1 出现在 \2 个文件中：使用了 \3，未使用 \4",
    ),
    (r"give the files of one run", "请只给同一次运行的文件"),
    (r"the file name says (?:rank )?(\d+)", r"文件名中的 rank 为 \1"),
    (r"(distributedInfo|metadata) says (?:rank )?(\d+)", r"\1 中的 rank 为 \2"),
    (r"the world has (\d+) ranks", r"而总共只有 \1 个 rank"),
    (
        r"(\d+) of (\d+) ranks (?:was|were) given: who is late is unknown",
        r"\2 个 rank 中给出了 \1 个，无法得知谁迟到",
    ),
    (
        r"(\d+) of (\d+) ranks were given, without (?:ranks? )?([\d, -]+): one of those may be the late one",
        r"\2 个 rank 中给出了 \1 个，缺少 rank \3：迟到的可能正是其中之一",
    ),
)
"""Clauses of health issues. What another package wrote (`rule_broken`) stays as it is."""

WITHHELD: Mapping[str, str] = {
    "one rank cannot tell a slow link from a late peer": "仅凭一个 rank 分不清是链路慢还是对端迟到",
    NOT_JOINED.en: NOT_JOINED.zh,
    "traces with a collective that all ranks share (a barrier is one)": "含有全部 rank 共同参与的集合通信"
    "（例如 barrier）的 trace",
    "a trace of more steps, with the sequence numbers of a newer PyTorch": "步数更多、且由较新 PyTorch 记录"
    "序号的 trace",
    "the traces of all ranks of the same steps": "所有 rank 在相同步上的 trace",
    "a trace that records host calls too (ProfilerActivity.CPU beside CUDA)": "同时录制主机调用的 trace"
    "（ProfilerActivity.CPU 与 CUDA）",
    "a trace with CUDA graphs off, or a newer CUPTI that records graph nodes": "关闭 CUDA graph 的 trace，"
    "或能记录图节点的较新 CUPTI",
    "nsys profile --cuda-graph-trace=node: it records graph nodes": "nsys profile --cuda-graph-trace=node"
    "（可记录图节点）",
    "the step rings of the run beside it: their marks say where the host was": "同一次运行的步环文件："
    "其中的标记说明主机当时在做什么",
    "the whole trace": "完整的 trace",
    "a trace of a run that calls torch.cuda.synchronize() once a step, or of a newer CUPTI": "每步调用一次 "
    "torch.cuda.synchronize() 的 trace，或较新 CUPTI 的 trace",
    "a file of its own for each rank": "每个 rank 单独的文件",
    "a trace with the accelerator's ProfilerActivity and a warm-up step": "打开加速器的 ProfilerActivity "
    "并预热一步的 trace",
}

# What an input's error says, and what would mend it: patterns over the English text.
ERROR: tuple[tuple[str, str], ...] = (
    *_DAMAGE,
    *SNAPSHOT_ERROR,
    (r"no such file", "文件不存在"),
    (r"no file matches", "没有匹配的文件"),
    (r"no permission to read it", "没有读取权限"),
    (r"cannot be read", "无法读取"),
    (r"cannot be read: is no file name", "无法读取：不是文件名"),
    (r"cannot be read: (.*)", r"无法读取：\1"),
    (r"cannot be opened \((.*)\)", r"无法打开（\1）"),
    (r"is a directory", "是一个目录"),
    (r"the directory holds no trace", "目录中没有 trace"),
    (r"the archive holds no trace", "归档中没有 trace"),
    (r"is no readable archive \((.*)\)", r"不是可读的归档（\1）"),
    (r"is (?:not|no file) in the archive", "不在归档中"),
    (r"the file is empty", "文件为空"),
    (r"holds no trace event", "其中没有 trace 事件"),
    (r"breaks off before the first event", "在第一个事件之前就断开了"),
    (r"is damaged gzip \((.*)\)", r"是损坏的 gzip（\1）"),
    (r"is gzip that breaks off", "是中途断开的 gzip"),
    (r"holds too much text for its size", "解压后的文本相对其大小过多"),
    (r"is larger than (\d+) GB", r"大于 \1 GB"),
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
    (r"more than (\d+) GB of text come out of it", r"解压后超过 \1 GB"),
    (r"the same bytes as (.*)", r"与 \1 字节完全相同"),
    (
        r"(\d+) MB of text from ([\d,]+) bytes: more than (\S+) to 1, as in a decompression bomb",
        r"\2 字节解压出 \1 MB 文本：超过 \3 比 1，疑似解压炸弹",
    ),
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
    (r"list its members with (tar -tv?f .*)", r"请列出其成员：\1"),
    (
        r"(pip install '.*'), or decompress it with (.*)",
        r"请运行：\1，或用 \2 解压",
    ),
    (r"left out", "已略去"),
    (r"record fewer steps", "请少录几步"),
    (r"send it again", "请重新发送"),
    (r"record fewer steps, or split the file", "请少录几步，或拆分文件"),
    (r"was the job ended while it exported\? record again", "任务是否在导出时被终止？请重新录制"),
    (r"Nsight Systems exports are not read yet", "尚不支持 Nsight Systems 导出的文件"),
    *SNAPSHOT_MEND,
    (
        r"was it downloaded through a login page\? give the trace itself",
        "下载时是否只得到了登录页？请给出 trace 本身",
    ),
    (r"give (?:the|a) trace.*", "请给出 torch.profiler 导出的 trace（*.json 或 *.json.gz）"),
)
_PLACE = (("its beginning", "文件开头"), (r"byte (\d+)", r"第 \1 字节"))


def issue_detail(issue: report.HealthIssue, lang: Lang) -> str:
    """What a health issue says."""
    return issue.detail if lang == "en" else _issue(issue.detail)


_LIST = re.compile(r"第 [\d, …]+ 步|类别为 [^；]+ 的设备事件|未使用 [^；]+")
"""Where a Chinese detail holds a list that was written with English commas."""


def _issue(detail: str) -> str:
    return _LIST.sub(lambda found: found[0].replace(", ", "、"), in_chinese(detail, ISSUE))


def withheld_why(withheld: report.Withheld, lang: Lang) -> str:
    """Why a number is withheld; where an issue is the reason, what that issue says."""
    if lang == "en":
        return withheld.why
    told = marks_text(withheld.why, lang)
    if told != withheld.why:
        return told
    return WITHHELD.get(withheld.why) or _issue(withheld.why)


def settling(text: str, lang: Lang) -> str:
    """What would settle a question."""
    return WITHHELD.get(text) or marks_text(text, lang) if lang == "zh" else text


COMMENT: tuple[tuple[str, str], ...] = (
    (r"N: cores per device", "N：每个设备的 CPU 核数"),
    (r"N: cores that training leaves free", "N：训练所余的 CPU 核数"),
    (r"(\S+) only in the steps that log", r"只在写日志的步中用 \1"),
    (r"(\S+) or (\S+) only in the steps that log", r"只在写日志的步中用 \1 或 \2"),
    (r"of the save before", "上一次保存的"),
    (r"the dimension that changes", "会变化的维度"),
    (r"on the device", "留在设备上"),
    (r"once, at the end", "结束时只读取一次"),
    (r"what lives by now is not looked at again", "此时存活的对象不再被查看"),
    (r"or once, before the loop", "或在循环之前只做一次"),
    (r"around forward and backward", "包住前向和反向"),
    (r"beside the training, where it needs no result", "不需要其结果时与训练并行"),
    (r"the same on every device of the job", "作业的每块设备设为相同"),
    (r"the rated limit of this model", "该型号的额定上限"),
    (r"afterwards: (.+)", r"用完后：\1"),
    (r"then IOMMU and ACS of the bridges", "再查 IOMMU 与桥的 ACS"),
    (r"Slurm: (.+)", r"在 Slurm 中用 \1"),
    (r"with no process on it", "其上不能有进程"),
    (r"cores of the host / processes on it", "主机核数除以其上的进程数"),
    (r"cores per device; no limit for cpu", "每设备的核数；不设 CPU limit"),
    (r"for a metric that runs on one core", "用于只占一个核的指标计算"),
    (r"of every rank; group equal stacks", "对每个 rank 执行；相同的调用栈归为一组"),
)
"""Comments of patches."""


def patch_line(line: str, lang: Lang) -> str:
    """A line of a patch, with its comment in the reader's language."""
    code, mark, comment = line.partition("  # ")
    return line if lang == "en" else code + mark + in_chinese(comment, COMMENT)


def input_error(given: report.Input, lang: Lang) -> str:
    """Why an input could not be used: its name, the place, what is wrong and what would mend it."""
    error = given.error or ""
    rest = error.removeprefix(given.name)
    found = re.fullmatch(r"(?: at (?P<place>[^:;]+))?: (?P<what>.*?)(?:; (?P<mend>.*))?", rest, re.DOTALL)
    if lang == "en" or found is None or rest == error:
        return error
    place = f"（{in_chinese(found['place'], _PLACE)}）" if found["place"] else ""
    mend = f"；{in_chinese(found['mend'], MEND)}" if found["mend"] else ""
    return f"{given.name}{place}：{in_chinese(found['what'], ERROR)}{mend}"
