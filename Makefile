# Two commands set everything up on a fresh machine: `make live` and `make test`.
# Each first makes .venv with all that the engine and the tests need.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
BROWSER := $(firstword $(foreach name,chromium chromium-browser google-chrome,$(shell command -v $(name))))
TMUX_HERE := $(shell command -v tmux)
NO_TMUX := $(if $(TMUX_HERE),,and not tmux)
NO_BROWSER := $(if $(BROWSER),,and not browser)

.PHONY: help live learn test test-all bench lint

help:
	@echo "make live      the dashboard on the default model (pulled at the first start)"
	@echo "make learn     lessons on the same engine"
	@echo "make test      lint, types, tests, and the wheel in an environment of its own"
	@echo "make test-all  make test, and the tests that take long"
	@echo "make bench     the benchmarks"
	@echo "make lint      lint and types only"

live: $(READY)
	@$(BIN)/kvtop live $(ARGS)

learn: $(READY)
	@$(BIN)/kvtop learn $(ARGS)

test: lint
	$(BIN)/pytest -m "not slow and not browser and not vllm $(NO_TMUX)"
	@$(if $(TMUX_HERE),,echo "the test in a real tmux was left out: there is no tmux (package tmux)")
	$(BIN)/python tests/wheel_check.py

test-all: lint
	$(BIN)/pytest -m "(slow or not slow) $(NO_BROWSER) $(NO_TMUX) $(if $(VLLM_PYTHON),,and not vllm)"
	@$(if $(BROWSER),,echo "the tests of pages in a browser were left out: there is no Chromium (package chromium)")
	@$(if $(TMUX_HERE),,echo "the test in a real tmux was left out: there is no tmux (package tmux)")
	@$(if $(VLLM_PYTHON),,echo "the tests of a real vLLM were left out: VLLM_PYTHON names no Python that has one")
	$(BIN)/python tests/wheel_check.py

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# What needs nothing but this environment; the others ask for a card, a vLLM, or minutes to be told.
bench: $(READY)
	@for name in startup decode end_to_end bookkeeping screen dashboard_cost sim attach; do \
		echo "== $$name"; $(BIN)/python -m benchmarks.$$name || exit 1; done

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "kvtop needs Python 3.11 or newer: make PYTHON=python3.12 ..." >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[engine,serve,web,dev]'
	@touch $@
