# Everything happens in .venv inside the checkout; each target sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-plain test-gpu test-lowest test-newest lint docs fuzz faults soak bench ledger bench-model \
	reproduce release-check audit clean

setup: .venv/ready

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/gcmf demo --out demo

test: setup
	$(BIN)/python -m pytest -n 2

# What computes, once more as on an old processor: without the newest instruction sets.
PLAIN := tests/engines tests/likelihoods tests/model tests/estimators/test_noise.py \
	tests/conformance/test_engines_agree.py

test-plain: setup
	$(BIN)/python tests/plain.py -n 2 -k "not cluster" $(PLAIN)

# What the GPU engine computes, on a GPU: pip install 'gcmf[gpu]' first. Elsewhere its tests are skipped, but for those on
# an emulated device.
test-gpu: setup
	$(BIN)/python -m pytest tests/conformance -k gpu -rs

# The suite with the oldest and with the newest dependencies that pyproject.toml allows, each in an environment of its own.
# Old packages warn of new ones below them, so that there no warning is an error. TESTS=tests/model for a part.
LOWEST := .venv-lowest
NEWEST := .venv-newest

$(LOWEST)/ready: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade pip
	$(LOWEST)/bin/python tests/lowest.py io omics > $(LOWEST)/constraints.txt
	$(LOWEST)/bin/python -m pip install --quiet --editable '.[dev]' --constraint $(LOWEST)/constraints.txt
	touch $@

$(NEWEST)/ready: pyproject.toml
	$(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python -m pip install --quiet --upgrade pip
	$(NEWEST)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[dev]'
	touch $@

TESTS ?=

test-lowest: $(LOWEST)/ready
	$(LOWEST)/bin/python -m pytest -n 2 -W default $(TESTS)

test-newest: $(NEWEST)/ready
	$(NEWEST)/bin/python -m pytest -n 2 $(TESTS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The site, in site/: runs notebooks and draws pictures on the way, fetches nothing, and fails on a broken link.
.venv/docs: .venv/ready
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 PYTHONPATH=. $(BIN)/mkdocs build --strict

# Random fits, ordinary and hostile, in both precisions, and answers of random worlds, 500 with each thing that a world
# may have; one case again: .venv/bin/python -m fuzz --kind answers --seed 123.
N ?= 1000

fuzz: setup
	$(BIN)/python -m fuzz --n $(N)

# kill -9, signals and other faults, 100 of each kind, and 20,000 broken files; the tests make a few.
KILLS ?= 100
WORKERS ?= 20
FILES ?= 10000

faults: setup
	GCMF_FAULTS=$(KILLS) $(BIN)/python -m pytest tests/faults
	$(BIN)/python -m fuzz.kills --n $(KILLS)
	$(BIN)/python -m fuzz.workers --n $(WORKERS)
	$(BIN)/python -m fuzz.mutations --n $(FILES)

# One process for long: thousands of fits, and eight threads that ask a model while it is replaced.
soak: setup
	$(BIN)/python -m fuzz.soak

# Beside the peers, in a virtual environment of their own; CASES=a,d or FLAGS=--quick for parts.
BENCH := .venv-bench/bin

.venv-bench/ready: pyproject.toml
	$(PYTHON) -m venv .venv-bench
	$(BENCH)/python -m pip install --quiet --upgrade pip
	$(BENCH)/python -m pip install --quiet --prefer-binary --editable '.[bench]'
	touch $@

bench: .venv-bench/ready
	$(BENCH)/python -m benchmarks run --cases '$(CASES)' $(FLAGS)
	$(BENCH)/python -m benchmarks report $(FLAGS)

# How well gcmf predicts, beside itself and the peers; computes only what is missing. FLAGS='--tasks ml,cll' for parts.
ledger: .venv-bench/ready
	$(BENCH)/python -m benchmarks.ledger run $(FLAGS)
	$(BENCH)/python -m benchmarks.ledger report

# What the model finds, without peers.
bench-model: setup
	$(BIN)/python benchmarks/recovery.py
	$(BIN)/python benchmarks/scales.py
	$(BIN)/python benchmarks/knowledge_graph.py
	$(BIN)/python benchmarks/some_relations.py
	$(BIN)/python benchmarks/macau.py
	$(BIN)/python benchmarks/movielens.py
	$(BIN)/python benchmarks/periods.py
	$(BIN)/python benchmarks/counts.py
	$(BIN)/python benchmarks/cll.py
	$(BIN)/python -m benchmarks.error_bars

# What a stranger gets: sdist and wheel, the wheel in a fresh environment, the demonstration and a smoke test from there.
RELEASE := .venv-release

release-check: docs
	rm -rf dist $(RELEASE)
	$(BIN)/python -m pip install --quiet --editable '.[release]'
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv $(RELEASE)
	$(RELEASE)/bin/python -m pip install --quiet --upgrade pip
	$(RELEASE)/bin/python -m pip install --quiet "$$(ls dist/*.whl)[io]"
	$(RELEASE)/bin/python -m pip check
	cd dist && ../$(RELEASE)/bin/gcmf doctor && ../$(RELEASE)/bin/gcmf demo --out demo && rm -r demo
	cd dist && ../$(RELEASE)/bin/python -I ../tests/smoke.py

# Known vulnerabilities of what release-check installed; asks PyPI, and fails where a package cannot be looked up.
audit: release-check
	$(BIN)/pip-audit --strict --path $(RELEASE)/lib/python*/site-packages

reproduce: setup
	$(BIN)/python -m reproduction all --quick --out results

clean:
	rm -rf .venv .venv-bench $(LOWEST) $(NEWEST) $(RELEASE) demo results site dist
	find src tests benchmarks fuzz reproduction -name __pycache__ -prune -exec rm -rf {} +
