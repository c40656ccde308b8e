# `make` lists the targets. Each makes .venv when it is missing and installs what it needs; the second time it is fast.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check

# A stamp for each set of requirements. What a stamp depends on makes it stale, and pip then installs what changed.
DEMO := $(VENV)/installed-demo
DEV  := $(VENV)/installed-dev

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test lint format coverage-table scoreboard wheel clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | while IFS="$$(printf '\t')" read -r target text; do \
		printf '  make %-14s %s\n' "$$target" "$$text"; done
	@echo 'PYTHON=python3.12 chooses the interpreter of a new .venv (3.11 or newer).'

demo: $(DEMO)  ## record real trainings, healthy and faulty, and write a report of each
	@$(BIN)/glideslope demo $(DIR)

test: lint  ## ruff, mypy and the tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses logical --dist loadfile $(ARGS)

lint: $(DEV)  ## ruff and mypy only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(DEV)  ## let ruff format the code and mend what it can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

coverage-table: $(DEV)  ## rewrite the README's table of models and instruments, from recordings
	PYTHONPATH=tests $(BIN)/python -m support.coverage_table

ZOO ?= zoo-runs
SEEDS_tuning   := 2
SEEDS_heldout  := 5
OTHERS_heldout := --ablation --rivals
scoreboard: $(DEV)  ## record the calibration zoo, judge it, rewrite the README's tables and the rates of the rules (hours)
	$(MAKE) scoreboard-tuning scoreboard-heldout

scoreboard-%: $(DEV)
	$(BIN)/python tests/zoo/outcome.py --part $*
	$(BIN)/python tests/zoo/record.py --part $* --seeds $(SEEDS_$*) -o $(ZOO)/$*
	$(BIN)/python tests/zoo/scoreboard.py $(ZOO)/$* --part $* $(OTHERS_$*) --write --readme README.md

wheel: $(DEV)  ## build the wheel into dist/
	$(BIN)/python -m build

clean:  ## remove .venv and what the tools left behind
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'glideslope needs Python 3.11 or newer, and "$(PYTHON)" is not: make PYTHON=/path/to/python3.11 …' >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo '"$(PYTHON)" could not make a virtual environment; on Debian: apt install python3-venv' >&2; exit 1; }

$(DEMO): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --editable '.[demo]' --constraint constraints.txt
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev]' --constraint constraints.txt
	@touch $(DEMO) $@
