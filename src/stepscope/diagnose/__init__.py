"""From numbers to a report: judge the rules, claim the time, explain away, group, word the answer. Pure."""

from stepscope.diagnose.diagnose import Options, diagnose

__all__ = ["Options", "diagnose"]
