"""A script instead of a file: `stepscope run -- CMD`.

Starts the command with attach mode, keeps its marks while it runs, and diagnoses them when it has ended,
however that was.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from stepscope.model.error import StepscopeError, UsageError
from stepscope.model.redact import without_secrets
from stepscope.model.text import Lang
from stepscope.run import folder as folders
from stepscope.run.answer import captured, diagnosed, no_verdict, why_none, with_commands
from stepscope.run.capture import wanted
from stepscope.run.child import NOT_FOUND, NOT_RUN, Child
from stepscope.run.environment import attached_folder, is_off, of_command
from stepscope.run.watching import Watching

if TYPE_CHECKING:
    from stepscope.model.report import Report

__all__ = ["Done", "Options", "run"]


INTERRUPT = 130
"""Exit code of a command that Ctrl-C ended, as a shell gives it."""
WRITE = "write the command after -- as in: stepscope run -- python train.py"


@dataclass(frozen=True, slots=True)
class Options:
    """`capture`: -1 where the marks cannot decide, `None` never, else so many steps. `keep`: where marks and
    captures are to stay; `None`: nowhere."""

    capture: int | None = -1
    keep: str | None = None
    lang: Lang = "en"
    keep_identities: bool = False
    redact_key: str | None = None


@dataclass(frozen=True, slots=True)
class Done:
    """`code` is the command's; `report` is `None` where nothing can be said, and `lines` say why."""

    code: int
    report: Report | None = None
    lines: list[str] = field(default_factory=list)


def run(words: Sequence[str], environment: Mapping[str, str], options: Options, now_s: float) -> Done:
    """Run the command to its end, and diagnose it. `now_s`: seconds since the epoch."""
    attached = attached_folder()
    if options.keep is not None and Path(options.keep).exists() and any(Path(options.keep).iterdir()):
        raise UsageError(f"{options.keep}: is not empty; give a new folder to --keep")
    with contextlib.suppress(OSError):
        folders.sweep(now_s)
    try:
        folder = folders.make()
    except OSError as error:
        raise UsageError(
            f"no folder for the marks can be made: {(error.strerror or type(error).__name__).lower()}; "
            "set TMPDIR to a folder with room"
        ) from error
    try:
        try:
            child = Child(words, of_command(environment, folder, attached))
        except OSError as error:
            is_there = not isinstance(error, FileNotFoundError)
            why = error.strerror or type(error).__name__
            what = without_secrets(words[0])[0]
            line = f"{what}: cannot be run: {why.lower()}; {WRITE}"
            return Done(NOT_RUN if is_there else NOT_FOUND, lines=[line])
        watching = Watching(folder, options.capture, options.lang)
        try:
            code = child.wait(watching.tick)
        except BaseException as error:  # noqa: BLE001  the command runs on, whatever became of us
            watching.fail(error)
            code = child.finish()
        watching.end()
        done = Done(code, lines=watching.lines(options.lang))
        try:
            return _answer(done, words, watching, folder, is_off(environment), options)
        except Exception as error:  # noqa: BLE001  no verdict is worth the command's exit code
            return Done(code, lines=[*done.lines, no_verdict(error, options.lang)])
    finally:
        folder.remove()


def _answer(
    done: Done, words: Sequence[str], watching: Watching, folder: folders.Folder, off: bool, options: Options
) -> Done:
    lines = list(done.lines)
    if options.keep is not None:
        lines += _kept(folder, Path(options.keep))
    if watching.num_steps == 0:
        return Done(done.code, lines=[*lines, why_none(folder, off, options.lang)])
    try:
        found = diagnosed(
            folder,
            options.lang,
            redact_key=options.redact_key,
            keep_identities=options.keep_identities,
            was_interrupted=done.code == INTERRUPT,
            has_ended_well=done.code == 0,
        )
    except StepscopeError as error:
        return Done(done.code, lines=[*lines, str(error)])
    failed = watching.no_capture(options.lang)
    if failed is not None and (options.capture != -1 or wanted(found.report) is not None):
        lines.append(failed)  # elsewhere the marks of the whole run have decided meanwhile
    return Done(done.code, with_commands(found, folder, words), lines)


def _kept(folder: folders.Folder, target: Path) -> list[str]:
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path in (*folder.kept.iterdir(), *captured(folder)):
            shutil.copy2(path, target / path.name)
    except OSError as error:
        return [f"{target}: marks cannot be kept there: {error.strerror}; give another folder to --keep"]
    return []
