"""Tables to named numbers. Pure: no I/O, no clock."""
