"""What is done about a run: captures, and whom to tell."""
