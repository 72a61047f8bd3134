# Everything happens in .venv inside the checkout; each target sets up what it needs.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup demo test lint bench reproduce clean

setup: .venv/ready

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/gcmf demo --out demo

test: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python benchmarks/recovery.py
	$(BIN)/python benchmarks/movielens.py
	$(BIN)/python benchmarks/poisson.py

reproduce: setup
	$(BIN)/gcmf reproduce all --quick --out results

clean:
	rm -rf .venv demo results
