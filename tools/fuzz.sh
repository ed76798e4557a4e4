#!/usr/bin/env bash
# What `make fuzz` runs.
exec bash "$(dirname "$0")/../tests/trace/fuzz/run.sh" "$@"
