"""The life of an incident: what may follow, which change was made, what is learned from it. Pure."""
