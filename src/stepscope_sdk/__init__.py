"""Marks of a training process, in a ring that anybody on the node may read. Standard library only."""

from stepscope_sdk.monitor import Monitor
from stepscope_sdk.profile_handler import on_trace_ready
from stepscope_sdk.start import monitor

__all__ = ["Monitor", "monitor", "on_trace_ready"]
