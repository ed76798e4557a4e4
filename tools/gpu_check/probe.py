"""What the machine has, and whether the profiler sees the device. Needs torch."""

from __future__ import annotations

import os
import platform
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from tools.gpu_check.case import Order

INJECTORS = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH")
"""Set by Nsight Systems and Nsight Compute in what they start: the one subscriber of CUPTI is taken then."""


def probe(order: Order) -> dict[str, Any]:
    """Versions, the device, and `num_kernels` that a recording of one product holds. `fault` says in a word
    what stands in the way: `no-cuda`, `old-driver` or `broken`."""
    found: dict[str, Any] = {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "cores": len(os.sched_getaffinity(0)),
        "injectors": [name for name in INJECTORS if os.environ.get(name)],
    }
    if order.device == "cpu":
        return found
    if torch.version.cuda is None:
        return {**found, "fault": "no-cuda", "why": f"torch {torch.__version__} is built without CUDA"}
    try:
        torch.cuda.init()
        properties = torch.cuda.get_device_properties(0)
        found |= {"device": properties.name, "memory_bytes": properties.total_memory}
        found["uuid"] = str(getattr(properties, "uuid", "")) or None
        left = torch.rand(256, 256, device="cuda")
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
            left @ left
            torch.cuda.synchronize()
        events = profiler.profiler.kineto_results.events()
        found["num_kernels"] = sum(str(each.device_type()).endswith("CUDA") for each in events)
    except RuntimeError as error:
        text = " ".join(str(error).split())
        is_old = "driver" in text and ("too old" in text or "insufficient" in text)
        is_none = "No CUDA GPUs" in text or "no NVIDIA driver" in text
        found |= {"fault": "old-driver" if is_old else "no-cuda" if is_none else "broken", "why": text[:300]}
    return found
