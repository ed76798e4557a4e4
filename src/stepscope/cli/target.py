"""Where an answer goes: files that appear whole or not at all, and never in the place of an input."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, cast

import click

from stepscope.model.error import StepscopeError, UnusableError

_PREFIX = 20
"""Characters of a name that its temporary file keeps: at most 80 bytes of the 255 that a name may have."""


def check_output(output: str, option: str = "-o", inputs: Sequence[str] = ()) -> Path:
    """The path of an option, refused early where it cannot become a file or is one of the inputs.

    `inputs` are as the user gave them: files, directories, archives or patterns.
    """
    if not output:
        raise click.UsageError(f"{option} is given an empty name; give it a file")
    path = Path(os.path.realpath(output))
    mode = _mode(path, output, option)
    if mode is not None and stat.S_ISDIR(mode):
        raise click.UsageError(f"{output}: is a directory; give a file to {option}")
    parent = _mode(path.parent, output, option)
    if parent is None or not stat.S_ISDIR(parent):
        raise click.UsageError(f"{output}: its directory does not exist; make it first")
    # A terminal or a pipe may be read and written at once; only what lies in a file can be lost.
    if mode is not None and stat.S_ISREG(mode) and _is_among(path, inputs):
        raise click.UsageError(f"{output}: is an input; give another file to {option}")
    return path


def check_folder(output: str, names: Sequence[str], inputs: Sequence[str] = ()) -> list[str]:
    """The path of each name in a directory, which need not exist yet; refused as `check_output` does."""
    if not output:
        raise click.UsageError("-o is given an empty name; give it a directory")
    folder = Path(output)
    mode = _mode(folder, output, "-o")
    if mode is not None and not stat.S_ISDIR(mode):
        raise click.UsageError(f"{output}: is a file; give a directory to -o, or one table with --table")
    if mode is None and not Path(os.path.realpath(output)).parent.is_dir():
        raise click.UsageError(f"{output}: cannot be made: no such directory above it; give another -o")
    paths = [str(folder / name) for name in names]
    if mode is not None:
        for path in paths:
            check_output(path, "-o", inputs)
    return paths


def check_place(folder: str, option: str) -> None:
    """A folder in which files are to be kept later: made now, and refused where that cannot be done."""
    if not folder:
        raise click.UsageError(f"{option} is given an empty name; give it a directory")
    try:
        os.makedirs(folder, exist_ok=True)
    except FileExistsError:
        raise UnusableError(f"{folder}: is a file; give a directory to {option}") from None
    except OSError as error:
        raise UnusableError(f"{folder}: cannot be made: {_why(error)}; give another {option}") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UnusableError(f"{folder}: nothing can be written there; give another {option}")


@contextlib.contextmanager
def made_folder(output: str) -> Iterator[None]:
    """A directory, made where it is absent, and gone again where nothing came into it."""
    is_new = not os.path.isdir(output)
    try:
        os.makedirs(os.path.realpath(output), exist_ok=True)
    except OSError as error:
        raise click.UsageError(f"{output}: cannot be made: {_why(error)}; give another -o") from error
    try:
        yield
    except BaseException:
        if is_new:
            with contextlib.suppress(OSError):
                os.rmdir(output)
        raise


@contextlib.contextmanager
def whole_file(output: str, option: str = "-o") -> Iterator[BinaryIO]:
    """A file that appears under its name when the block ends well, and not at all where it does not."""
    with whole_files([output], option) as (file,):
        yield file


@contextlib.contextmanager
def packed_file(output: str, option: str = "-o") -> Iterator[BinaryIO]:
    """`whole_file`, compressed where the name ends in .gz: the same bytes for the same content."""
    import gzip

    with whole_file(output, option) as file:
        if not output.endswith(".gz"):
            yield file
            return
        with gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed:
            yield cast("BinaryIO", packed)


@contextlib.contextmanager
def whole_files(outputs: Sequence[str], option: str = "-o") -> Iterator[list[BinaryIO]]:
    """Files that appear together when the block ends well and all are on the disk; else none does."""
    paths = [check_output(output, option) for output in outputs]
    temporary: dict[str, Path] = {}
    files: list[BinaryIO] = []
    try:
        try:
            for path in paths:
                files.append(_opened(path, temporary))
            yield files
        finally:
            # All are closed, and the first refusal is told: the last bytes are written on closing.
            with contextlib.ExitStack() as stack:
                for file in files:
                    stack.callback(file.close)
        for name, path in temporary.items():
            os.chmod(name, stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o666 & ~_umask())
        for name in list(temporary):
            os.replace(name, temporary[name])
            del temporary[name]
    except OSError as error:
        what = outputs[0] if len(outputs) == 1 else os.path.dirname(outputs[0])
        raise click.UsageError(
            f"{what}: cannot be written: {_why(error)}; give another file to {option}"
        ) from error
    finally:
        for name in temporary:
            with contextlib.suppress(OSError):
                os.unlink(name)


def _opened(path: Path, temporary: dict[str, Path]) -> BinaryIO:
    if path.exists() and not path.is_file():  # a pipe or a device: nothing to replace
        return path.open("wb")
    handle, name = tempfile.mkstemp(prefix=f".{path.name[:_PREFIX]}.", dir=path.parent)
    temporary[name] = path
    return os.fdopen(handle, "wb")


def _mode(path: Path, output: str, option: str) -> int | None:
    """What lies at a path, `None` where nothing does. A name too long, or a folder that may not be entered,
    is refused."""
    try:
        return os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise click.UsageError(
            f"{output}: cannot be written: {_why(error)}; give another file to {option}"
        ) from error


def _is_among(path: Path, inputs: Sequence[str]) -> bool:
    """Whether a file is one that the inputs mean, or the archive that holds them."""
    from stepscope.trace.discover import MEMBER, discover

    for given in inputs:
        names = [given]
        with contextlib.suppress(StepscopeError, OSError):  # reading it will say why
            names += discover([given])
        for name in names:
            for each in (name, name.partition(MEMBER)[0]):
                with contextlib.suppress(OSError, ValueError):
                    if os.path.samefile(each, path):
                        return True
    return False


def _why(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else str(error)) or type(error).__name__


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
