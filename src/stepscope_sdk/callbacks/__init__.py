"""Marks by the hooks of a framework: one file each, which imports its framework only when its class is used.

A plain loop needs none of them: `with monitor.step(): …` marks it, or attach mode without a change.
"""
