"""The packaged sample is small and is what its script makes."""

from __future__ import annotations

import gzip
from pathlib import Path

from tools import make_demo


def test_the_packaged_sample_is_what_the_script_makes(root: Path) -> None:
    assert gzip.decompress(make_demo.OUTPUT.read_bytes()) == make_demo.make()


def test_the_packaged_sample_is_small(root: Path) -> None:
    assert make_demo.OUTPUT.stat().st_size < 200_000
