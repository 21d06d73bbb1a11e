PYTHON ?= python3
BIN := .venv/bin
SERVE ?= 1
CORPUS ?=
ENGINE ?= sqlite
FLOORS ?= 1

.PHONY: demo test lint node node-stop papers bench bench-quick clean

demo: .venv/core
	$(BIN)/resift demo --engine $(ENGINE) $(if $(CORPUS),--corpus $(CORPUS)) $(if $(filter 0,$(SERVE)),--no-serve)

test: .venv/dev lint
	$(BIN)/pytest -q

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

node: .venv/dev
	$(BIN)/python tests/node.py start

node-stop: .venv/dev
	$(BIN)/python tests/node.py stop

papers: .venv/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[eval]'
	$(BIN)/python benchmarks/papers.py

bench: .venv/bench
	$(BIN)/python benchmarks/speed.py

bench-quick: .venv/bench
	$(BIN)/python benchmarks/speed.py --quick --floors $(FLOORS)

.venv/core: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fast]'
	touch $@

.venv/dev: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[fast,train,distill,dev]'
	touch $@

.venv/bench: .venv/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
