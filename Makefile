# Evenflow: `make up` runs it, `make test` proves it. Needs only Python >= 3.11 and make.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: help install up demo test lint chaos bench screenshots

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

.venv/run: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Evenflow needs Python 3.11 or newer.")'
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@touch $@

.venv/dev: requirements-dev.lock .venv/run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

install: .venv/dev  ## Make .venv with everything, the development group too

up: .venv/run  ## Run Evenflow on an embedded PostgreSQL at http://127.0.0.1:8000 (data in .data)
	@$(BIN)/python manage.py up --ready-file .data/ready.json

demo: .venv/run  ## The same with three departments, a mixed load and real agents (data in .demo)
	@$(BIN)/python manage.py demo --ready-file .demo/ready.json

# The warning says that no database was asked; none is needed here.
lint: .venv/dev  ## Style, types, import directions, migrations, locked dependencies
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -W ignore::RuntimeWarning manage.py makemigrations --check --dry-run
	$(BIN)/python -m pip check --quiet --disable-pip-version-check
	$(BIN)/python -m tests.locks

test: lint  ## Everything: lint, unit, property, PostgreSQL, API, browser, acceptance
	$(BIN)/python -m pytest -n $(WORKERS)

chaos: .venv/dev  ## Ten minutes of kills, freezes and outages under load, and many random lives of tasks
	EVENFLOW_CHAOS_S=600 $(BIN)/python -m pytest tests/acceptance/test_chaos.py -s
	EVENFLOW_ROUNDS=full $(BIN)/python -m pytest tests/acceptance/test_leases.py tests/acceptance/test_quota.py \
		tests/services/test_races.py
	EVENFLOW_MODEL_LIVES=200 $(BIN)/python -m pytest tests/services/test_model.py --timeout=3600

bench: .venv/dev  ## Speed: medians and ratios, nothing is asserted
	$(BIN)/python -m pytest tests/bench -q -s --ds=tests.bench.settings -o addopts= -o timeout=0 \
		-o python_files='*bench_*.py' -o python_functions='bench_* test_*'

screenshots: .venv/dev  ## Pictures of every page of the demo, in screenshots/
	$(BIN)/python -m tests.ui.screenshots
