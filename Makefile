PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Only files whose hashes the lock has; and Resift itself, built by the setuptools of that lock.
LOCKED := $(PIP) --require-hashes -r
RESIFT := $(PIP) --no-deps --no-build-isolation
SERVE ?= 1
ENGINE ?= sqlite
FLOORS ?= 1
# so many processes share the tests out, each with an OpenSearch of its own: one where OPENSEARCH_URL names the only one
WORKERS ?= $(if $(OPENSEARCH_URL),0,2)

# Else each command that tests start would compile all of our modules anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: chart compose demo test test-fast fuzz test-versions lint mutants node node-stop papers bench bench-quick chaos scale docs lock dist sbom clean

demo: .venv/core
	$(BIN)/resift demo $(if $(SHOP),shop) --engine $(ENGINE) $(if $(filter 0,$(SERVE)),--no-serve)

LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

# The linters run beside the tests, and what they find is shown after them.
test: .venv/dev
	@mkdir -p build; { $(LINT); } > build/lint.txt 2>&1 & \
	$(BIN)/pytest -q -n $(WORKERS); passed=$$?; \
	wait $$! || { cat build/lint.txt; exit 1; }; exit $$passed

# docker-compose.yml with real containers, where Docker or podman is there: minutes, for an image that is built and
# OpenSearch's own, of a gigabyte.
compose: .venv/dev
	$(BIN)/pytest -q tests/compose

# What needs no engine, no network and no browser: in less than a minute.
test-fast: .venv/dev
	$(BIN)/pytest -q -n 2 tests/unit

lint: .venv/dev
	$(LINT)

# So many changes of each module, one at a time: do the tests notice? MUTANTS="--module model" for one module.
mutants: .venv/dev
	$(BIN)/python benchmarks/mutants.py $(or $(MUTANTS),--sample 20)

# All tests that need OpenSearch against the oldest version that they are for.
test-versions: .venv/dev
	RESIFT_NODE_VERSION=2.19.1 RESIFT_REQUIRE_OPENSEARCH=1 OPENSEARCH_URL= $(BIN)/pytest -q -n $(WORKERS)

# Searches that nobody would think of, with a key that everybody may see, for so many SECONDS on a real node; before
# them other examples of what `make test` tries with the same ones each time.
fuzz: .venv/dev
	RESIFT_FRESH_EXAMPLES=1 $(BIN)/pytest -q $$(grep -rl '^from hypothesis' tests --include='test_*.py')
	RESIFT_FUZZ_SECONDS=$(or $(SECONDS),3600) RESIFT_FUZZ_FIRST=$(or $(FIRST),1000) $(BIN)/pytest -q tests/engine/test_fuzz.py

node: .venv/dev
	$(BIN)/python tests/support/node.py start

node-stop: .venv/dev
	$(BIN)/python tests/support/node.py stop

papers: .venv/dev
	$(BIN)/python benchmarks/papers.py

bench: .venv/dev
	$(BIN)/python benchmarks/speed.py
	$(BIN)/python benchmarks/compact_vectors.py --collections ""

bench-quick: .venv/dev
	$(BIN)/python benchmarks/speed.py --quick --floors $(FLOORS)

# Nodes and rerankers killed and frozen under load: what was lost, and what did clients see? CHAOS=--short for a minute.
chaos: .venv/dev
	$(BIN)/python benchmarks/chaos.py $(CHAOS)

# What 10,000 to a million documents cost. SCALE="--documents 10000,50000" for less, "--nodes 3" for three nodes.
scale: .venv/dev
	$(BIN)/python benchmarks/scale.py $(SCALE)

# The documentation as a site with a search box: python3 -m http.server --directory build/site 8000
docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# The newest versions that pyproject.toml allows, for every Python and system: requirements.lock is for work on Resift,
# the others have the same versions of what `make demo`, the image and a release need.
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.10 --generate-hashes --no-annotate \
	--no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' --group build
lock: .venv/release
	$(COMPILE) pyproject.toml --all-extras --upgrade --output-file requirements.lock
	$(COMPILE) pyproject.toml -c requirements.lock --output-file requirements-core.lock
	$(COMPILE) pyproject.toml --extra review -c requirements.lock --output-file requirements-review.lock
	$(COMPILE) --group release -c requirements.lock --upgrade --output-file requirements-release.lock

# The Helm chart, looked at and rendered with everything switched on; helm, and go for kubeconform, have to be there.
KUBECONFORM ?= go run github.com/yannh/kubeconform/cmd/kubeconform@v0.7.0
SCHEMAS = build/kubernetes/kubernetes_validate/kubernetes-json-schema/v1.30.0-local-strict
chart: $(SCHEMAS)
	helm lint deploy/helm/resift -f deploy/helm/resift/ci.yaml
	helm template resift deploy/helm/resift --kube-version 1.30.0 --namespace search -f deploy/helm/resift/ci.yaml \
		> deploy/kubernetes.yaml
	helm template r deploy/helm/resift --kube-version 1.30.0 2>&1 | grep -q "needs keys"
	helm template r deploy/helm/resift --kube-version 1.30.0 --set keys.secret=k,store= 2>&1 | grep -q "each other's marks"
	helm template r deploy/helm/resift --kube-version 1.30.0 --set keys.secret=k,settings.X=1 2>&1 | grep -qE "X'? (is )?not allowed"
	$(KUBECONFORM) -strict -summary -skip ServiceMonitor \
		-schema-location '$(SCHEMAS)/{{.ResourceKind}}{{.KindSuffix}}.json' deploy/kubernetes.yaml

# Kubernetes' schemas as PyPI has them: kubeconform would ask GitHub. It takes each schema's $id for where others are.
$(SCHEMAS): requirements.lock
	rm -rf build/kubernetes && mkdir -p build/kubernetes
	sed -n '/^kubernetes-validate==/,/[^\]$$/p' requirements.lock > build/kubernetes/requirements.txt
	$(PYTHON) -m pip install --quiet --no-deps --target build/kubernetes --require-hashes -r build/kubernetes/requirements.txt
	sed -i 's|"$$id"|"$$comment"|; s|"/api/_definitions|"_definitions|' $@/*.json

# What goes to PyPI, in dist/: the same bytes whoever builds a commit
EPOCH = $(shell git log -1 --format=%ct)
dist: .venv/release
	rm -rf dist build/lib packages/*/build
	umask 022 && for package in . packages/*; do \
		SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python -m build --no-isolation --outdir dist $$package || exit 1; done
	SOURCE_DATE_EPOCH=$(EPOCH) $(BIN)/python .ci/pack.py dist
	$(BIN)/twine check --strict dist/*

# What the image has of Python packages, with their versions and licences: build/sbom.json, in CycloneDX's format
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

.venv/dev: .venv/core requirements.lock
	$(LOCKED) requirements.lock
	touch $@

.venv/release: .venv/core requirements-release.lock
	$(LOCKED) requirements-release.lock
	touch $@

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
