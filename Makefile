# Everything runs in .venv, made from this folder's own files. Only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
SOURCES := $(shell find src -name '*.py')

.PHONY: demo test lint bench install clean

demo: $(VENV)/.core $(VENV)/.warm
	$(BIN)/spibb demo --out demo-result --overwrite

test: $(VENV)/.dev $(VENV)/.warm-all
	$(BIN)/python -m pytest -n auto

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev $(VENV)/.warm-all
	$(BIN)/python -m pytest benchmarks -p no:xdist -s

install: $(VENV)/.dev $(VENV)/.warm-all

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("spibb needs Python 3.11 or newer; set PYTHON=python3.11 or the like") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) -e .
	touch $@

$(VENV)/.dev: $(VENV)/.core
	$(PIP) -e '.[dev]'
	touch $@

# Compile the kernels now, so that the first real call does not wait for it. Numba notices a change
# in a function's own file only, not in the files it calls: hence the cache goes first.
$(VENV)/.warm: $(VENV)/.core $(SOURCES)
	find src -name '*.nb[ic]' -delete
	$(BIN)/python -m spibb.algorithms.warmup
	touch $@

$(VENV)/.warm-all: $(VENV)/.warm
	$(BIN)/python -m spibb.deep.warmup
	touch $@

clean:
	rm -rf $(VENV) demo-result
