"""Values that are none: sentinels that look like numbers.

DCGM writes them where a value is missing (`dcgm_structs.h`, `DCGM_INT32_BLANK` and on; 2^47 + n for doubles).
Past a float64 all of int64's read 2^63. A max-uint is what NVML and amd-smi mean by "not available".
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from stepscope.model.sample import F64
from stepscope.sources.field import Blank

KINDS = ("blank", "not_found", "not_supported", "no_permission")
INT32_BLANK = 0x7FFFFFF0
INT64_BLANK = 2.0**63
DOUBLE_BLANK = 2.0**47
UINT64_MAX = 2.0**64
UINT32_MAX = 2.0**32 - 1
UINT16_MAX = 65535.0

REASON_OF_TEXT = {
    "n/a": "not_supported",
    "na": "not_supported",
    "-": "blank",
    "--": "blank",
    "": "blank",
    "nan": "blank",
    "none": "blank",
    "null": "blank",
    "not supported": "not_supported",
    "not available": "blank",
    "requested functionality has been deprecated": "not_supported",
    "deprecated": "not_supported",
    "unknown error": "blank",
    "unknown": "blank",
    "err!": "blank",
    "error": "blank",
    "gpu is lost": "not_found",
    "gpu requires reset": "blank",
    "insufficient permissions": "no_permission",
    "no permission": "no_permission",
    "not found": "not_found",
    "<<<null>>>": "blank",
    "<<<not_found>>>": "not_found",
    "<<<not_supported>>>": "not_supported",
    "<<<not_perm>>>": "no_permission",
}
"""Words of nvidia-smi, dcgmi and amd-smi in the place of a number, in lower case and without brackets."""


def reason_of_text(text: str) -> str | None:
    """Why a cell has no number, `None` where it may have one."""
    return REASON_OF_TEXT.get(text.strip().strip("[]").strip().lower())


def reasons(value: F64, blank: Blank) -> tuple[npt.NDArray[np.bool_], dict[str, int]]:
    """(which values are values, how many are not for which reason), of one field's column."""
    is_value = np.isfinite(value)
    why: dict[str, int] = {}
    if num_blank := int(np.count_nonzero(~is_value)):
        why["blank"] = num_blank
    if blank == "none":
        is_sentinel = is_value & (np.abs(value) >= INT64_BLANK)
        why.update(_count("blank", is_sentinel, why))
        return is_value & ~is_sentinel, why
    found = np.full(len(value), -1)
    for offset in range(len(KINDS)):
        if blank != "counter":
            found[value == INT32_BLANK + offset] = offset
        if blank in ("double", "counter"):
            found[value == DOUBLE_BLANK + offset] = offset
    found[is_value & (np.abs(value) >= INT64_BLANK) & (found < 0)] = 0
    if blank == "double":
        found[is_value & (value >= DOUBLE_BLANK) & (found < 0)] = 0
    for offset, kind in enumerate(KINDS):
        why.update(_count(kind, found == offset, why))
    return is_value & (found < 0), why


def _count(kind: str, where: npt.NDArray[np.bool_], why: dict[str, int]) -> dict[str, int]:
    count = int(np.count_nonzero(where))
    return {kind: why.get(kind, 0) + count} if count else {}
