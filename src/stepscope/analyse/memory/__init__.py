"""What fills a device's memory: from a trace's allocator events, and from a snapshot of the allocator.

Definitions and formulas are in docs/reference/memory.md.
"""
