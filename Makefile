# Needs Python 3.11+ and Java 17+; everything else is fetched into .venv and .mirror-ledger.

export MIRROR_LEDGER_HOME := $(CURDIR)/.mirror-ledger
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)

BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help bootstrap demo lint test soak bench clean

help: ## Show what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

bootstrap: ## Make .venv and fetch the JVM artifacts (PYTHON=... names the Python)
	@.ci/bootstrap

demo: bootstrap ## Mirror, fail over and fail back between two local clusters
	@$(BIN)/mirror-ledger demo

lint: bootstrap ## Check style, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint ## Lint, then run all tests
	$(BIN)/pytest

soak: bootstrap ## Run the long tests, then simulate faults with random seeds (SECONDS=... says how long)
	$(BIN)/pytest -m soak
	@$(BIN)/python -m tests.simulation.seeds --seconds $(or $(SECONDS),600)

bench: bootstrap ## Measure copying beside MirrorMaker 2, the memory of a task, and idle topics
	$(BIN)/python -m tests.benchmarks.mirror_speed
	$(BIN)/python -m tests.benchmarks.task_memory
	$(BIN)/python -m tests.benchmarks.idle_topics

clean: ## Remove what was built or fetched
	@if [ -x $(BIN)/mirror-ledger ]; then $(BIN)/mirror-ledger sandbox down; fi
	rm -rf .venv .mirror-ledger build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
