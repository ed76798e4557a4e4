"""The summary by op and kernel: its sums are the trace's, and it is small."""

from __future__ import annotations

import gzip
import io
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from stepscope import offline
from stepscope.analyse.linked import link_trace
from stepscope.analyse.summary import OTHERS, summary_of
from stepscope.export import ops
from stepscope.model.error import StepscopeError
from stepscope.model.summary import OpSummary, TraceSummary, decode
from stepscope.trace.category import DEVICE_KINDS, Kind, is_of, span_kinds
from stepscope.trace.load import load
from tests.cli.conftest import Run
from tests.mcp.test_answer import traces
from tests.views.perfetto.test_file import event, trace_file

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "src/stepscope/demo/demo.pt.trace.json.gz"
LEAST_BYTES = 100_000


def exported(path: Path) -> tuple[OpSummary, int]:
    """The summary as read back, and its compressed size."""
    sink = io.BytesIO()
    ops.write(offline.diagnosed(path), sink)
    return decode(sink.getvalue()), len(ops.compressed(sink.getvalue()))


def check_sums(found: TraceSummary, path: Path) -> None:
    """Calls, launches and device time are those of the trace."""
    trace = load(str(path))
    linked = link_trace(trace)
    is_op = linked.kinds == Kind.OP
    assert sum(found.op_steps.count) == int(is_op.sum())
    assert sum(found.op_steps.host_ns) == int(trace.spans.dur_ns[is_op].sum())
    assert found.left_out == int((~linked.is_good & is_of(span_kinds(trace), Kind.OP, *DEVICE_KINDS)).sum())
    assert sum(found.op_steps.count) + found.left_out >= sum(
        trace.cats[i] == "cpu_op" for i in trace.spans.cat_id.tolist()
    )
    assert sum(found.kernel_steps.count) == len(linked.activities)
    duration = linked.activities.end_ns - linked.activities.start_ns
    assert sum(found.kernel_steps.device_ns) == int(duration.sum())
    assert sum(found.op_steps.device_ns) <= int(duration.sum())
    assert max(found.kernel_steps.max_ns, default=0) == (int(duration.max()) if len(duration) else 0)


def test_the_sample_by_op_shape_and_step() -> None:
    (found,) = exported(DEMO)[0].traces
    check_sums(found, DEMO)
    assert [step.step for step in found.steps] == [10, 11, 12, 13, 14, 15]
    assert {step.use for step in found.steps} == {"counted"}
    per_step = defaultdict(int)
    for row in found.rows():
        per_step[row.step] += row.count
    assert set(per_step) <= {10, 11, 12, 13, 14, 15, None}
    assert len({per_step[step] for step in (11, 12, 13, 14)}) == 1
    assert found.merged_ops == found.merged_kernels == 0


def test_the_ops_of_a_step_have_their_device_time() -> None:
    """In every step what the ops launched is what the kernels with an op took."""
    (found,) = exported(DEMO)[0].traces
    of_ops = defaultdict(int)
    for step, device_ns in zip(found.op_steps.step, found.op_steps.device_ns, strict=True):
        of_ops[step] += device_ns
    of_kernels = defaultdict(int)
    for step, kernel, device_ns in zip(
        found.kernel_steps.step, found.kernel_steps.kernel, found.kernel_steps.device_ns, strict=True
    ):
        if found.kernels.op[kernel] >= 0:
            of_kernels[step] += device_ns
    assert {step: time for step, time in of_ops.items() if time} == dict(of_kernels)


def test_an_op_that_writes_down_another_s_arguments_is_an_op_without_device_work(tmp_path: Path) -> None:
    args = {"correlation": 1, "device": 0, "stream": 7}
    path = trace_file(
        tmp_path / "a.json",
        [
            event("c10d::allreduce_", 1, 90),
            event("record_param_comms", 2, 50),
            event("cudaLaunchKernel", 5, 2, cat="cuda_runtime", args={"correlation": 1}),
            event("ncclDevKernel", 100, 30, tid=7, pid=0, cat="kernel", args=args),
        ],
    )
    (found,) = exported(path)[0].traces
    rows = sorted((row.name, row.count, row.host_ns, row.device_ns) for row in found.rows())
    assert rows == [("c10d::allreduce_", 1, 90_000, 30_000), ("record_param_comms", 1, 50_000, 0)]
    (kernel,) = found.kernels.op
    assert found.texts[found.ops.name[kernel]] == "c10d::allreduce_"
    assert found.left_out == 0


def test_what_is_merged_keeps_every_sum() -> None:
    trace = load(str(DEMO))
    linked = link_trace(trace)
    whole = summary_of(trace, linked, (), "x", None)
    small = summary_of(trace, linked, (), "x", None, most=3)
    assert len(small.ops.name) == 4
    assert small.texts[small.ops.name[-1]] == OTHERS
    assert small.merged_ops == len(whole.ops.name) - 3
    for column in ("count", "host_ns", "device_ns"):
        assert sum(getattr(small.op_steps, column)) == sum(getattr(whole.op_steps, column))
    assert sum(small.kernel_steps.device_ns) == sum(whole.kernel_steps.device_ns)
    assert max(small.op_steps.host_ns) >= max(whole.op_steps.host_ns)


def test_every_real_trace_is_summed_in_a_tenth_of_its_size(shared_data: Path) -> None:
    shares = []
    for path in traces(shared_data):
        data = path.read_bytes()
        size = len(data) if data[:2] == b"\x1f\x8b" else len(gzip.compress(data))
        if size < LEAST_BYTES:
            continue
        try:
            found, compressed = exported(path)
        except StepscopeError:
            continue
        for each in found.traces:
            check_sums(each, path)
        shares.append(compressed / size)
    assert len(shares) >= 12
    print(f"{len(shares)} traces: median {np.median(shares):.4f}, largest {max(shares):.4f}")
    assert max(shares) <= 0.1


def test_a_name_that_ends_in_gz_is_compressed(stepscope: Run, sample: Path, tmp_path: Path) -> None:
    assert stepscope("export", "ops", sample, "-o", tmp_path / "a.json.gz").code == 0
    assert stepscope("export", "ops", sample, "-o", tmp_path / "a.json").code == 0
    data = (tmp_path / "a.json").read_bytes()
    assert gzip.decompress((tmp_path / "a.json.gz").read_bytes()) == data
    assert decode(data).traces[0].steps


def test_steps_can_be_chosen(sample: Path) -> None:
    found = ops.summary(offline.diagnosed(sample, steps=(12, 13)))
    assert [step.step for step in found.traces[0].steps] == [12, 13]


def test_a_file_that_is_no_summary_is_refused() -> None:
    import msgspec

    with pytest.raises(msgspec.ValidationError):
        decode(b'{"schema":"stepscope.report/1","version":"1"}')
