"""What every test may ask for."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

# A shell ignores Ctrl-C for what it runs behind it, and every process that a test starts would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _shared_data() -> Path:
    given = os.environ.get("STEPSCOPE_SHARED_DATA")
    return Path(given) if given else ROOT.parent / "shared" / "data"


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository's root."""
    return ROOT


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real traces, which are too large for the repository."""
    folder = _shared_data()
    if not folder.is_dir():
        pytest.skip(f"no shared data: {folder} is absent (set STEPSCOPE_SHARED_DATA)")
    return folder


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tests want to be seen although they pass: `record_property("shown", …)`."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties:
            if name == "shown":
                terminalreporter.write_line(f"{report.nodeid}: {value}")
