# eagerflow: `make help` lists what there is. Needs Python >= 3.11, make and git; the rest
# goes into .venv, which is renewed when pyproject.toml changes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
# tests start some hundred processes: without cached byte code each compiles everything it imports
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
GPUS := .venv-gpu
PACKAGES := eagerflow kernels/eagerflow_kernels widgets/eagerflow_widgets
WORKERS ?= 2
# some unit tests wait, and many slow ones, for devices that answer late, processes and browsers
UNIT_WORKERS ?= 3
SLOW_WORKERS ?= 3
comma := ,
ARGS ?=
SEEDS ?=

ifeq ($(NO_COLOR),)
  heading = @printf '\n\033[1;34m== %s\033[0m\n' "$(1)"
else
  heading = @printf '\n== %s\n' "$(1)"
endif

# the front-end: bundled once, and anew when its sources change
BUNDLE := widgets/eagerflow_widgets/static/index.js
PACKED := widgets/node_modules/.package-lock.json
# native kernels for this machine: made once, and anew when their sources change
KERNELS := $(VENV)/.kernels
READY := $(VENV)/.dev $(BUNDLE) $(KERNELS)
NPM := env PATH="$(CURDIR)/$(BIN):$$PATH" npm --prefix widgets

.PHONY: help demo test others test-slow gpu-check lab bench format lint types layers unit doctest nbtest clean \
  widgets frontend browser screenshots

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 12

demo: $(VENV)/.dev $(KERNELS) ## train classifiers of handwritten digits; SEEDS=5 for a table of five seeds
	$(call heading,demo)
	@$(BIN)/eagerflow demo $(if $(SEEDS),--seeds $(SEEDS)) $(ARGS)

test: $(READY) ## everything that CI checks
	@$(MAKE) -j 2 -O lint layers
	@$(MAKE) -j 2 -O UNIT_WORKERS=$(WORKERS) unit others
	$(call heading,all checks passed)

# beside the unit tests: each waits for something now and then, and the others go on
others: types frontend doctest browser nbtest

lint: $(VENV)/.dev ## ruff: rules and format
	$(call heading,ruff)
	@$(BIN)/ruff check --quiet . && $(BIN)/ruff format --check . >/dev/null \
	  || { echo 'not as ruff wants it: try make format'; exit 1; }
	@echo "no finding"

types: $(VENV)/.dev ## mypy, strict
	$(call heading,mypy --strict)
	@$(BIN)/mypy

layers: $(VENV)/.dev ## import-linter: the layers of docs/design.md
	$(call heading,import-linter)
	@$(BIN)/lint-imports --no-logo

unit: $(READY) ## the unit tests; choose some with ARGS="tests/core -k tensor"
	$(call heading,unit tests (some minutes on two cores))
	@$(BIN)/python -m pytest -q -n $(UNIT_WORKERS) --dist worksteal $(or $(ARGS),tests)

doctest: $(READY) ## the examples in docstrings
	$(call heading,doctests)
	@$(BIN)/python -m pytest -q --doctest-modules $(PACKAGES)

nbtest: $(READY) ## run the notebooks and compare their outputs
	$(call heading,notebooks)
	@if compgen -G 'notebooks/*.ipynb' >/dev/null; then \
	  $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -p nbval --nbval --nbval-sanitize-with notebooks/sanitize.cfg notebooks; \
	else echo 'there are none yet'; fi

gpu-check: $(GPUS)/.gpu ## hold the kernels against CuPy itself, which it installs; needs no GPU
	@$(GPUS)/bin/python -m pytest -q tests/kernels/cuda

widgets: $(READY) ## bundle the front-end of the notebook's views

frontend: $(READY) ## the front-end: types, rules and tests of its TypeScript
	$(call heading,front-end)
	@$(NPM) run --silent lint && $(NPM) run --silent test

browser: $(READY) ## the views in a real JupyterLab and a real browser
	$(call heading,browser tests (some minutes))
	@if command -v chromium >/dev/null || command -v chromium-browser >/dev/null; then \
	  $(BIN)/python -m pytest -q -n $(WORKERS) --dist loadfile -m 'browser and not slow' $(or $(ARGS),tests/browser); \
	elif [ -n "$${CI:-}" ]; then echo 'there is no Chromium' >&2; exit 1; \
	else printf '\n!!! SKIPPED: no Chromium here; on Debian: apt-get install chromium !!!\n\n'; fi

screenshots: $(READY) ## pictures of all views for the documentation
	@EAGERFLOW_SCREENSHOTS=docs/images $(BIN)/python -m pytest -q -m browser tests/browser

test-slow: $(READY) ## property tests on new examples, stress, packaging (up to an hour)
	$(call heading,slow tests (up to an hour))
	@HYPOTHESIS_PROFILE=slow $(BIN)/python -m pytest -q -n $(SLOW_WORKERS) --dist worksteal \
	  -m '(slow or hypothesis) and not peer and not gpu' $(or $(ARGS),tests)
	$(call heading,ops with portable kernels)
	@EAGERFLOW_TEST_KERNELS=portable $(BIN)/python -m pytest -q -n $(WORKERS) --dist worksteal \
	  tests/ops tests/core tests/autodiff

lab: $(VENV)/.notebook $(BUNDLE) $(KERNELS) ## JupyterLab on the notebooks; NOTEBOOK=07_watch_it_run for that one
	$(call heading,JupyterLab)
	@$(BIN)/jupyter lab --LabApp.extra_labextensions_path=widgets/labextensions \
	  --notebook-dir=. notebooks/$(or $(NOTEBOOK),00_quickstart).ipynb $(ARGS)

bench: $(BENCH)/.bench ## compare speed and results with torch, jax and tensorflow
	$(call heading,tests against peers)
	@$(BENCH)/bin/python -m pytest -q -m peer tests
	$(call heading,benchmarks)
	@for file in $$(grep -rl --include='*.py' '^if __name__ == "__main__":' tests/bench | sort); do \
	  module=$${file%.py}; echo; $(BENCH)/bin/python -m $${module//\//.} $(ARGS); done

format: $(VENV)/.dev ## format the code and fix what ruff can fix
	$(call heading,ruff)
	@$(BIN)/ruff check --fix . ; $(BIN)/ruff format .

clean: ## remove environments, caches and builds
	rm -rf widgets/node_modules widgets/eagerflow_widgets/static widgets/labextensions
	rm -rf $(VENV) $(BENCH) $(GPUS) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis \
	  .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- environments: a stamp per set of extras -----------------------------------------------

SETUP := pyproject.toml tools/venv.sh tools/python.sh tools/hatch_build.py

$(VENV)/.dev: $(SETUP)
	$(call heading,environment)
	@tools/venv.sh $(VENV) $(EXTRAS)
	@touch $@

$(VENV)/.notebook: $(VENV)/.dev $(SETUP)
	$(call heading,environment)
	@tools/venv.sh $(VENV) dev,notebook
	@touch $@

$(BENCH)/.bench: $(SETUP)
	$(call heading,environment)
	@tools/venv.sh $(BENCH) bench,dev
	@touch $@

$(GPUS)/.gpu: $(SETUP)
	$(call heading,environment)
	@tools/venv.sh $(GPUS) gpu,dev
	@touch $@

# CuPy where there is a GPU
EXTRAS := dev$(if $(shell command -v nvidia-smi 2>/dev/null),$(comma)gpu)

# --- native kernels: processes find them in the cache on disk of this user --------------------

$(KERNELS): $(shell find kernels/eagerflow_kernels/native -name '*.py') $(VENV)/.dev
	$(call heading,native kernels)
	@PYTHONPATH=kernels $(BIN)/python -m eagerflow_kernels.native.llvm.build
	@touch $@

# --- the front-end -------------------------------------------------------------------------

$(PACKED): widgets/package.json widgets/package-lock.json | $(VENV)/.dev
	$(call heading,packages of the front-end)
	@$(NPM) ci --no-audit --no-fund --loglevel=error
	@touch $@

$(BUNDLE): $(shell find widgets/src -type f) eagerflow/pictures/device_palette.json widgets/build.mjs $(PACKED)
	$(call heading,front-end)
	@$(NPM) run --silent build
