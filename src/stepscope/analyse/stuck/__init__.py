"""Who holds up a job that stands still: what each witness says, and what they say together. Pure.

stuck(stands, flights, stacks, logs)  →  `model.stuck.Stuck`
"""

from __future__ import annotations

from stepscope.analyse.stuck.together import stuck

__all__ = ["stuck"]
