# One command on a fresh machine: make run

# Of two of one version the system's own: distributions compile it with profiles, which makes Lily a
# tenth quicker, and version managers mostly do not. `make PYTHON=…` says which.
ifndef PYTHON
PYTHON := $(shell v=$$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null); \
  own=/usr/bin/python$$v; "$$own" -c 'import venv, ensurepip' 2>/dev/null && echo "$$own" || echo python3)
endif
VENV   := .venv
BIN    := $(VENV)/bin
LILY   := $(BIN)/lily
PIP    := $(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help run demo setup test test-scale check lint docs schema lock jars kafka clean tools

help: ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | \
	  while IFS="$$(printf '\t')" read -r name text; do printf '  make %-10s %s\n' "$$name" "$$text"; done

run: $(VENV)/.run ## Install what is needed, then start Lily (Ctrl-C stops it)
	@exec $(LILY) up

demo: $(VENV)/.run ## Show a tag biting in a warehouse and an incident's way; all is thrown away after
	@exec $(LILY) demo

setup: $(VENV)/.dev ## Install what developers need

test: $(VENV)/.dev ## Run the whole test suite, two files at a time
	$(BIN)/pytest -n 2 --dist loadfile

test-scale: $(VENV)/.dev ## Tests on real servers that are fetched once (LILY_ALLOW_SKIP=1 skips what cannot be had)
	jars/fetch $(if $(LILY_ALLOW_SKIP),|| true)
	$(BIN)/pytest -n 2 --dist loadfile -o python_files='scale_*.py' $(if $(LILY_ALLOW_SKIP),--allow-skip) tests/scale
	LILY_TEST_LOG=kafka LILY_TEST_SPARK=cluster $(BIN)/pytest --timeout 900 tests/flow

check: $(VENV)/.dev lint ## Style, types, layers and the quick tests
	$(BIN)/pytest -q tests/shape tests/unit

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.dev ## Write the generated pages of docs/reference again
	$(BIN)/python -m lily.cli.reference

schema: $(VENV)/.dev ## Write lily/store/schema.sql again, from the migrations
	$(BIN)/python -m lily.store.schema

lock: ## Resolve the dependencies again into the two lock files (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv: pip install uv" >&2; exit 1; }
	uv pip compile pyproject.toml --universal --generate-hashes --no-header --no-annotate \
	  --extra dev --extra build --extra kafka -o requirements-dev.lock
	uv pip compile pyproject.toml --universal --generate-hashes --no-header --no-annotate \
	  --extra build --extra kafka -c requirements-dev.lock -o requirements.lock

jars: ## Fetch the jars with which Spark reads Kafka and the lake (needs Maven)
	@jars/fetch

kafka: $(VENV)/.run ## Start a Kafka for development on port 9092 (Ctrl-C stops it; needs Maven once)
	@exec $(BIN)/python -m lily.cli.broker

clean: ## Remove the virtual environment and caches; data in .lily stays
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .import_linter_cache spark-warehouse

tools:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "Lily needs Python 3.11 or newer; there is no $(PYTHON). Install it, or say which: make PYTHON=…" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Lily needs Python 3.11 or newer, but $(PYTHON) is $$($(PYTHON) -V 2>&1). Install it, or say which: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "Python lacks its venv module; install it (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; command -v "$$java" >/dev/null || \
	  { echo "Lily needs Java 17 or newer for Spark; there is none. Install one (a headless JRE is enough), or set JAVA_HOME." >&2; exit 1; }
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; major=$$("$$java" -version 2>&1 | sed -nE 's/.*version "(1\.)?([0-9]+).*/\2/p' | head -n 1); \
	  [ "$${major:-0}" -ge 17 ] || { echo "Lily needs Java 17 or newer for Spark, but $$java is $${major:-unknown}. Install a newer one, or set JAVA_HOME." >&2; exit 1; }

$(BIN)/python: | tools
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements.lock pyproject.toml | tools $(BIN)/python
	@echo "Installing; the first time takes a few minutes."
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.lock pyproject.toml | tools $(BIN)/python
	$(PIP) --require-hashes -r requirements-dev.lock
	$(PIP) --no-deps --no-build-isolation -e .
	@touch $@ $(VENV)/.run
