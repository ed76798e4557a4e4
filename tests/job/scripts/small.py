"""What the scripts share: a model whose step takes some tens of milliseconds on one core."""

from __future__ import annotations

import torch
from torch import nn

WIDTH, BATCH = 512, 256


def model() -> nn.Module:
    """A small perceptron."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 10)
    )


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """A batch in memory."""
    return torch.rand(BATCH, WIDTH), torch.randint(0, 10, (BATCH,))
