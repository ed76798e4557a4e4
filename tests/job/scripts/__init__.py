"""Small real training scripts, each with a planted cause. They know nothing of stepscope."""
