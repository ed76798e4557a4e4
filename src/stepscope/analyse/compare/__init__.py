"""Two runs against each other, in numbers: step times with a noise band, and what changed. Pure."""
