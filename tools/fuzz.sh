#!/usr/bin/env bash
# What `make fuzz` runs: tools/fuzz.sh [SECONDS]
set -euo pipefail
if ! command -v clang++ >/dev/null && ! command -v g++ >/dev/null; then
  echo "fuzz: no C++ compiler, so nothing was fuzzed; apt install clang (or g++, without coverage)" >&2
  exit 2
fi
exec bash "$(dirname "$0")/../tests/trace/fuzz/run.sh" "$@"
