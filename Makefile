# Two commands matter to a new user: `make run` and `make test`. Everything else is what they are made of.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test setup lint types walls lock soak bench clean

run: setup
	@$(BIN)/pyroclast run examples/gang.yaml

test: setup
	@$(BIN)/python -m pytest -n 2 -q tests

setup: $(STAMP)

$(STAMP): requirements.lock requirements-dev.lock pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet "uv==$$(sed -n 's/^uv==//p' requirements-dev.lock | cut -d' ' -f1)"
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock -r requirements-dev.lock
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

lint: setup
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: setup
	@$(BIN)/mypy

walls: setup
	@$(BIN)/lint-imports

lock:
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url pyproject.toml -o requirements.lock
	@$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate --no-header --no-emit-index-url --group dev -c requirements.lock -o requirements-dev.lock
