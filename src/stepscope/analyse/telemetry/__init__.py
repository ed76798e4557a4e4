"""Counters of devices and hosts as named numbers, alone and beside what the traces say. Pure.

table.py    samples of one owner in columns
device.py   numbers of one device
rest.py     the five minutes in which it did least
host.py     numbers of one host
check.py    what only both sides together tell
log.py      numbers of logs
"""
