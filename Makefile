# Verbs of the project. Each sets up .venv first, where it is missing or older than its pins.
# PYTHON is the interpreter .venv is made from; ARGS are passed on by train, test and bench.

PYTHON ?= python3
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install train test lint types bench clean

help: ## Show this help
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv with the pinned dependencies and this package, editable

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "asyncrl needs Python 3.11 or newer; run: make PYTHON=python3.11 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

train: $(INSTALLED) ## Train CartPole-v1 with PPO and 2 actors until solved (ARGS="--seed 7" adds options)
	$(BIN)/python -m asyncrl.learner --algo ppo --env CartPole-v1 --actors 2 --stop-return 475 $(ARGS)

test: $(INSTALLED) ## Run all tests, one process a core (ARGS="tests/wire -x" narrows them)
	$(BIN)/python -m pytest -n logical --dist worksteal $(ARGS)

lint: $(INSTALLED) ## Check style, formatting and the arrows between packages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache

types: $(INSTALLED) ## Check types, strictly
	$(BIN)/pyright

bench: $(INSTALLED) ## Run the CartPole benchmark, one JSON line a result (ARGS="cartpole --algo dqn" chooses)
	$(BIN)/python -m benchmarks $(or $(ARGS),cartpole)

clean: ## Remove .venv, caches and build outputs; runs/ stays
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache .grimp_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
