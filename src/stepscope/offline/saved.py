"""A report that was saved as JSON, in the place of the traces that it was made of."""

from __future__ import annotations

import os
from codecs import BOM_UTF8

import msgspec

from stepscope.model import redact
from stepscope.model.error import InputError, RefusedError, UsageError
from stepscope.model.report import SCHEMA, Report, decode
from stepscope.sources import file

MAX_BYTES = 1 << 30
_TOO_LARGE = f"is larger than a report can be ({MAX_BYTES >> 30} GB)"
_HEAD = 256


def is_saved(path: str) -> bool:
    """Whether a file, plain or gzip, begins as a report does, behind a byte order mark or not."""
    return b"".join(file.head(path, _HEAD).removeprefix(BOM_UTF8).split()).startswith(
        b'{"schema":"' + SCHEMA.partition("/")[0].encode()
    )


def read(path: str, *, redact_key: str | None, keep_identities: bool) -> Report:
    """The report, redacted as a new one is: whoever saved it may have kept identities.

    Raises InputError where it is none, UsageError where it is too large to be one.
    """
    if os.path.getsize(path) > MAX_BYTES:
        raise UsageError(f"{path}: {_TOO_LARGE}")
    try:
        whole = file.read(path, file.FileLimits(max_bytes=MAX_BYTES))
        report = decode(whole.data.removeprefix(BOM_UTF8))
    except RefusedError as error:
        raise UsageError(f"{path}: {_TOO_LARGE}") from error
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        mend = f"give a report ({SCHEMA}) that this version wrote, or the traces"
        raise InputError(path, f"is no report: {error}", mend) from error
    key = (
        redact_key.encode() if redact_key else redact.key_of_inputs(i.sha256 or i.name for i in report.inputs)
    )
    return redact.redact_report(report, key=key, keep_identities=keep_identities)
