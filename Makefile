# make demo   see the library at work: a curve with a gap in its data (kuq-demo.png), and networks'
#             predictions for 442 patients with what came true (kuq-demo.html; under a minute)
# make study  every experiment of the paper at the smallest size, which measures nothing and shows that
#             all runs: runs/smoke/report/report.html (about two minutes)
# make check  for every day: lint, format, types, tests without extras, about every tenth of the
#             others (about three minutes)
# make test   every check: lint, format, types, tests without extras, with each library, with all
#             (about a quarter of an hour on two cores)
# make nightly  properties with many random examples, other ones in every run
# make elsewhere  the suite in other orders, with other numbers of workers, as on other processors,
#             with other Pythons, homes and languages; table in build/elsewhere.md (hours;
#             make elsewhere ONLY=nehalem,zen: these runs)
# make trust  the long trials of tests/trust in full (files that are damaged, hostile or interrupted;
#             under fifteen minutes); a tenth of each is part of make test
# make bench  speed, accuracy and memory against peers; writes docs/benchmarks.md and its results
#             (about twenty minutes; make bench QUICK=1: two, prints only)
# make dist   sdists and wheels of kuq and kuq-study in dist, their metadata checked, and the wheel of
#             kuq alone tried with the core tests under Python 3.11, 3.12 and 3.13, as many of them
#             as are here (minutes)
# make docs   the documentation site, in build/docs: open build/docs/index.html, no server needed
# make clean  remove what these have made, apart from results of benchmarks
#
# Each target makes its own virtual environment. A stamp file in it records the last
# installation, which is repeated only when a pyproject.toml or constraints.txt has changed.

PYTHON ?= python3
VENV := .venv
CORE := .venv-core
DIST := .venv-dist
INSTALL := -m pip install --disable-pip-version-check -q -c constraints.txt
INPUTS := pyproject.toml study/pyproject.toml constraints.txt

# One thread per process: two test workers share the cores without fighting.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

# A worker that has nothing left to do takes tests from another one.
PYTEST := -m pytest -q
BOTH := -n 2 --dist worksteal

ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif
.PHONY: demo study check test lint types test-core test-alone test-all nightly elsewhere trust bench dist docs clean

demo: $(VENV)/.demo
	@$(VENV)/bin/kuq demo

study: $(VENV)/.study
	@echo "the paper's experiments at the smallest size, on embedded and simulated data:"
	@$(VENV)/bin/kuq-study run study/experiments/*.toml --preset smoke
	@$(VENV)/bin/kuq-study report runs/smoke

# What keeps one core busy runs beside other checks; the environment of most is there by then.
test: lint
	@$(MAKE) --no-print-directory -j 2 SIDE_BY_SIDE=1 types test-core test-alone
	@$(MAKE) --no-print-directory test-all

check: lint
	@$(MAKE) --no-print-directory -j 2 SIDE_BY_SIDE=1 types test-core
	@KUQ_ONE_IN=10 KUQ_TRIALS=0.01 $(ONE_THREAD) $(VENV)/bin/python $(PYTEST) $(BOTH)

lint: $(VENV)/.test
	@$(VENV)/bin/python -m ruff check .
	@$(VENV)/bin/python -m ruff format --check .

types: $(VENV)/.test
	@$(VENV)/bin/python -m mypy

test-core: $(CORE)/.core
	@$(ONE_THREAD) $(CORE)/bin/python $(PYTEST) tests/core_only

# Each array library without the other, for some of what test-all does with both.
ALONE := KUQ_ONE_IN=5 $(ONE_THREAD) $(VENV)/bin/python $(PYTEST)
test-alone: $(VENV)/.test
	@KUQ_WITHOUT=jax $(ALONE) tests/test_arrays.py -k torch
	@KUQ_WITHOUT=torch $(ALONE) tests/test_jit.py -k "not torch"

test-all: $(VENV)/.test
	@$(ONE_THREAD) $(VENV)/bin/python $(PYTEST) $(BOTH)

nightly: $(VENV)/.test
	@KUQ_EXAMPLES=nightly $(ONE_THREAD) $(VENV)/bin/python $(PYTEST) $(BOTH) -m hypothesis

elsewhere: $(VENV)/.test
	@$(VENV)/bin/python tests/elsewhere.py $(if $(ONLY),--only $(ONLY))

trust: $(VENV)/.test
	@KUQ_TRIALS=1 $(ONE_THREAD) $(VENV)/bin/python $(PYTEST) $(BOTH) tests/trust study/tests/trust

bench: $(VENV)/.test
	@$(ONE_THREAD) $(VENV)/bin/python -m benchmarks $(if $(QUICK),--quick)

dist: $(DIST)/.dist
	@$(ONE_THREAD) $(DIST)/bin/python tests/release.py $(if $(ONLY),--only $(ONLY))

docs: $(VENV)/.docs
	@$(ONE_THREAD) $(VENV)/bin/python -m sphinx -W --keep-going -q -b html -d build/doctrees docs build/docs
	@echo "open build/docs/index.html"

# torch goes first, at the exact version: an open range may pull a build with CUDA.
$(VENV)/.demo: $(VENV)/.created $(INPUTS)
	@echo "installing kuq[plot,torch] into $(VENV)"
	@$(VENV)/bin/python $(INSTALL) torch==2.13.0
	@$(VENV)/bin/python $(INSTALL) -e ".[plot,torch]"
	@touch $@

$(VENV)/.study: $(VENV)/.created $(INPUTS)
	@echo "installing kuq and kuq-study into $(VENV)"
	@$(VENV)/bin/python $(INSTALL) torch==2.13.0
	@$(VENV)/bin/python $(INSTALL) -e . -e ./study
	@touch $(VENV)/.demo $@

$(VENV)/.test: $(VENV)/.created $(INPUTS)
	@echo "installing kuq[all,test] and kuq-study into $(VENV)"
	@$(VENV)/bin/python $(INSTALL) torch==2.13.0
	@$(VENV)/bin/python $(INSTALL) -e ".[all,test]" -e ./study
	@touch $(VENV)/.demo $(VENV)/.study $(VENV)/.docs $@

# The reference is made from docstrings, so every part has to be importable.
$(VENV)/.docs: $(VENV)/.created $(INPUTS)
	@echo "installing kuq[all,docs] and kuq-study into $(VENV)"
	@$(VENV)/bin/python $(INSTALL) torch==2.13.0
	@$(VENV)/bin/python $(INSTALL) -e ".[all,docs]" -e ./study
	@touch $(VENV)/.demo $(VENV)/.study $@

$(CORE)/.core: $(CORE)/.created $(INPUTS)
	@echo "installing kuq without extras into $(CORE)"
	@$(CORE)/bin/python $(INSTALL) -e . pytest hypothesis
	@touch $@

$(DIST)/.dist: $(DIST)/.created $(INPUTS)
	@echo "installing build and twine into $(DIST)"
	@$(DIST)/bin/python $(INSTALL) build twine
	@touch $@

%/.created:
	@echo "creating $*"
	@$(PYTHON) -m venv $*
	@touch $@

clean:
	rm -rf $(VENV) $(CORE) $(DIST) .venv-3.* kuq-demo.png kuq-demo.html runs/smoke build dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks docs study -name __pycache__ -type d -prune -exec rm -rf {} +
