# The developer's whole interface; `make demo` and `make test` need Python 3.11 or newer and nothing else.

PYTHON ?= python3
BIN := .venv/bin
PEERS := .venv-peers/installed
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
# One BLAS thread for each of the processes: more would get in each other's way. Tests of Spark share one process.
PYTEST := OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --dist loadgroup

.PHONY: demo web test coverage check browser engines bench bench-gpu docs clean

demo: .venv/installed-demo
	$(BIN)/tacit demo

# The same in the browser: a service that 1,000 simulated devices have spoken to, and a page for one more person.
web: .venv/installed-demo
	$(BIN)/tacit demo --web

test: check browser
	$(PYTEST)

# Which lines no test runs. Counting them takes longer.
coverage: .venv/installed-test
	$(PYTEST) --cov --cov-report term

# Spark and PyTorch, so that `make test` tests both engines too. Without them it says what it leaves out.
engines: .venv/installed-engines

check: .venv/installed-test
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

# The browser's library and pages: types, tests, and that the built pages are those of the source.
browser:
	@if command -v npm >/dev/null; then \
		cd browser && npm ci --silent && npm run --silent check && npm run --silent test && \
		rm -rf built && cp -R ../src/tacit/provider/pages built && npm run --silent build && \
		diff -r built ../src/tacit/provider/pages && rm -rf built; \
	elif [ -n "$$TACIT_NO_SKIPS" ]; then echo "npm is not installed"; exit 1; \
	else echo "skipped: the browser's tests need npm and Node 20 or newer"; fi

bench: .venv/installed-bench $(PEERS)
	$(BIN)/python benchmarks/perturb.py
	$(BIN)/python benchmarks/world.py
	$(BIN)/python benchmarks/matrix.py
	$(BIN)/python benchmarks/baseline.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/spark.py
	$(BIN)/python benchmarks/recommend.py
	$(BIN)/python benchmarks/channel.py
	$(BIN)/python benchmarks/accuracy.py
	$(BIN)/python benchmarks/attack.py
	$(BIN)/python benchmarks/noise_treatments.py
	$(BIN)/python benchmarks/unknown_channel.py
	$(BIN)/python benchmarks/collect.py
	$(BIN)/python benchmarks/sizing.py
	$(BIN)/python benchmarks/poisoning.py
	$(BIN)/python benchmarks/scaling_page.py

# On a machine with a GPU. With --billion it needs about 60 GB of the GPU's memory to draw the ratings, by count, and 30 GB of the
# machine's; training on them then takes 13 GiB.
bench-gpu: .venv/installed-engines
	$(BIN)/python benchmarks/gpu/em.py --billion

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
.venv/installed-engines: EXTRAS = demo,test,engines
.venv/installed-bench: EXTRAS = demo,bench
.venv/installed-docs: EXTRAS = demo,docs
.venv/installed-%: pyproject.toml constraints.txt | .venv/bin/python
	$(INSTALL) ".[$(EXTRAS)]"
	@touch $@

clean:
	rm -rf .venv .venv-peers build dist docs/_build tacit-demo browser/node_modules browser/dist browser/built .mypy_cache .ruff_cache .pytest_cache .coverage
