"""Bytes to records: what a format says, nothing of what it means."""
