"""What is seen of jobs and devices while they run: batches of agents, kept as columns, no longer than needed.
Pure."""
