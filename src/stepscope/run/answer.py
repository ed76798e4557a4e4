"""What is said when the command has ended: a verdict, or in one line why there is none."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stepscope.model.redact import without_secrets
from stepscope.model.redact.identity import Pseudonyms
from stepscope.model.text import Lang, Text
from stepscope.run.folder import PREFIX, Folder

if TYPE_CHECKING:
    from stepscope.model.report import Report
    from stepscope.offline import Diagnosed

SEEN, FAULT = "torch.seen", "attach.fault"
"""Files that attach mode leaves in the run's folder; as in `stepscope_sdk.attach` (a test compares)."""

CAPTURED = 3
"""Steps of the capture that a next command asks for."""

OFF = Text(
    en="no verdict: marks are switched off by STEPSCOPE_DISABLE or STEPSCOPE=off; unset it and run again",
    zh="没有结论：STEPSCOPE_DISABLE 或 STEPSCOPE=off 关闭了打点；请取消后重新运行",
)
NO_TORCH = Text(
    en="no verdict: the command imported no torch in a Python that reads PYTHONPATH (not python -I, "
    "-E or -S); mark the steps with stepscope_sdk.monitor() in the script",
    zh="没有结论：该命令没有在读取 PYTHONPATH 的 Python 中导入 torch（不支持 python -I、-E、-S）；"
    "请在脚本中用 stepscope_sdk.monitor() 标记训练步",
)
NO_STEPS = Text(
    en="no verdict: torch was imported, but no optimizer of torch.optim finished a step; let it run longer, "
    "or mark the steps with stepscope_sdk.monitor() in the script",
    zh="没有结论：已导入 torch，但没有 torch.optim 优化器完成一步；请让它多运行一会儿，"
    "或在脚本中用 stepscope_sdk.monitor() 标记训练步",
)
FAILED = Text(
    en="no verdict: marks stopped by a fault of stepscope ({what}); please report it, and mark the steps "
    "with stepscope_sdk.monitor() until then",
    zh="没有结论：stepscope 自身出错，打点已停止（{what}）；请报告此问题，"
    "在此之前可用 stepscope_sdk.monitor() 标记训练步",
)
NO_ROOM = Text(
    en="which one could not be written: no room in the folder of the marks",
    zh="具体原因无法写入：打点文件夹没有空间",
)
REMOVED = Text(
    en="no verdict: the folder of the marks was removed while the command ran; leave folders named "
    "stepscope-run-* in /dev/shm and TMPDIR alone",
    zh="没有结论：命令运行期间打点文件夹被删除；请勿删除 /dev/shm 和 TMPDIR 中的 stepscope-run-* 文件夹",
)
OURS = Text(
    en="no verdict: a fault of stepscope ({what}); please report it",
    zh="没有结论：stepscope 自身出错（{what}）；请报告此问题",
)


def fault_of(error: BaseException) -> str:
    """Type, text where it has one, and place of a fault, in one line without secrets."""
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f" at {Path(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno}"
    text = " ".join(str(error).split())
    return without_secrets(f"{type(error).__name__}{': ' + text if text else ''}{where}")[0]


def no_verdict(error: BaseException, lang: Lang) -> str:
    """One line: the diagnosis itself failed."""
    return OURS.in_(lang).format(what=fault_of(error))


def why_none(folder: Folder, is_off: bool, lang: Lang) -> str:
    """One line: why no step was seen, and what to do."""
    if is_off:
        return OFF.in_(lang)
    fault = _read(folder.live / FAULT)
    if fault is not None:
        what = " ".join(without_secrets(fault)[0].split()) or NO_ROOM.in_(lang)
        return FAILED.in_(lang).format(what=what)
    if not folder.live.is_dir():
        return REMOVED.in_(lang)
    return (NO_STEPS if (folder.live / SEEN).exists() else NO_TORCH).in_(lang)


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def captured(folder: Folder) -> list[Path]:
    """Traces of the run's captures."""
    return sorted(folder.traces.rglob("*.json.gz"))


def diagnosed(
    folder: Folder,
    lang: Lang,
    *,
    redact_key: str | None = None,
    keep_identities: bool = False,
    was_interrupted: bool = False,
    has_ended_well: bool = False,
) -> Diagnosed:
    """The report of all that the run left: marks of every rank, and the capture where there is one."""
    from stepscope import offline

    files = [*sorted(folder.kept.glob("*.ring")), *captured(folder)]
    return offline.diagnosed(
        [str(each) for each in files],
        lang=lang,
        redact_key=redact_key,
        keep_identities=keep_identities,
        was_interrupted=was_interrupted,
        has_ended_well=has_ended_well,
        shown_as={str(each): each.name for each in files},
    )


def with_commands(found: Diagnosed, folder: Folder, words: Sequence[str]) -> Report:
    """The report with commands that can be typed: what lay in the run's folder is gone by then."""
    report, done = found.report, found.redaction
    command = without_secrets(shlex.join(words))[0]
    if not done.keep_identities:
        command = Pseudonyms(done.key, done.known).apply(command)
    ours = [each.name for each in (*folder.kept.iterdir(), *captured(folder))]

    def mended(line: str | None) -> str | None:
        if line is None or not line.startswith("stepscope diagnose "):
            return line
        head, mark, why = line.partition("  # ")
        has_ours = head.endswith(" .") or PREFIX in head or any(name in head for name in ours)
        if has_ours or "NEW_TRACE" in head:
            steps = f" --capture {CAPTURED}" if has_ours else ""
            head = f"stepscope run{steps} -- {command}"
        return head + mark + why

    open_ = tuple(replace(each, command=mended(each.command)) for each in report.undecided)
    return replace(report, undecided=open_, next=mended(report.next))
