"""The command line of the check."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stepscope.model.error import StepscopeError, UsageError
from tools.gpu_check.budget import Budget
from tools.gpu_check.case import CASES, cases_for
from tools.gpu_check.keep import pack
from tools.gpu_check.run import Check, about, run

DESCRIPTION = """Train on this machine's GPU, well and with known faults, record traces and counters beside
it, and hold what `stepscope diagnose` says against what was done. Changes no setting of the device. Ends
with 0 where every verdict and threshold is as it should be, with 1 where one is not."""
KEPT = ("no-workers", "item-each-step", "unfused-optimizer")
"""Which case to keep, where none is named: the first of them that came out right."""


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="tools/gpu-check", description=DESCRIPTION)
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: without counters, and only the faults that a CPU has")  # fmt: skip # noqa: E501
    made.add_argument("--minutes", type=float, default=8.0, help="time there is; what does not fit is left out and said")  # fmt: skip # noqa: E501
    made.add_argument("--cases", nargs="+", default=(), metavar="NAME", help=", ".join(c.name for c in CASES))
    made.add_argument("--out", type=Path, help="folder for everything that is recorded")
    made.add_argument("--fixture", type=Path, metavar="FILE", help="one small recording (.tar.gz, at most 4 MB) without secrets and identities")  # fmt: skip # noqa: E501
    made.add_argument("--keep", metavar="NAME", help="the case that --fixture keeps")
    made.add_argument("--python", default=sys.executable, help="a Python with torch (this one)")
    made.add_argument("--busy-ok", action="store_true", help="measure although others use the device")
    made.add_argument("--seed", type=int, default=0)
    return made


def _nvml() -> Any:
    import pynvml

    return pynvml


def main(words: Sequence[str] | None = None) -> int:
    """Run the check; wants are one line on stderr, with the exit code of their kind."""
    asked = parser().parse_args(words)
    try:
        with tempfile.TemporaryDirectory(prefix="gpu-check-") as scratch:
            return _run(asked, asked.out or Path(scratch))
    except StepscopeError as error:
        print(f"gpu-check: {error}", file=sys.stderr)
        return error.exit_code


def _run(asked: argparse.Namespace, out: Path) -> int:
    try:
        cases = cases_for(asked.device, tuple(asked.cases))
        kept = cases_for(asked.device, (asked.keep,)) if asked.keep else ()
    except ValueError as error:
        raise UsageError(str(error)) from error
    if not asked.minutes > 0:
        raise UsageError(f"--minutes {asked.minutes}: give a number above 0")
    if not cases:
        raise UsageError(f"--cases: none of them can be shown on {asked.device}")
    check = Check(
        device=asked.device,
        python=asked.python,
        cases=cases,
        out=out,
        budget=Budget(60 * asked.minutes, time.monotonic),
        say=lambda line: print(line, flush=True),
        load_nvml=_nvml,
        date=time.strftime("%Y-%m-%d", time.gmtime()),
        is_busy_ok=asked.busy_ok,
        seed=asked.seed,
    )
    code = run(check)
    if asked.fixture:
        right = [row for row in check.rows if row.outcome == "right"]
        wanted = [each.name for each in kept] or KEPT
        best = [row for name in wanted for row in right if row.case == name] or ([] if kept else right)
        if not best:
            raise UsageError(f"--fixture {asked.fixture}: no case to keep came out right")
        row = best[0]
        told = {**about(check), "case": row.case, "outcome": row.outcome, "findings": list(row.told)}
        size = pack(out / row.case, told, asked.fixture)
        print(f"kept {row.case} in {asked.fixture} ({size / 1e6:.2f} MB)")
    return code
