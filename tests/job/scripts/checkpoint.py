"""Writes a checkpoint after every fifth step, to a place that takes its time."""

import io
import time

import small
import torch
from torch import nn, optim


class Slow(io.BytesIO):
    """A file on a slow share: some megabytes take a tenth of a second."""

    def write(self, data):
        time.sleep(len(data) / 50e6)
        return super().write(data)


net = small.model()
optimizer = optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
inputs, labels = small.batch()
for step in range(30):
    loss = nn.functional.cross_entropy(net(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 5 == 4:
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, Slow())
