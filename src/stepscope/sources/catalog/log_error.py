"""Lines that state that something failed: memory, devices, collectives, workers, processes.

Messages are those of PyTorch 1.x and 2.x (c10/cuda/CUDACachingAllocator.cpp, ProcessGroupNCCL.cpp, elastic,
the DataLoader), CUDA's error strings, torch_npu and HCCL, and Slurm.
"""

from __future__ import annotations

import re

from stepscope.sources.formats.log_event import Row, row
from stepscope.sources.formats.log_number import BYTES

_SIZE = r"[\d.]+"
_UNIT = r"[KMGT]?i?B|bytes"

OUT_OF_MEMORY_NUMBERS: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern.replace("SIZE", rf"({_SIZE})\s?({_UNIT})"), re.IGNORECASE))
    for name, pattern in (
        ("requested_bytes", r"tried to allocate SIZE"),
        ("capacity_bytes", r"total capacity of SIZE"),  # 2.x
        ("capacity_bytes", r"SIZE total capacity"),  # 1.x
        ("free_bytes", r"of which SIZE is free"),
        ("free_bytes", r"; SIZE free;"),
        ("process_bytes", r"this process has SIZE memory in use"),
        ("other_process_bytes", r"Process \d+ has SIZE memory in use"),
        ("allocated_bytes", r"allocated memory,? SIZE is allocated by PyTorch"),
        ("allocated_bytes", r"SIZE already allocated"),
        ("reserved_bytes", r"SIZE reserved in total by PyTorch"),
        ("unallocated_bytes", r"SIZE is reserved by PyTorch but unallocated"),
        ("cached_bytes", r"SIZE cached"),  # up to 1.3: what is now called reserved
        ("limit_bytes", r"SIZE allowed"),
    )
)
"""Numbers of an out-of-memory message, the first that is found of each name."""

_CUDA = "error", "cuda_error", "critical"

ROWS: tuple[Row, ...] = (
    # ── device memory ──
    row("oom", "cuda_out_of_memory", "critical", "out of memory. tried to allocate",
        r"(?:CUDA|HIP|NPU|XPU|MPS|MLU|MUSA|\w+) out of memory\. Tried to allocate"),
    row("oom", "cuda_out_of_memory", "critical", "out of memory",
        r"(?:CUDA|HIP|NPU)(?: runtime| driver)? (?:error|failure)[^\n]{0,80}out of memory"
        "|cudaErrorMemoryAllocation"
        r"|hipErrorOutOfMemory|CUDNN_STATUS_ALLOC_FAILED"),
    row("oom", "cuda_out_of_memory", "critical", "cublas_status_alloc_failed"),
    row("oom", "cuda_out_of_memory", "critical", ("resource_exhausted", "alloc"),
        r"RESOURCE_EXHAUSTED:.{0,60}(?:allocat|memory)[^\n]{0,80}?(?:(?P<requested_bytes>\d+)\s?bytes)?"),
    # ── host memory ──
    row("oom", "host_out_of_memory", "critical", ("dataloader worker", "killed by signal"),
        r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal: Killed"),
    row("error", "data_loader_error", "critical", ("dataloader worker", "killed by signal"),
        r"DataLoader worker \(pid (?P<pid>\d+)\) is killed by signal"),
    row("error", "data_loader_error", "critical", "dataloader worker",
        r"DataLoader worker \(pid\(?s?\)? (?P<pid>\d+)[\d, ]*\) exited unexpectedly"),
    row("error", "data_loader_error", "critical", "shared memory",
        "out of shared memory|unable to (?:open|mmap|write to|allocate) shared memory"
        "|insufficient shared memory"),
    row("oom", "host_out_of_memory", "critical", "oom_kill", r"detected \d+ oom[-_]kill event"),
    row("oom", "host_out_of_memory", "critical", "oom-kill", r"detected \d+ oom[-_]kill event"),
    row("oom", "host_out_of_memory", "critical", "out-of-memory handler"),
    row("oom", "host_out_of_memory", "critical", "oomkilled"),
    row("oom", "host_out_of_memory", "critical", "defaultcpuallocator",
        r"not enough memory: you tried to allocate (?P<requested_bytes>\d+) bytes"
        r"|can't allocate memory: you tried to allocate (?P<requested_bytes_2>\d+) bytes"),
    row("oom", "host_out_of_memory", "critical", "std::bad_alloc"),
    row("oom", "host_out_of_memory", "critical", "cannot allocate memory",
        r"\[Errno 12\]|Cannot allocate memory"),
    # ── collectives ──
    row("error", "nccl_watchdog", "critical", "watchdog caught collective operation timeout",
        r"(?:Rank (?P<rank>\d+)\] )?Watchdog caught collective operation timeout: Work\w*\("
        r"(?:SeqNum=(?P<sequence>\d+), )?(?:OpType=\w+)?(?:, NumelIn=(?P<num_elements>\d+))?"
        r"[^\n]*?Timeout\(ms\)=(?P<timeout_seconds>\d+)(?:\) ran for (?P<ran_seconds>\d+) milliseconds)?",
        scale={"timeout_seconds": 1e-3, "ran_seconds": 1e-3}),
    row("error", "nccl_watchdog", "critical", "timeout at nccl work",
        r"(?:Rank (?P<rank>\d+)\].{0,40})?Timeout at NCCL work: (?P<sequence>\d+), last enqueued NCCL work: "
        r"(?P<last_enqueued>\d+), last completed NCCL work: (?P<last_completed>\d+)"),
    row("error", "nccl_watchdog", "critical", "detected by watchdog at work",
        r"(?:Rank (?P<rank>\d+)\] {1,2})?Exception \([^)]{1,60}\) detected by watchdog at work: "
        r"(?P<sequence>\d+), last enqueued NCCL work: (?P<last_enqueued>\d+), last completed NCCL work: "
        r"(?P<last_completed>-?\d+)"),
    row("error", "nccl_watchdog", "critical", "failure detected by watchdog",
        r"(?:Rank (?P<rank>\d+)\] {1,2})?failure detected by watchdog at work sequence id: (?P<sequence>\d+)"
        r" PG status: last enqueued work: "
        r"(?P<last_enqueued>\d+), last completed work: (?P<last_completed>-?\d+)"),
    row("error", "nccl_watchdog", "critical", "heartbeat monitor timed out",
        r"(?:Rank (?P<rank>\d+)\].{0,40})?Heartbeat monitor timed out"),
    row("error", "nccl_watchdog", "critical", "some nccl operations have failed or timed out"),
    row("error", "nccl_watchdog", "critical", "wait timeout",
        r"(?:HCCL|hccl|notify)[^\n]{0,120}wait timeout(?:[^\n]{0,40}?(?P<timeout_seconds>\d+)\s?s\b)?"),
    row("error", "nccl_watchdog", "critical", ("notify register times out",)),
    row("error", "nccl_watchdog", "critical", "collective operation timeout",
        r"\bcollective operation timeout"),
    row("error", "nccl_watchdog", "critical", ("gloo", "timed out waiting"),
        r"Timed out waiting (?P<timeout_seconds>\d+)ms for (?:recv|send)", scale={"timeout_seconds": 1e-3}),
    row("error", "nccl_error", "critical", "nccl error",
        r"NCCL error(?: in: [^\n]{0,200}?,)?(?:[^\n]{0,40}NCCL version [\d.]+)?"),
    row("error", "nccl_error", "critical", "nccl",
        r"nccl\w*(?:Unhandled|System|Internal|Remote|InvalidUsage)\w*Error|unhandled (?:system|cuda) error"
        r"|remote process exited or there was a network error|NCCL communicator was aborted"),
    row("error", "nccl_error", "critical", "remote process exited or there was a network error"),
    row("error", "nccl_error", "critical", "hccl", r"HCCL function error|HCCL\w* (?:failed|error)"
        r"|Hccl\w+\([^\n]*error code is (?P<code>\d+)"),
    row("error", "nccl_error", "critical", "connection closed by peer",
        r"(?:gloo|Gloo|nccl|NCCL|TCPStore|Connection)[^\n]{0,160}Connection closed by peer"),
    row("error", "nccl_error", "critical", "connection reset by peer",
        r"(?:gloo|Gloo|nccl|NCCL)[^\n]{0,160}Connection reset by peer"),
    row("error", "nccl_error", "critical", "tcpstore",
        "(?:recvValue failed|socket (?:has )?timed? ?out|failed to (?:recv|connect)|Broken pipe"
        "|Connection reset)"),
    # ── the device ──
    row(*_CUDA, "uncorrectable", r"(?:CUDA|HIP) error: uncorrectable ECC error|cudaErrorECCUncorrectable"),
    row(*_CUDA, "illegal memory access"),
    row(*_CUDA, "device-side assert"),
    row(*_CUDA, "unspecified launch failure"),
    row(*_CUDA, "misaligned address", r"(?:CUDA|HIP) error: misaligned address"),
    row(*_CUDA, "the launch timed out and was terminated"),
    row(*_CUDA, "busy or unavailable", r"(?:CUDA|HIP)[^\n]{0,60}busy or unavailable"),
    row(*_CUDA, "no kernel image is available"),
    row(*_CUDA, "has fallen off the bus", r"(?<!Xid)\bGPU[^\n]{0,40} has fallen off the bus"),
    row(*_CUDA, "unable to determine the device handle"),
    row(*_CUDA, "cuda error", r"CUDA (?:driver |runtime )?error:? ?(?:\(?(?P<code>\d{1,3})\b)?"),
    row(*_CUDA, "cudaerror", r"\bcudaError[A-Z]\w+"),
    row(*_CUDA, "cuda failure", r"Cuda failure (?:(?P<code>\d{1,3}) )?"),
    row(*_CUDA, "cublas_status_", r"CUBLAS_STATUS_(?!SUCCESS)\w+"),
    row(*_CUDA, "cudnn_status_", r"CUDNN_STATUS_(?!SUCCESS)\w+"),
    row(*_CUDA, "hip error", r"\bHIP (?:runtime )?error: ?"),
    row(*_CUDA, "memory access fault by gpu"),
    row(*_CUDA, "npu function error", r"NPU function error[^\n]*?(?:error code is (?P<code>\d+))?$"),
    row(*_CUDA, "acl stream synchronize failed", r"(?:error code[: ]*(?P<code>\d+))?"),
    row(*_CUDA, "aicore exception"),
    # ── disks and files ──
    row("error", "disk_full", "critical", "no space left on device"),
    row("error", "too_many_files", "critical", "too many open files"),
    row("error", "stale_file", "critical", "stale file handle"),
    row("error", "io_error", "critical", "input/output error", r"\[Errno 5\]|Input/output error"),
    # ── processes that end ──
    row("exit", "exit", "critical", "failed (exitcode",
        r"failed \(exitcode: (?P<code>-?\d+)\) local_rank: \d+ \(pid: (?P<pid>\d+)\)"),
    row("exit", "exit", "critical", "exits with return code", r"exits with return code = (?P<code>-?\d+)"),
    row("exit", "exit", "critical", "received by pid", r"Signal \d+ \(SIG\w+\) received by PID (?P<pid>\d+)"),
    row("exit", "exit", "warning", "closing signal", r"Sending process (?P<pid>\d+) closing signal",
        tells_once=True),
    row("exit", "exit", "critical", "cancelled at", r"\*\*\* (?:JOB|STEP) \S+ ON (?P<host>\S+) CANCELLED AT"),
    row("exit", "exit", "critical", "due to time limit"),
    row("exit", "exit", "critical", "due to preemption"),
    row("exit", "exit", "critical", "exited with exit code",
        r"srun: error: (?P<host>[\w.\-]+): tasks? [\d,\-]+: Exited with exit code (?P<code>\d+)"),
    row("exit", "exit", "critical", "srun: error",
        r"srun: error: (?P<host>[\w.\-]+): tasks? [\d,\-]+: (?:Killed|Terminated|Segmentation fault"
        "|Aborted|Bus error)"),
    row("exit", "exit", "critical", "segmentation fault",
        r"Segmentation fault(?: \(core dumped\)|\s*$)|Caught signal 11"
        "|Fatal Python error: Segmentation fault"),
    row("exit", "exit", "critical", "fatal python error"),
    row("exit", "exit", "critical", "core dumped", "(?:Aborted|Bus error"
                                                   r"|Illegal instruction) \(core dumped\)"),
    row("exit", "exit", "critical", "terminate called after throwing"),
    row("exit", "exit", "info", "process group has not been destroyed",
        r"destroy_process_group\(\) was not called", tells_once=True),
)  # fmt: skip

EXCEPTION = re.compile(
    r"(?P<name>[A-Za-z_][\w.]{0,120}(?:Error|Exception|Interrupt|Exit|Warning|Timeout|Failure|Killed|Abort"
    r"|Empty)\w{0,40}"
    r"|[A-Za-z_]\w*(?:\.\w+)+)(?::|\s*$)"
)
"""The last line of a Python traceback."""
TRACEBACK = "Traceback (most recent call last):"
_GPU = re.compile(r"\b(?:GPU|NPU|XPU) (\d{1,3})\b")


def memory_numbers(text: str) -> dict[str, float]:
    """What an out-of-memory message states, in bytes, and `device_index`, the process's number of the device.

    Since 2.0 it says what is reserved but not allocated: `reserved_bytes` is then the sum.
    """
    numbers: dict[str, float] = {}
    for name, pattern in OUT_OF_MEMORY_NUMBERS:
        found = pattern.search(text)
        if found is not None and name not in numbers:
            try:
                numbers[name] = float(round(float(found[1]) * BYTES[found[2].lower()]))
            except ValueError:
                continue
    allocated, beside = numbers.get("allocated_bytes"), numbers.pop("unallocated_bytes", None)
    if allocated is not None and beside is not None:
        numbers.setdefault("reserved_bytes", allocated + beside)
    cached = numbers.pop("cached_bytes", None)
    if cached is not None:
        numbers.setdefault("reserved_bytes", cached)
    device = _GPU.search(text)
    if device is not None:
        numbers["device_index"] = float(device[1])
    return numbers
