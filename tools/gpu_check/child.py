"""The process that has torch: imported once, then a fork a case. Orders come a line each, and so do answers.

A fork a case keeps cases apart (allocator, TF32, a crash) without the seconds that importing torch takes. The
parent of the forks never touches the device: a process that did may not fork.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from typing import Any

from tools.gpu_check.case import Order


def answered(order: Order) -> dict[str, Any]:
    """What an order gives: its result, or `error` in one line."""
    try:
        if order.kind == "probe":
            from tools.gpu_check.probe import probe

            return probe(order)
        if order.kind == "kernels":
            from tools.gpu_check.kernel import run_kernels

            return run_kernels(order)
        if order.kind == "bursts":
            from tools.gpu_check.kernel import run_bursts

            return run_bursts(order)
        from tools.gpu_check.train import run

        return run(order)
    except Exception as error:  # noqa: BLE001  one case that fails ends no other
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"}


def main(device: str) -> None:
    """Answer orders until there are no more."""
    try:
        importlib.import_module("torch")
        if device == "cpu":
            # What an optimizer imports when it is made. With a GPU each case does: nobody may look for
            # devices before the forks.
            importlib.import_module("torch._dynamo")
    except ImportError as error:
        print(json.dumps({"error": f"no torch: {error}"}), flush=True)
        return
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        order = Order(**json.loads(line))
        into, out = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(into)
            os.setpgid(0, 0)  # its workers and its neighbour can be ended with it
            answer = json.dumps(answered(order)).encode()
            with os.fdopen(out, "wb") as file:
                file.write(answer)
            sys.stdout.flush()
            os._exit(0)
        os.close(out)
        print(json.dumps({"pid": pid}), flush=True)
        with os.fdopen(into, "rb") as file:
            answer = file.read()
        _, status = os.waitpid(pid, 0)
        ended = json.dumps({"error": f"the case was ended ({status})"}).encode()
        print((answer or ended).decode(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
