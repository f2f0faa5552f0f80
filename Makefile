# One command each: set up, run, test, check. `make help` lists them.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# pip's errors only: no questions, no advice, no warnings with addresses
PIP := $(BIN)/python -m pip -qq --disable-pip-version-check --no-input
# a file of tests stays in one process, where its cluster is started once; the long ones come first
PYTEST := $(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder
# folder of the checklists, for `make requirements`
SPEC ?= ../shared/spec
# seeds of `make chaos`
SEEDS ?= 200
# an interpreter of the newest supported version, where the machine has one
PYTHON313 := $(firstword $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python3) $(wildcard /usr/bin/python3.13 /usr/local/bin/python3.13))

.DELETE_ON_ERROR:
.PHONY: help setup run test test-peers chaos check bench requirements clean

help:  ## List the commands.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(BIN)/trunkline  ## Make .venv with the `trunkline` command.

run: setup  ## Start a cluster with two frontends and the demo on this machine.
	$(BIN)/trunkline up --demo --frontends 2

test: $(VENV)/.dev  ## Run all tests that need nothing else on this machine.
	$(PYTEST) -m "not peers and not chaos"

test-peers: $(VENV)/.dev  ## Run the tests against real peers (Chromium, PgBouncer ...).
	$(BIN)/pytest -m peers

check: $(VENV)/.dev  ## Lint, format, types and import rules, for Python 3.11 and 3.13.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/mypy --python-version 3.13 --cache-dir .mypy_cache/3.13
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir .mkdocs
	rm -rf .mkdocs
	$(if $(PYTHON313),$(PYTHON313) -m pip install -qq --disable-pip-version-check --dry-run --ignore-installed \
	  --require-hashes -r requirements.lock,@echo "no Python 3.13 on this machine: the lock was not resolved under it")

chaos: $(VENV)/.dev  ## Kill parts of a cluster at every instant, then play SEEDS at random (those go on where they stopped).
	@$(PYTEST) -m chaos; tests=$$?; $(BIN)/python -m tests.chaos --seeds $(SEEDS) && exit $$tests

bench: $(VENV)/.dev  ## Run the benchmarks and print their figures.
	@for file in $$(grep -l '__main__' benchmarks/*.py); do echo "== $$file"; $(BIN)/python "$$file" || exit 1; done

requirements: $(VENV)/.dev  ## Count the rows of the checklists that a test proves.
	SPEC=$(SPEC) $(BIN)/python -m tests.requirements

clean:  ## Remove what the commands above have made.
	rm -rf $(VENV) .chaos .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .mkdocs dist

$(BIN)/trunkline: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Trunkline needs Python 3.11 to 3.13: make PYTHON=python3.13")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments:" \
	  "install its venv package (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: $(BIN)/trunkline requirements-dev.lock
	$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@
