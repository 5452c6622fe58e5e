# Every command of the project. `make` alone lists them.
#
# Options: PYTHON=python3.12        the Python (3.11 or newer) that makes the environment
#          VENV=.venv               where the environment lies
#          TORCH_INDEX=<address>    one more package index, say one with CPU builds of torch
#          PLAYGROUND_CACHE=<dir>   where models are kept

PYTHON ?= python3
VENV ?= .venv
TORCH_INDEX ?=
export PYTHON VENV TORCH_INDEX

PY := $(VENV)/bin/python

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev model run browser lint format test quick bench deploy

help: ## list the commands
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | column -t -s@ 2>/dev/null \
		|| sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1: \2/p' $(MAKEFILE_LIST)

setup:
	@scripts/setup.sh requirements.txt

setup-dev:
	@scripts/setup.sh requirements-dev.txt

model: setup ## bring the default model into the cache
	@$(PY) -m playground.models

run: model ## start the app on http://127.0.0.1:7860 (or the next free port)
	@$(PY) app.py

browser: setup-dev ## find or install a Chromium for the browser tests
	@scripts/browser.sh

lint: setup-dev ## check style and formatting
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .

format: setup-dev ## format the code and mend what the linter can
	@$(PY) -m ruff check --fix .
	@$(PY) -m ruff format .

test: lint ## all checks and all tests (installs what they need)
	@$(PY) -m playground.models
	@scripts/test.sh

quick: lint ## checks and the quick tests: no browser, nothing slow
	@$(PY) -m playground.models
	@OMP_NUM_THREADS=1 $(PY) -m pytest -q -n 2 --dist loadfile -m "not slow and not browser"

bench: model setup-dev ## run every benchmark
	@for file in benchmarks/[a-z]*.py; do echo "== $$file"; $(PY) -m $$(echo $${file%.py} | tr / .) || exit 1; done

deploy: setup ## upload the committed files to a Hugging Face Space: make deploy SPACE=owner/name
	@scripts/deploy.sh $(SPACE)
