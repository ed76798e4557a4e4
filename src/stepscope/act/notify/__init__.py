"""Whom to tell, and how: channels, and what stands between an incident and a message."""
