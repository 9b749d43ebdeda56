# Needs Python 3.11+ and Java 17+; everything else is fetched into .venv and .mirror-ledger.

export MIRROR_LEDGER_HOME := $(CURDIR)/.mirror-ledger
export PYSPARK_PYTHON := $(CURDIR)/.venv/bin/python
export PYSPARK_DRIVER_PYTHON := $(PYSPARK_PYTHON)
# Compiled modules are kept: else each process of a test, and a suite starts hundreds, compiles all that it imports.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# Tests on brokers wait now and then: one worker more than cores; with two more they get into each other's way.
WORKERS ?= 3
# DuckDB plans by many small blocks of memory: kept by the thread that freed them, they cost a tenth less.
quick test soak: export GLIBC_TUNABLES := glibc.malloc.tcache_count=60000:glibc.malloc.tcache_max=1032
# Tests without brokers that take long: they work while those on brokers wait.
LONG = $(shell grep -rl '^pytestmark = pytest.mark.long' tests/check)

.DEFAULT_GOAL := help
.PHONY: help bootstrap demo lint check quick test soak seeds references site pictures bench clean

help: ## Show what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

bootstrap: ## Make .venv and fetch the JVM artifacts (PYTHON=... names the Python)
	@.ci/bootstrap

demo: bootstrap ## Mirror between two local clusters, lose one, fail over, compare every record
	@$(BIN)/mirror-ledger demo

lint: bootstrap ## Check style, types and imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: bootstrap ## Lint, and beside it run what needs neither JVM nor broker: before each commit
	@$(MAKE) --no-print-directory --jobs 2 lint quick

quick: bootstrap
	$(BIN)/pytest tests/check -m 'not long' -n 2 --dist loadfile --no-loadscope-reorder

test: check ## All of check, then what takes long, and the tests on real brokers, Delta and Spark: what continuous integration runs
	$(BIN)/pytest tests/real $(LONG) -n $(WORKERS) --dist loadgroup --no-loadscope-reorder

soak: bootstrap ## Run the long tests, then simulate faults with random seeds (SECONDS=... says how long)
	$(BIN)/pytest tests/soak -n $(WORKERS) --dist loadgroup
	$(BIN)/pytest tests/check -n 2 --dist loadfile --hypothesis-profile random
	for seed in 2 4; do MIRROR_LEDGER_SEED=$$seed $(BIN)/pytest tests/real/store/test_maintenance_model.py || exit 1; done
	@$(BIN)/python -m tests.simulation.seeds --seconds $(or $(SECONDS),600)

seeds: bootstrap ## Choose anew the seeds that the tests simulate
	@$(BIN)/python -m tests.simulation.selection

references: bootstrap ## Write the parts of documents that repeat what the code says
	@$(BIN)/python -m tests.support.references

site: bootstrap ## Build the documentation site of the documents, into build/site, with all links checked
	@$(BIN)/python -m tests.support.site_pages
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --config-file conf/mkdocs.yml

pictures: bootstrap ## Take the pictures of README.md anew: the demonstration, and the page of a mirror at work in a Chromium
	@$(BIN)/python -m tests.support.pictures

bench: bootstrap ## Measure copying beside MirrorMaker 2, by name and by records, memory, idle topics and flows, a downtime, plans, losses, days of a ledger
	$(BIN)/python -m tests.benchmarks.mirror_speed
	$(BIN)/python -m tests.benchmarks.latency
	$(BIN)/python -m tests.benchmarks.by_name
	$(BIN)/python -m tests.benchmarks.record_path
	$(BIN)/python -m tests.benchmarks.task_memory
	$(BIN)/python -m tests.benchmarks.idle_topics
	$(BIN)/python -m tests.benchmarks.idle_topics --topics 1000 --busy
	$(BIN)/python -m tests.benchmarks.idle_flows
	$(BIN)/python -m tests.benchmarks.downtime
	$(BIN)/python -m tests.benchmarks.planning
	$(BIN)/python -m tests.benchmarks.failover_loss
	$(BIN)/python -m tests.benchmarks.growth

clean: ## Remove what was built or fetched
	@if [ -x $(BIN)/mirror-ledger ]; then $(BIN)/mirror-ledger sandbox down; fi
	rm -rf .venv .mirror-ledger build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
