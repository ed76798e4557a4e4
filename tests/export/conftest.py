"""The command line's fixtures, for the files that it writes."""

from tests.cli.conftest import eight_ranks, sample, stepscope

__all__ = ["eight_ranks", "sample", "stepscope"]
