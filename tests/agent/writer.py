"""An agent's part of a test: appends to a spool and ships it, until it is killed.

python writer.py SPOOL URL JOURNAL RUN     appends; each batch that `append` returned for is in JOURNAL
python writer.py SPOOL URL - drain         ships what is there and ends
"""

from __future__ import annotations

import os
import sys
import time

from stepscope.agent.ship import Shipper
from stepscope.agent.spool import Spool
from stepscope.model.batch import Happened


def main() -> None:
    folder, url, journal, run = sys.argv[1:5]
    spool = Spool(folder, host="node-1", segment_bytes=4096, sync_every_s=0.01)
    shipper = Shipper(spool, url, every_s=0.005, most_bytes=1 << 20 if run == "drain" else 4000)
    if run == "drain":
        until = time.monotonic() + 60
        while spool.pending() is not None and time.monotonic() < until:
            time.sleep(min(shipper.step(), 0.2))
        left = spool.pending()
        spool.close()
        sys.exit(0 if left is None else 1)
    shipper.start()
    file = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    number = 0
    while True:
        number += 1
        name = f"{run}/{number}"
        spool.append(Happened("", 0, "node-1", time.time_ns(), "test", name))
        os.write(file, f"{name}\n".encode())
        if number % 20 == 0:
            time.sleep(0.001)


if __name__ == "__main__":
    main()
