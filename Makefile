# Every target sets up what it needs. Start with `make demo` or `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
export OMP_NUM_THREADS ?= 1

.PHONY: help install demo test check test-extras faults learning clean

help:           ## what there is to make
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/:/' | awk -F: '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP)  ## create .venv and install Ludus into it

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[box2d,video,dev]'
	@touch $(STAMP)

demo: $(STAMP)  ## train the quickstart, evaluate it, film it
	$(BIN)/ludus train quickstart
	$(BIN)/ludus eval preset:quickstart --episodes 20
	$(BIN)/ludus play preset:quickstart --episodes 3 --video landing.mp4

test: $(STAMP)  ## the tests, within minutes
	$(BIN)/python -m pytest -n 2 -m 'not faults and not learning' tests

check: $(STAMP)  ## lint, strict types, import layers
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports

test-extras: $(STAMP)  ## tests that need environments of their own (none yet)
	@echo "no extras to test yet"

faults: $(STAMP)  ## the long fault-injection tests
	$(BIN)/python -m pytest -n 2 -m faults tests

learning: $(STAMP)  ## train the presets of docs/results.md over five seeds
	$(BIN)/python benchmarks/learning.py

clean:          ## remove the environment and caches (runs stay)
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache
