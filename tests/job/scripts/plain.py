"""A loop with neither loader nor marks. `stall`: Python works between forward and backward of each step;
`pause`: nothing happens for a second after every 20th step; `crash`: the 12th step fails; `forever`: until it
is interrupted."""

import sys
import time

import small
from torch import nn, optim

cause = sys.argv[1]
net = small.model()
optimizer = optim.SGD(net.parameters(), lr=0.01)
inputs, labels = small.batch()
for step in range(10**9 if cause == "forever" else 70 if cause == "pause" else 30):
    loss = nn.functional.cross_entropy(net(inputs), labels)
    if cause == "stall":
        until = time.monotonic() + 0.02
        while time.monotonic() < until:
            sum(range(1000))
    if cause == "crash" and step == 12:
        raise RuntimeError("planted")
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if cause == "pause" and step % 20 == 19:
        time.sleep(1)
print("loss is finite:", bool(loss.isfinite()))
