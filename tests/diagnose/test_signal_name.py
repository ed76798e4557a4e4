"""A device has one number in a report: that of its trace, also where its counters give it another."""

from __future__ import annotations

from stepscope.diagnose.signal import named_as
from stepscope.model.report import Device
from stepscope.model.sample import Owner


def test_counters_go_under_the_number_of_the_trace_and_keep_their_uuid() -> None:
    owner = Owner("device", uuid="GPU-1", index=2, host="node-3", model="H100")
    assert named_as(owner, Device(kind="cuda", index=3)) == Device(index=3, uuid="GPU-1", name="H100")


def test_without_a_number_in_the_trace_that_of_the_counters_stays() -> None:
    owner = Owner("device", uuid="GPU-1", index=2)
    assert named_as(owner, Device(kind="cuda")).index == 2
