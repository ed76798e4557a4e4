"""A training loop without a model: phases are sleeps, ranks meet through sockets. Run as a process by tests.

python mark_loop.py WORLD SECTIONS END [FD…]

SECTIONS is JSON: a list of [first step, last step, every, place, milliseconds] of this rank, where place is
one of before, start, loader, forward, after; END is how it ends: exit, hang or kill. FDs lead to the other
ranks.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time

import stepscope_sdk

NUM_STEPS = int(os.environ.get("NUM_STEPS", "40"))


def main() -> None:
    world, sections, end = int(sys.argv[1]), json.loads(sys.argv[2]), sys.argv[3]
    peers = [socket.socket(fileno=int(fd)) for fd in sys.argv[4:]]
    mon = stepscope_sdk.monitor()

    def extra(step: int, place: str) -> None:
        for first, last, every, where, milliseconds in sections:
            if where == place and first <= step <= last and (step - first) % every == 0:
                time.sleep(milliseconds / 1e3)

    def meet() -> None:
        for peer in peers:
            peer.sendall(b"x")
        for peer in peers:
            assert peer.recv(1) == b"x"

    for step in range(NUM_STEPS):
        extra(step, "before")
        mon.begin_phase("data")
        time.sleep(0.001)
        extra(step, "loader")
        mon.end_phase("data")
        with mon.step(step):
            extra(step, "start")
            with mon.phase("forward"):
                time.sleep(0.004)
                extra(step, "forward")
            extra(step, "after")
            mon.begin_phase("backward", sync=world > 1)
            time.sleep(0.006)
            if step == NUM_STEPS - 1 and end != "exit":
                print("ready", flush=True)
                if end == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                sys.stdin.read()
            meet()
            mon.end_phase("backward", sync=world > 1)
            with mon.phase("optimizer"):
                time.sleep(0.001)
            mon.log(loss=1.0 / (step + 1))


if __name__ == "__main__":
    main()
