"""The one place of the version."""

VERSION = "0.1.0.dev0"
