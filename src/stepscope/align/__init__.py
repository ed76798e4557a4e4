"""Clocks of ranks, and which collective of one rank is which of another. Pure."""
