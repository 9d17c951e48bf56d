# Every verb of the project. `make help` lists them; CI calls the same ones.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# uv runs everything. Where the machine has none, it is installed into the clone (.uv/) with pip.
UV  := $(or $(shell command -v uv 2>/dev/null),.uv/bin/uv)
RUN := $(UV) run --frozen --no-sync

# One for each core: end-to-end tests start several processes each.
PYTEST := pytest -n $(shell nproc 2>/dev/null || echo 2) --dist worksteal

# The oldest Kubernetes that is supported (docs/reference/support.md), at its last patch.
OLDEST := v1.30.14
ON_OLDEST := MUSTER_KUBERNETES=$(OLDEST) $(RUN)
OLDEST_TESTS := tests/contract tests/e2e/test_webhook.py tests/e2e/test_rbac.py tests/e2e/test_pod_security.py

.PHONY: help
help:  ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: .venv/.ready  ## install uv (if missing), Python packages and muster itself into .venv

.venv/.ready: pyproject.toml uv.lock | $(UV)
	$(UV) sync --frozen --group docs --compile-bytecode
	@touch $@

.uv/bin/uv:
	python3 -m venv .uv
	.uv/bin/python -m pip install --quiet 'uv>=0.5'

.PHONY: demo
demo: setup  ## show what muster does, on the Dynamo example
	@$(RUN) bash examples/demo.sh

.PHONY: check
check: setup  ## lint, format, types, the direction of imports, and the rules of the tree
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	$(RUN) lint-imports
	$(RUN) python -m checks.tree

.PHONY: test
test: check  ## check, then every test; where Go is at hand, also on a real API server, built once
	@$(RUN) python -m compileall -q src tests bench checks  # once, and not in each process that the tests start
	@$(RUN) python -m tests.support.apiserver.envtest --if-possible > /dev/null
	@$(RUN) python -m tests.support.chromium --if-possible > /dev/null
	$(RUN) $(PYTEST)

.PHONY: spec
spec: setup  ## only the promises: one test a rule of the specification
	$(RUN) pytest -n auto tests/spec -v

.PHONY: nightly
nightly: setup  ## the oldest Kubernetes, 100 times the examples, 10,000 runs with faults, 1,000 recorded histories, floods of 10,000 connections, an sdist from the package index
	@$(ON_OLDEST) python -m tests.support.apiserver.envtest --if-possible > /dev/null
	$(ON_OLDEST) $(PYTEST) $(OLDEST_TESTS)
	HYPOTHESIS_PROFILE=nightly $(RUN) $(PYTEST) tests/property tests/e2e/test_faults.py tests/e2e/test_real_faults.py \
		tests/e2e/test_history.py tests/e2e/test_floods.py tests/e2e/test_up_floods.py tests/unit/release

.PHONY: envtest
envtest: setup  ## find a real kube-apiserver, etcd and kube-controller-manager for the tests, or build them once (needs Go)
	@$(RUN) python -m tests.support.apiserver.envtest

.PHONY: envtest-old
envtest-old: setup  ## the contract suite on the oldest supported Kubernetes, built once (needs Go, about 15 minutes)
	$(ON_OLDEST) python -m tests.support.apiserver.envtest > /dev/null
	$(ON_OLDEST) $(PYTEST) $(OLDEST_TESTS)

.PHONY: dist
dist: setup  ## wheel, sdist, SBOM, provenance and checksums into dist/, from the commit that is checked out
	$(RUN) python -m release

.PHONY: release
release: setup  ## dist, and the container image on BASE_IMAGE=…@sha256:… (docs/reference/release.md)
	$(RUN) python -m release --base-image '$(BASE_IMAGE)'

.PHONY: golden
golden: setup  ## rewrite the approved files; read the diff before you commit it
	MUSTER_GOLDEN=write $(RUN) pytest -n auto tests/golden

.PHONY: docs
docs: setup  ## build the documentation site into site/; site/index.html needs no server and no network
	NO_MKDOCS_2_WARNING=1 $(RUN) mkdocs build
	@echo "open site/index.html"

.PHONY: bench
bench: setup  ## measure; the figures of docs/performance.md
	$(RUN) python -m bench

.PHONY: soak
soak: setup  ## ten minutes of `muster up` under load, with nodes lost: progress, memory, latency, no promise broken
	$(RUN) python -m tests.support.soak --seconds 600

.PHONY: soak-hour
soak-hour: setup  ## an hour of `muster run` on a real API server under load (`make envtest`): pace, memory, descriptors and p99 stay
	$(RUN) python -m tests.support.soak --on apiserver --seconds 3600

.PHONY: format
format: setup  ## format the code
	$(RUN) ruff format
	$(RUN) ruff check --fix

.PHONY: clean
clean:  ## remove what was built or installed into the clone
	rm -rf .venv .uv dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
