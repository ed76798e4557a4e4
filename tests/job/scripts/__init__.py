"""Small real training scripts, each with a cause planted in it by its argument. They know nothing of stepscope."""
