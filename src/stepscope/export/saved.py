"""A report that was saved as JSON, in the place of the traces that it was made of."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from stepscope.model import redact
from stepscope.model.error import InputError, UsageError
from stepscope.model.report import SCHEMA, Report, decode

MAX_BYTES = 1 << 30
_HEAD = 256


def is_saved(path: str) -> bool:
    """Whether a file begins as a report does."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        head = file.read(_HEAD)
    return b"".join(head.split()).startswith(b'{"schema":"' + SCHEMA.partition("/")[0].encode())


def read(path: str, *, redact_key: str | None, keep_identities: bool) -> Report:
    """The report, redacted as a new one is: whoever saved it may have kept identities.

    Raises InputError where it is none, UsageError where it is too large to be one.
    """
    if os.path.getsize(path) > MAX_BYTES:
        raise UsageError(f"{path}: is larger than a report can be ({MAX_BYTES >> 30} GB)")
    try:
        report = decode(Path(path).read_bytes())
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        mend = f"give a report ({SCHEMA}) that this version wrote, or the traces"
        raise InputError(path, f"is no report: {error}", mend) from error
    key = (
        redact_key.encode() if redact_key else redact.key_of_inputs(i.sha256 or i.name for i in report.inputs)
    )
    return redact.redact_report(report, key=key, keep_identities=keep_identities)
