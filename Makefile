# The developer's whole interface; `make demo` and `make test` need Python 3.11 or newer and nothing else.

PYTHON ?= python3
BIN := .venv/bin
PEERS := .venv-peers/installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: demo test check bench docs clean

demo: .venv/installed-demo
	$(BIN)/tacit demo

# One BLAS thread for each of the processes: more would get in each other's way.
test: check
	OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --cov --cov-report term

check: .venv/installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/installed-bench $(PEERS)
	$(BIN)/python benchmarks/perturb.py
	$(BIN)/python benchmarks/world.py
	$(BIN)/python benchmarks/matrix.py
	$(BIN)/python benchmarks/baseline.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/recommend.py
	$(BIN)/python benchmarks/channel.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/attack.py
	$(BIN)/python benchmarks/noise_treatments.py
	$(BIN)/python benchmarks/unknown_channel.py

# Other libraries to compare with, in an environment of their own; one that does not install is left out.
$(PEERS): benchmarks/peers/install.py benchmarks/peers/constraints.txt
	$(PYTHON) benchmarks/peers/install.py
	@touch $@

docs: .venv/installed-docs
	$(BIN)/sphinx-build --fail-on-warning --quiet docs docs/_build
	@echo "docs/_build/index.html"

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tacit needs Python 3.11 or newer; try make PYTHON=python3.11"; exit 1; }
	$(PYTHON) -m venv .venv

.venv/installed-demo: EXTRAS = demo
.venv/installed-test: EXTRAS = demo,test
.venv/installed-bench: EXTRAS = demo,bench
.venv/installed-docs: EXTRAS = demo,docs
.venv/installed-%: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) ".[$(EXTRAS)]"
	@touch $@

clean:
	rm -rf .venv .venv-peers build dist docs/_build tacit-demo .mypy_cache .ruff_cache .pytest_cache .coverage
