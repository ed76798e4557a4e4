"""Stands for the process that has torch: answers orders from what it is given, and trains nothing."""

import json
import os
import sys
import time

answers = json.loads(sys.argv[1])
print(json.dumps({"ready": True}), flush=True)
for line in sys.stdin:
    order = json.loads(line)
    print(json.dumps({"pid": os.getpid()}), flush=True)
    start_ns = time.time_ns()
    if order["kind"] == "probe":
        found = answers["probe"]
    elif order["kind"] == "kernels":
        time.sleep(1.0)
        end_ns = time.time_ns()
        found = {
            "kernels": [
                {
                    "name": "matmul-bf16", "precision": "bf16", "start_ns": start_ns, "end_ns": end_ns,
                    "flops": 6e14, "bytes_per_second": 1e11,
                }
            ]
        }  # fmt: skip
    else:
        time.sleep(0.25)
        trace = answers["traces"].get(order["case"] or "healthy-transformer", "")
        found = {
            "trace": trace, "start_ns": start_ns, "end_ns": time.time_ns(), "num_steps": 9, "num_traced": 6,
            **answers["seconds"], "healthy_samples": 8, "faulty_samples": 8, "pid": os.getpid(),
            "neighbour_pid": None,
        }  # fmt: skip
        if not trace:
            found = {"error": "OutOfMemoryError: no room"}
    print(json.dumps(found), flush=True)
