"""The recorded dependencies played again: critical path, and step time with one cause removed."""
