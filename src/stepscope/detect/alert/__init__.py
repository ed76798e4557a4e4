"""Alerts: the table of conditions, and what becomes of one that holds: for how long, hysteresis, inhibition,
grouping, budget. Pure."""
