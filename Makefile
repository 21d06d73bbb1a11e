PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Packages are only installed if their hashes are in the lock file. Resift is built with the setuptools in that lock file.
# Python compiles a module when it is first imported. Most of the installed modules never are.
LOCKED := $(PIP) --no-compile --require-hashes -r
# Print the lines of one package in a lock file.
lines = sed -n '/^$(1)==/,/[^\]$$/p' requirements.lock
RESIFT := $(PIP) --no-deps --no-build-isolation
SERVE ?= 1
ENGINE ?= sqlite
FLOORS ?= 1
# Number of test processes. The node of the last of three has Resift's plugin. Each other process starts a node without it.
# With OPENSEARCH_URL a single process uses that cluster.
WORKERS ?= $(if $(OPENSEARCH_URL),0,3)

# Otherwise each command that the tests start would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: chart compose conformance demo test test-fast fuzz test-oldest test-newest test-versions lint mutants native node node-stop papers bench bench-quick chaos scale docs lock dist sbom clean

demo: .venv/core
	$(BIN)/resift demo $(if $(SHOP),shop) --engine $(ENGINE) $(if $(filter 0,$(SERVE)),--no-serve)

LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# The linters run in parallel to the tests. Their output is printed after the tests.
test: .venv/dev
	@mkdir -p build; { $(LINT); } > build/lint.txt 2>&1 & \
	$(BIN)/pytest -q -n $(WORKERS); passed=$$?; \
	wait $$! || { cat build/lint.txt; exit 1; }; exit $$passed

# Test docker-compose.yml with containers, if Docker or podman is installed. Takes minutes: it builds an image, and
# downloads OpenSearch's image (1 GB).
compose: .venv/dev
	$(BIN)/pytest -q tests/compose

# Tests that need no engine, network or browser. Takes less than a minute.
test-fast: .venv/dev
	$(BIN)/pytest -q -n 2 tests/unit

lint: .venv/dev
	$(LINT)

# Mutation testing: change each module 20 times, and check that a test fails. MUTANTS="--module model" for one module.
mutants: .venv/dev
	$(BIN)/python benchmarks/mutants.py $(or $(MUTANTS),--sample 20)

# Run all tests with the oldest supported version of OpenSearch.
ON_OLDEST = RESIFT_NODE_VERSION=2.19.1 RESIFT_REQUIRE_OPENSEARCH=1 OPENSEARCH_URL=
test-versions: .venv/dev
	$(ON_OLDEST) $(BIN)/pytest -q -n $(WORKERS)

# Run the tests whose outcome depends most on the version of OpenSearch with the oldest supported version: remote models
# and search pipelines, attaching of different kinds of indices, and all kinds of searches in a session.
test-oldest: .venv/dev
	$(ON_OLDEST) $(BIN)/pytest -q -n 2 $(NATIVE_TESTS) tests/cluster/test_operations.py tests/cluster/test_attach_sessions.py \
		tests/cluster/test_attach_kinds.py tests/engine/test_request_kinds.py

# test_native_rights.py always uses 2.19.1, the last version whose security plugin is in Maven Central, so `make test` runs
# it already.
NATIVE_TESTS = $(filter-out %_rights.py,$(wildcard tests/cluster/test_native_*.py))
# Run the plugin's tests of failing services with the newest distribution of OpenSearch in Maven Central, which has only the
# core. Those of sessions fail there, because OpenSearch 3.8 warns about empty lists of excluded fields.
test-newest: .venv/dev
	RESIFT_NODE_VERSION=3.8.0 RESIFT_REQUIRE_OPENSEARCH=1 OPENSEARCH_URL= $(BIN)/pytest -q tests/cluster/test_native_failures.py

# Compare OpenSearch's own REST tests with and without a session on a real node: about two minutes. Part of `make test`.
conformance: .venv/dev
	$(BIN)/pytest -q tests/conformance

# Fuzzing: first run the property-based tests of `make test` with new random examples. Then compare BODIES generated
# searches (default: 10000) with and without a session, and send random searches with a public API key for SECONDS
# (default: 3600), both to a real node. Finally send random requests to reviews for a tenth of SECONDS, with the embedded
# engine. FIRST is the number of the first search or review.
fuzz: .venv/dev
	RESIFT_FRESH_EXAMPLES=1 $(BIN)/pytest -q $$(grep -rl '^from hypothesis' tests --include='test_*.py')
	RESIFT_FUZZ_BODIES=$(or $(BODIES),10000) RESIFT_FUZZ_FIRST=$(or $(FIRST),1000) $(BIN)/pytest -q tests/conformance/test_generated_bodies.py
	RESIFT_FUZZ_SECONDS=$(or $(SECONDS),3600) RESIFT_FUZZ_FIRST=$(or $(FIRST),1000) $(BIN)/pytest -q tests/engine/test_fuzz.py
	RESIFT_FUZZ_SECONDS=$$(($(or $(SECONDS),3600) / 10)) RESIFT_FUZZ_FIRST=$(or $(FIRST),1000) $(BIN)/pytest -q tests/engine/test_review_fuzz.py

# Build the plugin for OpenSearch in build/native, and run its unit tests. Needs Maven and a JDK. VERSION is the node's version.
native:
	$(PYTHON) tests/support/native_plugin.py --version $(or $(VERSION),3.6.0)

node: .venv/dev
	$(BIN)/python tests/support/node.py start

node-stop: .venv/dev
	$(BIN)/python tests/support/node.py stop

papers: .venv/dev
	$(BIN)/python benchmarks/papers.py
	$(BIN)/python benchmarks/orl.py

bench: .venv/dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/compact_vectors.py --collections ""

bench-quick: .venv/dev
	$(BIN)/python benchmarks/speed.py --quick --floors $(FLOORS)

# Kill and freeze nodes and services under load, and report lost data and failed requests. CHAOS=--short for one minute.
chaos: .venv/dev
	$(BIN)/python benchmarks/chaos.py $(CHAOS)
	$(BIN)/python benchmarks/restart.py

# Measure indices of 10,000 to 1,000,000 documents. SCALE="--documents 10000,50000" for fewer, "--nodes 3" for three nodes.
scale: .venv/dev
	$(BIN)/python benchmarks/scale.py $(SCALE)

# Build the documentation as a website. View it with python3 -m http.server --directory build/site 8000
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Lock the newest versions that pyproject.toml allows, for every version of Python and operating system.
# requirements.lock is for development. The others contain the same versions of the packages that `make demo`, the image
# and a release need.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' --group build
lock: .venv/release
	$(COMPILE) pyproject.toml --all-extras --upgrade --output-file requirements.lock
	$(COMPILE) pyproject.toml -c requirements.lock --output-file requirements-core.lock
	$(COMPILE) pyproject.toml --extra review -c requirements.lock --output-file requirements-review.lock
	$(COMPILE) --group release -c requirements.lock --upgrade --output-file requirements-release.lock

# Check the Helm chart, and render it with all options enabled. Requires helm, and go to run kubeconform.
KUBECONFORM ?= go run github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
SCHEMAS = build/kubernetes/kubernetes_validate/kubernetes-json-schema/v1.30.0-local-strict
chart: $(SCHEMAS)
	helm lint deploy/helm/resift -f deploy/helm/resift/ci.yaml
	helm template resift deploy/helm/resift --kube-version 1.30.0 --namespace search -f deploy/helm/resift/ci.yaml \
		> deploy/kubernetes.yaml
	helm template r deploy/helm/resift --kube-version 1.30.0 2>&1 | grep -q "needs API keys"
	helm template r deploy/helm/resift --kube-version 1.30.0 --set keys.secret=k,store= 2>&1 | grep -q "share no marks"
	helm template r deploy/helm/resift --kube-version 1.30.0 --set keys.secret=k,settings.X=1 2>&1 | grep -qE "X'? (is )?not allowed"
	$(KUBECONFORM) -strict -summary -skip ServiceMonitor \
		-schema-location '$(SCHEMAS)/{{.ResourceKind}}{{.KindSuffix}}.json' deploy/kubernetes.yaml

# Kubernetes schemas from PyPI, since kubeconform would download them from GitHub. The $id of a schema is removed, because
# kubeconform would resolve references relative to it.
$(SCHEMAS): requirements.lock
	rm -rf build/kubernetes && mkdir -p build/kubernetes
	$(call lines,kubernetes-validate) > build/kubernetes/requirements.txt
	$(PYTHON) -m pip install --quiet --no-deps --target build/kubernetes --require-hashes -r build/kubernetes/requirements.txt
	sed -i 's|"$$id"|"$$comment"|; s|"/api/_definitions|"_definitions|' $@/*.json

# Build the packages for PyPI in dist/. Builds of the same commit are identical (reproducible).
EPOCH = $(shell git log -1 --format=%ct)
dist: .venv/release
	rm -rf dist build/lib packages/*/build
	umask 022 && for package in . packages/*; do \
		SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m build --no-isolation --outdir dist $$package || exit 1; done
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python .ci/pack.py dist
	$(BIN)/twine check --strict dist/*

# Write build/sbom.json: the Python packages in the image, with versions and licences, in CycloneDX format.
sbom: .venv/release
	$(PYTHON) -m venv --clear build/image
	build/image/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-core.lock
	build/image/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation .
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible --output-file build/sbom.json build/image

.venv/core: pyproject.toml requirements-core.lock
	$(PYTHON) -m venv .venv
	$(LOCKED) requirements-core.lock
	$(RESIFT) -e .
	touch $@

# uv installs these 7 GB in about a minute. pip needs two to three minutes. uv does not read the configuration of pip, for
# example the package index of a company. If uv fails, pip installs the packages.
.venv/dev: .venv/core requirements.lock
	mkdir -p build && $(call lines,uv) > build/uv.txt
	$(LOCKED) build/uv.txt
	$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock || $(LOCKED) requirements.lock
	touch $@

.venv/release: .venv/core requirements-release.lock
	$(LOCKED) requirements-release.lock
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
