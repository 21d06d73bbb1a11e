PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c requirements.lock
SERVE ?= 1
ENGINE ?= sqlite
FLOORS ?= 1
# so many processes share the tests out, each with an OpenSearch of its own: one where OPENSEARCH_URL names the only one
WORKERS ?= $(if $(OPENSEARCH_URL),0,2)

# Else each command that tests start would compile all of our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test fuzz test-versions lint mutants node node-stop papers bench bench-quick chaos scale docs lock clean

demo: .venv/core
	$(BIN)/resift demo --engine $(ENGINE) $(if $(filter 0,$(SERVE)),--no-serve)

test: .venv/dev lint
	$(BIN)/pytest -q -n $(WORKERS)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# So many changes of each module, one at a time: do the tests notice? MUTANTS="--module model" for one module.
mutants: .venv/dev
	$(BIN)/python benchmarks/mutants.py $(or $(MUTANTS),--sample 20)

# All tests that need OpenSearch against the oldest version that they are for.
test-versions: .venv/dev
	RESIFT_NODE_VERSION=2.19.1 RESIFT_REQUIRE_OPENSEARCH=1 OPENSEARCH_URL= $(BIN)/pytest -q -n $(WORKERS)

# Searches that nobody would think of, with a key that everybody may see, for so many SECONDS on a real node.
fuzz: .venv/dev
	RESIFT_FUZZ_SECONDS=$(or $(SECONDS),3600) RESIFT_FUZZ_FIRST=$(or $(FIRST),1000) $(BIN)/pytest -q tests/test_fuzz.py

node: .venv/dev
	$(BIN)/python tests/node.py start

node-stop: .venv/dev
	$(BIN)/python tests/node.py stop

papers: .venv/dev
	$(INSTALL) -e '.[eval]'
	$(BIN)/python benchmarks/papers.py

bench: .venv/bench
	$(BIN)/python benchmarks/speed.py

bench-quick: .venv/bench
	$(BIN)/python benchmarks/speed.py --quick --floors $(FLOORS)

# Nodes and rerankers killed and frozen under load: what was lost, and what did clients see? CHAOS=--short for a minute.
chaos: .venv/dev
	$(BIN)/python benchmarks/chaos.py $(CHAOS)

# What 10,000 to a million documents cost. SCALE="--documents 10000,50000" for less, "--nodes 3" for three nodes.
scale: .venv/bench
	$(BIN)/python benchmarks/scale.py $(SCALE)

# The documentation as a site with a search box: python3 -m http.server --directory build/site 8000
docs: .venv/core
	$(INSTALL) -e '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The newest versions that pyproject.toml allows, for every Python that it allows.
lock: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.10 --all-extras --no-annotate \
		--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' \
		pyproject.toml --output-file requirements.lock

.venv/core: pyproject.toml requirements.lock
	$(PYTHON) -m venv .venv
	$(INSTALL) -e .
	touch $@

.venv/dev: .venv/core
	$(INSTALL) -e '.[fast,train,distill,dev]'
	$(BIN)/python -m resift.encoders
	touch $@

.venv/bench: .venv/dev
	$(INSTALL) -e '.[bench]'
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
