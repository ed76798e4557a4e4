"""A script instead of a file: `stepscope run -- CMD`."""
