"""What every test may ask for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


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
