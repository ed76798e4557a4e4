"""Gradients of two batches are added up for each step; many cyclic objects are collected in between."""

import gc

import small
from torch import nn, optim

net = small.model()
optimizer = optim.AdamW(net.parameters(), lr=0.001)
inputs, labels = small.batch()
for micro in range(40):
    loss = nn.functional.cross_entropy(net(inputs), labels) / 2
    loss.backward()
    if micro % 2:
        for _ in range(1000):
            cycle = []
            cycle.append(cycle)
        gc.collect()
        optimizer.step()
        optimizer.zero_grad()
