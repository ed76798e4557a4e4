"""The command line: one file a verb. This one finds the verbs and turns every end into an exit code.

Verbs import what they need when they run, so that `stepscope --help` answers at once.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import click

from stepscope.model.error import StepscopeError, UsageError
from stepscope.version import VERSION

VERBS = (
    "diagnose",
    "compare",
    "run",
    "demo",
    "doctor",
    "rules",
    "explain",
    "export",
    "simulate",
    "agent",
    "serve",
    "token",
    "notify",
    "mcp",
)

EXIT_OURS = 70
EXIT_INTERRUPTED = 130


class _Verbs(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = importlib.import_module(f"stepscope.cli.{name}").command
        return command


def _show_version(ctx: click.Context, param: click.Parameter, wanted: bool) -> None:
    if not wanted or ctx.resilient_parsing:
        return
    from stepscope.offline import has_native_loader

    click.echo(f"stepscope {VERSION} (native loader: {'yes' if has_native_loader() else 'no'})")
    ctx.exit()


@click.group(cls=_Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Version, and which loader.",
)
def cli() -> None:
    """Says why a GPU training step is slow, and what to do about it.

    Exit codes: 0 done, 1 a finding at or above --fail-on or a regression, 2 wrong usage, 3 nothing asked
    for can be read, or two runs are not comparable, 4 a service cannot be reached, 5 refused, 70 our fault,
    130 interrupted.
    """


class _Stdout(io.FileIO):
    """Standard output, whose refusal to be written is told from that of any other file."""

    has_failed = False

    def write(self, data: Any) -> int:
        if self.has_failed:  # what is still buffered when Python ends has nowhere to go
            return len(data)
        try:
            return super().write(data)
        except BrokenPipeError:
            self.has_failed = True
            raise
        except OSError as error:
            self.has_failed = True
            why = (
                "it is closed"
                if error.errno == errno.EBADF
                else (error.strerror or "no reason given").lower()
            )
            raise UsageError(f"standard output cannot be written: {why}; send it to another file") from error


@contextlib.contextmanager
def _own_stdout() -> Iterator[None]:
    """`_Stdout` in the place of the process's own standard output, also of one that is closed."""
    before = sys.stdout
    if before is not sys.__stdout__:  # somebody's own stream, as in a test
        yield
        return
    with contextlib.suppress(OSError):
        while before is None and os.open(os.devnull, os.O_RDONLY) < 1:
            pass  # so that no file of ours gets the number of standard output
    try:
        raw = _Stdout(1, "w", closefd=False)
    except OSError:
        yield
        return
    encoding = before.encoding if before is not None else "utf-8"
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors="replace", line_buffering=raw.isatty()
    )
    try:
        yield
    finally:
        with contextlib.suppress(OSError, UsageError):
            sys.stdout.flush()
        sys.stdout = before


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code. Errors are one line on stderr."""
    with _own_stdout():
        return _main(list(sys.argv[1:] if arguments is None else arguments))


def _main(words: list[str]) -> int:
    is_debug = "--debug" in words
    # NumPy's linear algebra, which is not used, starts its threads on import: 0.05 CPU seconds for nothing.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a name that the terminal cannot show is no reason to stop
            stream.reconfigure(errors="replace")
    try:
        code = cli.main(words, prog_name="stepscope", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "", err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "stepscope"
        return _fail(f"{error.format_message()} (see `{where} --help`)", 2, is_debug)
    except click.ClickException as error:
        return _fail(error.format_message(), 2, is_debug)
    except (KeyboardInterrupt, click.Abort) as error:
        if isinstance(error.__cause__, EOFError):  # which click takes for an interrupt too
            return _fail(_ours(error.__cause__, is_debug), EXIT_OURS, is_debug)
        return _fail("interrupted", EXIT_INTERRUPTED, False)
    except (BrokenPipeError, SystemExit):
        # The reader has gone (`| head`): nothing is left to say, and nothing went wrong. Click exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except StepscopeError as error:
        return _fail(str(error), error.exit_code, is_debug, words)
    except MemoryError:
        return _fail("out of memory; give fewer files at a time, or fewer --jobs", 3, is_debug)
    except Exception as error:  # noqa: BLE001  the outer wall
        return _fail(_ours(error, is_debug), EXIT_OURS, is_debug)


def _ours(error: BaseException, is_debug: bool) -> str:
    mend = "this is a fault of stepscope: please report it with the command"
    return f"{type(error).__name__}: {error}; {mend}{'' if is_debug else ' and what --debug adds'}"


def _fail(line: str, code: int, is_debug: bool, words: Sequence[str] = ()) -> int:
    from stepscope.model.redact import without_secrets

    line = " ".join(line.split())
    # `/etc/passwd: is no JSON` is a name that was given and what is said of it, no password.
    name = next((word for word in words if word and line.startswith(f"{word}: ")), None)
    if name is not None and not is_debug:
        line = f"{without_secrets(name)[0]}: {without_secrets(line[len(name) + 2 :])[0]}"
        with contextlib.suppress(OSError):
            click.echo(f"stepscope: {line}", err=True)
        return code
    shown = f"stepscope: {line}"
    if is_debug:
        import traceback

        shown = f"{traceback.format_exc().rstrip()}\n{shown}"
    # Names, URLs and keys that an error quotes come from outside, and what is on stderr ends in logs.
    with contextlib.suppress(OSError):  # where stderr is gone too, the code says it
        click.echo(without_secrets(shown)[0], err=True)
    return code
