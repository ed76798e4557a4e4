"""Nouns with units. No I/O, no clock, no environment."""
