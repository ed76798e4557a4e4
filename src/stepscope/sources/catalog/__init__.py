"""Records to rows of the model: one file a source."""
