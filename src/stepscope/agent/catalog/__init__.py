"""What the agent reads: one file a source, each with a `SOURCE` (`agent/source.py`)."""
