# `make demo` shows it, `make test` tests it; both set up everything they need.
PYTHON ?= python3
BIN := .venv/bin
BUDGET := $(BIN)/python tools/budget.py
READY := .venv/ready
# One pool of threads for each of the two test processes: more only get in each other's way.
PYTEST := env OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

.PHONY: help setup demo test test-all lint docs benchmark clean

help:
	@echo "make demo      set up, make built-in data, compare all strategies on it; leaves demo/report.html"
	@echo "make test      set up, then lint, types and tests (15 minutes at most on two cores)"
	@echo "make test-all  the same and the slow tests"
	@echo "make setup     only set up: .venv with everything installed"
	@echo "make docs      the documentation as a site, in build/site"
	@echo "make benchmark the figures in docs/, measured on this machine"

setup: $(READY)

$(READY): pyproject.toml constraints.txt src/slipstream/version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
		{ echo "slipstream needs Python 3.10 or later: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(PYTHON) tools/budget.py --only-tell set-up 180 $(BIN)/python -m pip install -q \
		--disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(READY)
	@$(BIN)/python tools/demo.py

lint: $(READY)
	@$(BUDGET) lint 60 sh -c '$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy'

test: lint
	@$(BUDGET) "unit tests" 360 $(PYTEST) -n 2 -m "not slow and not process and not docs"
	@$(BUDGET) "tests with real processes" 210 $(PYTEST) -n 2 -m "process and not slow"
	@$(BUDGET) "docs" 100 $(PYTEST) -n 2 -m "docs and not slow"

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
