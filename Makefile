# `make demo` shows what it does, `make test` tests it; both install everything they need into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
LIMIT := 720
# One thread for each of the two test processes: more threads only compete for the two cores.
PYTEST := env OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q
TEXTS := src tests benchmarks tools examples docs README.md CONTRIBUTING.md CHANGELOG.md

.PHONY: help setup demo test test-all lint docs benchmark clean

help:
	@echo "make demo      set up, make built-in data, compare all strategies on it; leaves demo/report.html"
	@echo "make test      set up, then lint, types and tests (12 minutes at most on two cores)"
	@echo "make test-all  the same and the slow tests"
	@echo "make setup     only set up: .venv with everything installed"
	@echo "make docs      the documentation as a site, in build/site"
	@echo "make benchmark the figures in docs/, measured on this machine"

setup: $(READY)

$(READY): pyproject.toml constraints.txt src/slipstream/version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "slipstream needs Python 3.10 or later: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/python tools/demo.py

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell $(TEXTS)
	@$(BIN)/mypy

test:
	@$(PYTHON) tools/budget.py $(LIMIT) "set-up=make setup" "lint=make lint" \
		"tests=$(PYTEST) -n 2 -m 'not slow'"

test-all: test
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -n 2 -m "not process and not docs"
	$(PYTEST) -m slow

docs: $(READY)
	@$(BIN)/python -m mkdocs build --strict
	@echo "The documentation is in build/site/index.html."

benchmark: $(READY)
	-$(BIN)/python benchmarks/data.py
	-$(BIN)/python benchmarks/prepare.py
	-$(BIN)/python benchmarks/cpu_step.py
	-$(BIN)/python benchmarks/train.py
	-$(BIN)/python benchmarks/placement.py
	-$(BIN)/python benchmarks/kill.py
	-$(BIN)/python -m benchmarks.skipping --jobs 2 --minutes 30
	$(BIN)/python benchmarks/skew.py

clean:
	rm -rf .venv demo build .pytest_cache .mypy_cache .ruff_cache .hypothesis
