"""One script for a machine with a GPU: real training with known faults, counters beside it, verdict against
truth. `tools/gpu-check --help`; docs/how-to/check-on-a-gpu.md."""
