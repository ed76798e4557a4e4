"""A loop over a DataLoader with so many workers, whose dataset takes so many milliseconds a sample; a third
argument: so many milliseconds of work on the host before the forward pass."""

import sys
import time

import small
import torch
from torch import nn, optim
from torch.utils.data import DataLoader, Dataset


class Samples(Dataset):
    """Samples that take time."""

    def __len__(self):
        return 32 * 30

    def __getitem__(self, place):
        time.sleep(float(sys.argv[2]) / 1000)
        return torch.rand(small.WIDTH), place % 10


def prepare(inputs, milliseconds):
    """Work on the host that a user wrote into the loop."""
    until = time.monotonic() + milliseconds / 1000
    while time.monotonic() < until:
        sorted(range(500), reverse=True)
    return inputs


if __name__ == "__main__":
    net = small.model()
    optimizer = optim.SGD(net.parameters(), lr=0.01)
    for inputs, labels in DataLoader(Samples(), batch_size=32, num_workers=int(sys.argv[1])):
        inputs = prepare(inputs, float(sys.argv[3])) if len(sys.argv) > 3 else inputs
        loss = nn.functional.cross_entropy(net(inputs.repeat(8, 1)), labels.repeat(8))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
