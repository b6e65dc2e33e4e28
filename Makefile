# Everything happens in a virtual environment inside the tree; nothing global is touched.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# further packages, for example EXTRAS="torch==2.13.0"; tests that need absent ones skip aloud
EXTRAS ?=

.PHONY: test quick fuzz docs size lint types demo clean

# two tests at a time, each file by one of them: files share fixtures such as clusters;
# one BLAS thread each, or they would get in each other's way
export OMP_NUM_THREADS ?= 1
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile

test: lint types
	$(PYTEST)

quick: lint types
	$(PYTEST) -m "not slow"

# damaged and forged files without end; Ctrl-C stops it
fuzz: $(STAMP)
	$(BIN)/python benchmarks/fuzz.py --forever

# the site, into site/; pages of the reference are written from the code
docs: $(STAMP)
	$(BIN)/python tools/reference.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

# statements, files, fields of the waist, options, each beside its limit in pyproject.toml
size: $(STAMP)
	$(BIN)/python tools/size.py

demo: $(STAMP)
	$(BIN)/dushapley demo

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo

types: $(STAMP)
	$(BIN)/mypy

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "dushapley needs Python 3.11 or newer, found " + sys.version.split()[0] + ". Name one: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e ".[dev]" $(EXTRAS)
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist site docs/reference .pytest_cache .mypy_cache .ruff_cache
