"""Channels, one file each; its one agreed name is `CHANNEL`."""
