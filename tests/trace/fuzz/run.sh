#!/usr/bin/env bash
# Fuzz the native parser: coverage-guided with clang's libFuzzer, else mutations under g++'s sanitizers.
#
#   tests/trace/fuzz/run.sh [SECONDS]      what `make fuzz` runs; what was found is kept in .fuzz/
set -euo pipefail
if ! command -v clang++ >/dev/null && ! command -v g++ >/dev/null; then
  echo "fuzz: no C++ compiler, so nothing was fuzzed; apt install clang (or g++, without coverage)" >&2
  exit 2
fi
cd "$(dirname "$0")/../../.."
seconds=${1:-60}
python=${PYTHON:-.venv/bin/python}
work=.fuzz
mkdir -p "$work/seeds" "$work/found"
PYTHONPATH=src "$python" - "$work" <<'PY'
import re
import sys
from pathlib import Path

from stepscope.trace.kineto_native import spec_bytes

work = Path(sys.argv[1])
(work / "spec").write_bytes(spec_bytes())
for path in [*Path("tests/trace/fault").glob("*.json"), *Path("tests/trace/corpus").glob("*.json")]:
    text = path.read_bytes()
    opened = re.search(rb'"traceEvents"\s*:\s*\[', text)
    (work / "seeds" / path.name).write_bytes(text[opened.end() if opened else text.index(b"[") + 1 :])
PY
sources=(src/stepscope/trace/native/kineto.cpp tests/trace/fuzz/driver.cpp)
flags=(-std=c++17 -g -O1 -fno-sanitize-recover=all)
if command -v clang++ >/dev/null; then
  clang++ "${flags[@]}" -DLIBFUZZER -fsanitize=fuzzer,address,undefined "${sources[@]}" -o "$work/fuzzer"
  STEPSCOPE_FUZZ_SPEC="$work/spec" "$work/fuzzer" -max_total_time="$seconds" -max_len=8192 \
    -artifact_prefix="$work/found/" "$work/found" "$work/seeds"
else
  echo "no clang: mutations without coverage for about $seconds seconds" >&2
  g++ "${flags[@]}" -fsanitize=address,undefined "${sources[@]}" -o "$work/driver"
  end=$((SECONDS + seconds))
  while ((SECONDS < end)); do
    (cd "$work/found" && ../driver ../spec "$RANDOM$RANDOM" 100 ../seeds/*)
  done
fi
