"""Whether those who are late take turns: now one, now another, and back again."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

F64 = npt.NDArray[np.float64]

MOST_OF_ONE = 0.7
"""Whose part is larger is late itself."""
LEAST_ALONE = 0.9
"""Where several are late at once they are so for themselves: of turns there is but one at a time."""
MOST_OF_TWO_SPELLS = 0.8
"""A rank that is late up to some step, and another one from there on, are two faults one after the other:
they explain more than this part."""
LEAST_TIMES = 3
"""Somebody must be late so often: fewer times show no order."""


def takes_turns(weight: F64) -> bool:
    """Whether lateness goes round. `weight` (ranks, steps) is by how much each is late, 0 where it is not.

    At least half of the ranks have a part, none of them most of it, hardly ever two at once; and no two
    spells, of one rank each, explain it.
    """
    num_ranks = len(weight)
    total, own = float(weight.sum()), weight.sum(axis=1)
    is_late = weight.max(axis=0, initial=0.0) > 0
    if num_ranks < 2 or total <= 0 or int(is_late.sum()) < LEAST_TIMES:
        return False
    if 2 * int((own > 0).sum()) < num_ranks or own.max() > MOST_OF_ONE * total:
        return False
    owner = np.argmax(weight, axis=0)
    alone = np.where(np.arange(num_ranks)[:, None] == owner, weight, 0.0)
    if float(alone.sum()) < LEAST_ALONE * total:
        return False
    before = np.cumsum(alone[:, is_late], axis=1)
    after = before[:, -1:] - before
    explained = before.max(axis=0) + after.max(axis=0)
    return bool(explained.max() <= MOST_OF_TWO_SPELLS * alone.sum())
