# The two commands of the README are `make demo` and `make test`; both start from Python, pip and make alone.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Pins are for the Python the project is developed on; other Pythons resolve the minimum versions of pyproject.toml.
PINS := $(shell $(PYTHON) -c 'import sys; print("-c constraints-py311.txt" if sys.version_info[:2] == (3, 11) else "")')
# Python compiles the few modules that are imported, when they are: pip would take half a minute to compile them all.
INSTALL := --quiet --disable-pip-version-check --no-compile

# Bytecode is written whatever the shell says: each process that compiles what it imports anew takes half a minute longer.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all lint types floors pytest docs bench lock clean

$(VENV)/.user: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(INSTALL) $(PINS) -e .
	touch $@

$(VENV)/.developer: pyproject.toml constraints-py311.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install $(INSTALL) $(PINS) -e '.[test,docs]'
	touch $@ $(VENV)/.user

demo: $(VENV)/.user  ## audit the 442 diabetes patients that ship inside scikit-learn
	$(BIN)/perinstance demo

test: $(VENV)/.developer  ## everything that must hold before a change lands
	$(MAKE) --no-print-directory --jobs=2 lint types floors docs
	$(MAKE) --no-print-directory pytest

lint: $(VENV)/.developer
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.developer
	$(BIN)/mypy

floors: $(VENV)/.developer
	$(BIN)/lint-imports

pytest: $(VENV)/.developer
	$(BIN)/pytest -n 2 --dist worksteal -m "not slow" tests src
	$(BIN)/pytest -n 2 --dist loadfile -m "not slow" docs README.md

test-all: $(VENV)/.developer  ## also the long statistical tests
	$(BIN)/pytest -n 2 --dist worksteal tests src
	$(BIN)/pytest -n 2 --dist loadfile docs README.md

docs: $(VENV)/.developer
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.developer  ## speed as ratios measured in one run
	$(BIN)/python -m benchmarks

lock: $(VENV)/.developer  ## write down the versions that are installed now, and hashes of those that run
	$(BIN)/python -m pip freeze --exclude-editable | grep -v '^torch' > constraints-py311.txt
	$(BIN)/python .ci/lock.py

clean:
	rm -rf $(VENV) build dist site .pytest_cache .hypothesis .mypy_cache .ruff_cache
