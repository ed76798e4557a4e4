"""A process that keeps, seals, rolls up and forgets until it is killed. Says each request that is kept.

    python -m tests.store.writer FOLDER FIRST LAST [POINT COUNT]
At the COUNT-th time that it comes to POINT it kills itself.
"""

from __future__ import annotations

import os
import signal
import sys

from stepscope.store.store import Store
from tests.store.made import BATCH_NS, RETENTION, START_NS, request


def main(words: list[str]) -> None:
    folder, first, last = words[0], int(words[1]), int(words[2])
    wanted, left = (words[3], int(words[4])) if len(words) > 3 else ("", 0)
    now_ns = START_NS

    def point(name: str) -> None:
        nonlocal left
        if name == wanted:
            left -= 1
            if left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    store = Store.open(folder, now_ns=lambda: now_ns, retention=RETENTION, point=point)
    for number in range(first, last):
        now_ns = START_NS + number * BATCH_NS
        store.keep(request(number))
        print(number, flush=True)
        if number % 4 == 0:
            store.tend()
    store.close()
    print("end", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
