"""Copies that hold up the device: the cure depends on which way they go."""

from __future__ import annotations

from pathlib import Path

import pytest

import stepscope
from tests.analyse.build import Build

PINNED, OF_RESULTS, WITHIN = "Pin the batches", "Leave results on the device", "do not leave the device"


@pytest.mark.parametrize(
    ("name", "advice", "feature"),
    [
        ("Memcpy HtoD (Pageable -> Device)", PINNED, "to_device_copy_share"),
        ("Memcpy DtoH (Device -> Pageable)", OF_RESULTS, "from_device_copy_share"),
        ("Memcpy DtoD (Device -> Device)", WITHIN, "within_device_copy_share"),
        ("CopyHostToDevice", PINNED, "to_device_copy_share"),
        ("CopyDeviceToHost", OF_RESULTS, "from_device_copy_share"),
    ],
)
def test_a_copy_that_nothing_hides_gets_the_cure_of_its_way(
    name: str, advice: str, feature: str, tmp_path: Path
) -> None:
    """Four steps of 100 µs: a kernel of 60, then a copy of 30 that nothing hides: 30 % of the step."""
    build = Build()
    for step in range(4):
        at = step * 100
        build = build.step(step, at, at + 100).op("aten::mm", at, at + 5)
        build = build.kernel("gemm", at + 5, at + 65, launched=(at + 1, at + 2))
        kind = name.replace("Pageable", "Pinned") if advice == OF_RESULTS else name
        build = build.copy(kind, at + 65, at + 95, launched=(at + 3, at + 4), bytes=1 << 20)
    file = tmp_path / "t.json"
    file.write_text(build.write())
    made = stepscope.diagnose(file)
    rule = "pageable-copies" if "Pageable" in kind else "exposed-copy"
    (found,) = (each for each in made.findings if each.rule in ("exposed-copy", "pageable-copies"))
    assert found.rule == rule
    texts = [remedy.text for remedy in found.remedies]
    assert any(advice in text for text in texts), texts
    others = {PINNED, OF_RESULTS, WITHIN} - {advice}
    assert not any(other in text for other in others for text in texts), texts
    shown = {evidence.feature: evidence.value for evidence in found.evidence}
    wanted = "pageable_upload_share" if rule == "pageable-copies" else feature
    assert shown[wanted] == pytest.approx(1.0)


@pytest.mark.parametrize("where", ["in every step", "before the first"])
def test_a_copy_back_behind_which_the_device_computes_costs_nothing(where: str, tmp_path: Path) -> None:
    """A batch of 20 µs that nothing hides in each step of 100; a blocking copy back that computing hides,
    or one of a whole model before the first step."""
    build, blocking = Build(), ("Memcpy DtoH (Device -> Pageable)", "cudaMemcpyAsync")
    if where == "before the first":
        build = build.copy(blocking[0], -900, -100, launched=(-950, -90), stream=9)
    for step in range(4):
        at = step * 100
        build = build.step(step, at, at + 100).op("aten::mm", at, at + 5)
        build = build.copy("Memcpy HtoD (Pinned -> Device)", at + 5, at + 25, launched=(at + 1, at + 2))
        build = build.kernel("gemm", at + 25, at + 100, launched=(at + 3, at + 4))
        if where == "in every step":
            build = build.copy(blocking[0], at + 88, at + 89, launched=(at + 30, at + 90), stream=9)
    file = tmp_path / "t.json"
    file.write_text(build.write())
    found = next(f for f in stepscope.diagnose(file).findings if f.rule == "exposed-copy")
    shown = {evidence.feature: evidence.value for evidence in found.evidence}
    assert shown["to_device_copy_share"] > 0.9
    assert not any(OF_RESULTS in remedy.text for remedy in found.remedies)


@pytest.mark.parametrize(("upload", "download"), [(25, 24), (24, 25), (25, 4), (4, 25)])
def test_uploads_of_pageable_memory_and_all_other_copies_have_each_their_own_cost(
    upload: int, download: int, tmp_path: Path
) -> None:
    """Steps of 100 µs of which so many copy up from pageable memory and down to pinned memory: neither rule
    costs the other's, and pinning promises no gain, for the bytes still cross the bus."""
    build = Build()
    for step in range(4):
        at = step * 100
        build = build.step(step, at, at + 100).op("aten::mm", at + 1, at + 2)
        # Issued a step ahead: the host waits for none of it.
        ahead, down = at - 100, at + 100 - download
        build = build.copy(
            "Memcpy HtoD (Pageable -> Device)",
            at,
            at + upload,
            launched=(ahead + 1, ahead + 2),
            bytes=1 << 20,
        )
        build = build.kernel("gemm", at + upload, down, launched=(ahead + 3, ahead + 4))
        build = build.copy("Memcpy DtoH (Device -> Pinned)", down, at + 100, launched=(ahead + 5, ahead + 6))
    file = tmp_path / "t.json"
    file.write_text(build.write())
    found = {each.rule: each for each in stepscope.diagnose(file).findings}
    cost = {name: each.cost.share for name, each in found.items() if each.cost and "cop" in name}
    wanted = {"pageable-copies": upload / 100, "exposed-copy": download / 100}
    assert cost == pytest.approx(wanted, abs=0.005)
    (pin,) = found["pageable-copies"].remedies
    assert PINNED in pin.text
    assert pin.gain_share is None
    back = [remedy.text for remedy in found["exposed-copy"].remedies]
    assert len(back) == 1
    assert OF_RESULTS in back[0]
