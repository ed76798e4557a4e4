"""All that yields spans, and what can be said of them without judging a run."""
