# Everything happens in .venv inside the checkout; each target sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test test-plain test-gpu lint fuzz faults bench ledger bench-model reproduce clean

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
PLAIN := tests/datasets tests/engines tests/estimators tests/likelihoods tests/model \
	tests/conformance/test_engines_agree.py reproduction/tests/test_cycles.py reproduction/tests/test_summary.py \
	reproduction/tests/test_vb_vs_map.py

test-plain: setup
	$(BIN)/python tests/plain.py $(PLAIN)

# What the GPU engine computes, on a GPU: pip install 'gcmf[gpu]' first. Elsewhere its tests are skipped, but for those on
# an emulated device.
test-gpu: setup
	$(BIN)/python -m pytest tests/conformance -k gpu -rs

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Random fits, ordinary and hostile, in both precisions; one case again: .venv/bin/python -m fuzz --seed 123.
N ?= 1000

fuzz: setup
	$(BIN)/python -m fuzz --n $(N)

# kill -9 and other faults, 100 of each kind; the tests make a few.
KILLS ?= 100

faults: setup
	GCMF_FAULTS=$(KILLS) $(BIN)/python -m pytest tests/faults

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

reproduce: setup
	$(BIN)/python -m reproduction all --quick --out results

clean:
	rm -rf .venv .venv-bench demo results
	find src tests benchmarks fuzz reproduction -name __pycache__ -prune -exec rm -rf {} +
