"""Lines of PyTorch's watchdog: one event a rank and collective, with how far its rank came."""

from __future__ import annotations

from stepscope.sources.log import read_log

LINES = """[rank1]:[E626 06:24:44.903881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective \
operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9801523, NumelOut=9801523, \
Timeout(ms)=600000) ran for 600020 milliseconds before timing out.
[rank1]:[E626 06:24:44.906457629 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank 1] \
Exception (either an error or timeout) detected by watchdog at work: 808, last enqueued NCCL work: 811, \
last completed NCCL work: 807.
"""


def test_a_timeout_and_what_its_watchdog_says_after_it_are_one_event() -> None:
    (event,) = read_log("", data=LINES.encode(), name="train.log").events
    assert (event.what, event.rank) == ("nccl_watchdog", 1)
    assert {name: event.numbers[name] for name in ("sequence", "last_enqueued", "last_completed")} == {
        "sequence": 808, "last_enqueued": 811, "last_completed": 807,
    }  # fmt: skip
    assert "OpType=ALLREDUCE" in event.text
