"""Pipelines of workers: who waits for whom, what an even job would take, and why it is uneven. Pure."""
