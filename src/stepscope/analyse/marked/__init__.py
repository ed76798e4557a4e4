"""Marks of a training loop as the analysis of a rank: no trace is needed, and what marks cannot tell is left
open."""

from stepscope.analyse.marked.rank import analyse_marks

__all__ = ["analyse_marks"]
