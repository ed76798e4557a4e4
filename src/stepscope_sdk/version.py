"""The version of this wheel: that of stepscope (a test compares), which need not be there."""

VERSION = "0.1.0.dev0"
