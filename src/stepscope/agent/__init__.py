"""The agent of a node: reads rings, devices, host and logs, labels every sample, ships it safely."""
