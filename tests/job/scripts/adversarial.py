"""Two networks and two optimizers, one step of each in turn; what is logged goes to a slow place."""

import logging
import time

import small
import torch
from torch import nn, optim


class Slow(logging.Handler):
    """As a file on a slow share."""

    def emit(self, record):
        time.sleep(0.02)


log = logging.getLogger("training")
log.setLevel(logging.INFO)
log.addHandler(Slow())
maker, judge = small.model(), small.model()
of_maker, of_judge = (optim.Adam(each.parameters(), lr=0.0002) for each in (maker, judge))
for step in range(30):
    real, _ = small.batch()
    made = nn.functional.pad(maker(torch.rand(small.BATCH, small.WIDTH)), (0, small.WIDTH - 10))
    of_judge.zero_grad()
    loss = (judge(real) - judge(made.detach())).mean()
    loss.backward()
    of_judge.step()
    of_maker.zero_grad()
    judge(made).mean().backward()
    of_maker.step()
    log.info("step %d: %.3f", step, loss.item())
