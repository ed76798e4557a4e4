"""The two models that are trained: a small transformer and a small residual convnet. Needs torch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional

from tools.gpu_check.case import Setup


@dataclass(frozen=True, slots=True)
class Size:
    """Extents. `width`: of the model's layers (of a convnet its first stage); `length`: tokens, or pixels of
    a side."""

    batch: int
    length: int
    width: int
    layers: int
    classes: int


SIZES: dict[tuple[str, str, bool], Size] = {
    ("cuda", "transformer", False): Size(8, 1024, 2048, 8, 32000),
    ("cuda", "transformer", True): Size(1, 64, 256, 24, 1024),
    ("cuda", "convnet", False): Size(64, 224, 128, 3, 1000),
    ("cuda", "convnet", True): Size(2, 64, 16, 6, 1000),
    ("cpu", "transformer", False): Size(4, 64, 128, 3, 128),
    ("cpu", "transformer", True): Size(1, 4, 16, 8, 128),
    ("cpu", "convnet", False): Size(16, 48, 12, 1, 10),
    ("cpu", "convnet", True): Size(1, 8, 4, 3, 10),
}
"""By device, model and whether it is tiny. On a GPU large enough that a step is tens of milliseconds of an
H100; on a CPU that it is some milliseconds of one core."""
SMALL_BYTES = 32 << 30
"""A device with less memory gets half of each: the transformer takes some 16 GB."""


def size_of(setup: Setup, device: str) -> Size:
    """The extents of a setup on a kind of device."""
    size = SIZES[device, setup.model, setup.is_tiny]
    if device == "cuda" and torch.cuda.get_device_properties(0).total_memory < SMALL_BYTES:
        size = replace(size, batch=max(size.batch // 2, 1), width=max(size.width // 2, 16))
    return replace(size, batch=size.batch * setup.batch_times)


class Block(nn.Module):
    """Attention and two layers, before both a normalisation. `hidden` may be any width."""

    def __init__(self, width: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mixed, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.mixed(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(functional.gelu(self.up(self.between(x))))


class Transformer(nn.Module):
    """Tokens to scores of the next."""

    def __init__(self, size: Size, off_by: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.classes, size.width)
        heads = max(size.width // 128, 2)
        blocks = [Block(size.width, 4 * size.width + off_by, heads) for _ in range(size.layers)]
        self.blocks = nn.Sequential(*blocks)
        self.last, self.scores = nn.LayerNorm(size.width), nn.Linear(size.width, size.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.last(self.blocks(self.tokens(x)))).flatten(0, 1)


class Residual(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, inside: int, outside: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(outside), nn.BatchNorm2d(outside)])
        same = inside == outside and stride == 1
        self.around = nn.Identity() if same else nn.Conv2d(inside, outside, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(inner)) + self.around(x))


class Convnet(nn.Module):
    """Pictures to classes."""

    def __init__(self, size: Size, off_by: int) -> None:
        super().__init__()
        width = size.width + off_by
        layers: list[nn.Module] = [nn.Conv2d(3, width, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(2)]
        for stage in range(3):
            for depth in range(size.layers):
                first = depth == 0 and stage > 0
                layers.append(Residual(width // (2 if first else 1), width, 2 if first else 1))
            width *= 2 if stage < 2 else 1
        self.layers = nn.Sequential(*layers)
        self.scores = nn.Linear(width, size.classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.layers(x).mean((2, 3)))


def model_of(setup: Setup, device: str) -> nn.Module:
    """The model of a setup, on its device."""
    size = size_of(setup, device)
    if setup.model == "transformer":
        return Transformer(size, setup.off_by).to(device)
    whole: nn.Module = Convnet(size, setup.off_by).to(device, memory_format=torch.channels_last)
    return whole


def batch_of(setup: Setup, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """One batch in host memory: what goes in, and what is to come out."""
    size = size_of(setup, device)
    if setup.model == "transformer":
        tokens = torch.randint(size.classes, (size.batch, size.length))
        return tokens, tokens.roll(-1, 1).flatten()
    pictures = torch.rand(size.batch, 3, size.length, size.length)
    return pictures, torch.randint(size.classes, (size.batch,))
