"""Who differs from its peers, and when a series leaves its normal. Pure: arrays in, numbers out."""
