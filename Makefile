# Everything that a person or CI runs. Each target sets up what it needs in .venv and nothing else.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp
NATIVE_SOURCES := $(wildcard src/stepscope/trace/native/*.cpp src/stepscope/trace/native/*.h)
NATIVE_STAMP := $(VENV)/.stamp-native
DEMO_STAMP := $(VENV)/.stamp-demo
comma := ,
PYTEST_JOBS ?= 2
PYTEST_ARGS ?=
FUZZ_SECONDS ?= 60
SOAK_HOURS ?= 24
SOAK_KILLS ?= 200

.PHONY: help demo test check bench docs fuzz soak format clean

help: ## this list
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# A function: the virtual environment with what $(1) names, quietly, after one line that says so.
define install
@$(PYTHON) -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' \
  || { echo "make: Python 3.10 or later with venv is needed (Debian: apt install python3 python3-venv)" >&2; exit 1; }
@echo "make: setting up $(VENV)$(2): a minute or two, once" >&2
@test -x $(PY) && $(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
@$(PY) -m pip install --quiet --disable-pip-version-check --editable '$(1)'
endef

$(STAMP): pyproject.toml setup.py
	$(call install,.[dev$(comma)remote], with the tools of the tests)
	@touch $@ $(DEMO_STAMP)

# The demo needs no tools. The installation builds the native loader by itself where there is a compiler.
$(DEMO_STAMP): pyproject.toml setup.py
	$(call install,.)
	@touch $@

# With a compiler the native loader is built in place; without one the fallback serves, and the next `make` tries again.
$(NATIVE_STAMP): $(STAMP) $(NATIVE_SOURCES)
	@$(PY) setup.py --quiet build_ext --inplace >$(VENV)/native.log 2>&1 || true
	@if ls src/stepscope/trace/native/*.so >/dev/null 2>&1 && ! grep -q 'building extension .* failed' $(VENV)/native.log; then touch $@; \
	  else echo "make: no native loader (see $(VENV)/native.log): going on with the fallback" >&2; fi

demo: $(DEMO_STAMP) $(if $(wildcard $(STAMP)),$(NATIVE_STAMP)) ## the packaged sample, then a trace recorded here if torch is present
	@$(PY) -m stepscope demo
	@$(PY) tools/record_cpu_loop.py

test: check $(NATIVE_STAMP) ## every check and every test
	$(PY) -m pytest -n $(PYTEST_JOBS) --dist worksteal $(PYTEST_ARGS)

check: $(STAMP) ## format, lint, types, import contracts
	$(PY) -m ruff format --no-cache --check .
	$(PY) -m ruff check --no-cache .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports --no-cache

format: $(STAMP) ## put the code in the house's format
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(STAMP) $(NATIVE_STAMP) ## speed and memory beside the peer, in one run
	$(PY) -m bench.run
	$(PY) -m bench.ranks
	$(PY) -m bench.faults
	$(PY) -m bench.sdk
	$(PY) -m bench.agent
	$(PY) -m bench.store
	$(PY) -m bench.alerts
	$(PY) -m bench.detection
	$(PY) -m bench.gates
	$(PY) -m bench.judge
	$(PY) -m bench.told

docs: $(STAMP) ## generated reference pages and the README's output
	$(PY) tools/make_docs.py

fuzz: $(STAMP) $(NATIVE_STAMP) ## the native parser, coverage-guided where clang exists; FUZZ_SECONDS=60
	@bash tests/trace/fuzz/run.sh $(FUZZ_SECONDS)

soak: $(STAMP) ## a node's day through the agent's spool, the store killed again and again; SOAK_HOURS=24 SOAK_KILLS=200
	$(PY) -m tests.agent.soak $(SOAK_HOURS)
	$(PY) -m tests.store.soak $(SOAK_KILLS)

clean: ## all that was made, the virtual environment included
	rm -rf $(VENV) .bench .fuzz build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -f src/stepscope/trace/native/*.so
	find src tests tools bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	rm -rf src/*.egg-info
