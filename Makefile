# `make` lists the targets. Each of them sets up what it needs, once (.venv is the only trace in the tree; bench-peers also leaves build/peers).

.DEFAULT_GOAL := help
.PHONY: help venv check test chaos long scenarios demo demo-spark bench bench-smoke bench-peers docs screenshots secrets clean

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
SCENARIOS := tests/conformance/test_scenarios.py
TARGETS := sqlite duckdb mariadb postgresql

# Spark finds Java by JAVA_HOME, else on PATH; the file is there only when neither would do.
JAVA = $$(cat .venv/java-home 2>/dev/null || echo "$$JAVA_HOME")
WITH_JAVA = tools/bootstrap.sh java && export JAVA_HOME="$(JAVA)" && { [ -n "$$JAVA_HOME" ] || unset JAVA_HOME; } &&

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

venv: .venv/.installed ## the virtual environment, with this package in it

.venv/.installed: pyproject.toml tools/bootstrap.sh
	@tools/bootstrap.sh venv

.venv/.servers: tools/bootstrap.sh | .venv/.installed
	@tools/bootstrap.sh servers

check: .venv/.installed ## format, lint, types, layers and the fast tests: under three minutes
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(PYTEST) -q -n 2 tests/unit tests/property -m fast

test: .venv/.installed .venv/.servers ## the tests with real servers and Spark; check has the fast ones, long those that take minutes
	@$(WITH_JAVA) $(PYTEST) -n 3 --dist loadfile --no-loadscope-reorder -m "not fast and not long" tests --ignore=$(SCENARIOS)
	@$(WITH_JAVA) $(PYTEST) -n 3 -m "not long" $(SCENARIOS)

chaos: .venv/.installed .venv/.servers ## an hour of failovers, kills and other random faults under load (SEED=, CHAOS_SECONDS=, ARGS="...")
	@$(WITH_JAVA) CHAOS_SECONDS=$${CHAOS_SECONDS:-3600} $(PYTEST) -o log_cli=true --log-cli-level=INFO --log-cli-format='%(message)s' tests/chaos $(ARGS)

long: .venv/.installed .venv/.servers ## the tests that take minutes (ARGS="...")
	@$(WITH_JAVA) HYPOTHESIS_EXAMPLES=500 $(PYTEST) -n 2 -m "not long" tests/property $(ARGS)
	@$(WITH_JAVA) $(PYTEST) -n 2 -m long tests $(ARGS)

# PostgreSQL 19 comes from the folder of programs that SUBSCRIBER_TEST_POSTGRESQL_19 names; without it, its publications are emulated on 18.
WITH_19 = $(if $(SUBSCRIBER_TEST_POSTGRESQL_19),--pg 19)

scenarios: .venv/.installed .venv/.servers ## the library on PostgreSQL's own subscriber, on 18, 16 and 15, and on four targets of ours
	@$(WITH_JAVA) $(BIN)/subscriber scenario run scenarios --subscriber native $(WITH_19) --pg 18 --pg 16 --pg 15 $(ARGS)
	@$(WITH_JAVA) $(BIN)/subscriber scenario run scenarios $(TARGETS:%=--subscriber %) --pg 18 $(WITH_19) $(ARGS)
	@$(WITH_JAVA) $(BIN)/subscriber scenario run scenarios/[123]*.psql --publications emulated --pg 18 --pg 16 --pg 15 $(ARGS)
	@$(WITH_JAVA) SUBSCRIBER_POSTGRESQL_VERSION=19 $(BIN)/subscriber scenario run scenarios/94[1-7]*.psql scenarios/953*.psql $(TARGETS:%=--subscriber %) --publications emulated $(ARGS)
	@$(WITH_JAVA) SUBSCRIBER_POSTGRESQL_VERSION=19 $(BIN)/subscriber scenario run scenarios/949*.psql scenarios/95[0-24-9]*.psql $(TARGETS:%=--subscriber %) $(ARGS)

demo: .venv/.installed ## a real PostgreSQL replicates into SQLite through Spark, on this machine
	@$(WITH_JAVA) $(BIN)/subscriber demo

demo-spark: .venv/.installed ## the same into Delta Lake, by Spark queries that read change feeds
	@$(WITH_JAVA) $(BIN)/subscriber spark demo

bench: .venv/.installed .venv/.servers ## the workloads beside PostgreSQL's own subscriber, more than an hour; writes the figures into the documents
	@$(WITH_JAVA) $(BIN)/python -m benchmarks --json benchmarks/results/full.json $(ARGS)
	@$(WITH_JAVA) $(BIN)/python -m benchmarks --smoke --json benchmarks/results/smoke.json
	@$(BIN)/python -m benchmarks.page

bench-smoke: .venv/.installed ## a tenth of the size, under three minutes: what fell by more than a third since `make bench`
	@$(WITH_JAVA) $(BIN)/python -m benchmarks --smoke --compare benchmarks/results/smoke.json $(ARGS)

bench-peers: .venv/.installed ## a tenth of the size beside Debezium's engine and dlt, which it installs in build/peers
	@$(WITH_JAVA) $(BIN)/python -m benchmarks --targets sqlite,duckdb,debezium,dlt --size 0.1 --json benchmarks/results/peers.json $(ARGS)

# mkdocs is for this target only, so `venv` does not install it.
.venv/.docs: pyproject.toml | .venv/.installed
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

docs: .venv/.docs ## the pages that are made from the code, and the site of all pages in site/
	$(BIN)/python -m tools.row_filters_page > docs/row-filters.md
	$(BIN)/python -m tools.types_page > docs/types.md
	$(BIN)/python -m tools.spark_types_page > docs/spark-types.md
	$(BIN)/python -m tools.metrics_page > docs/metrics.md
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

screenshots: .venv/.installed .venv/.servers ## the pictures of the dashboard in docs/images
	$(BIN)/python -m tools.screenshots

# Whoever runs it all in Docker needs no virtual environment for this.
secrets: ## the passwords of docker-compose.yml
	@python3 tools/make_secrets.py

clean: ## what was built, the virtual environment included
	rm -rf .venv build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
