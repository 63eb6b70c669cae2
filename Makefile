# Each target sets up what it needs. PYTHON is the interpreter to build the virtual environment with (3.11 or later).
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo test test-wheel check bench docs lock clean

demo: $(VENV)/installed          ## run the gateway with an embedded database, sign-in and example plugin
	$(BIN)/rowgate demo

test: $(VENV)/installed          ## run every test
	$(BIN)/pytest

test-wheel: $(VENV)/installed    ## run the suite's core against the built wheel instead of the checkout
	rm -rf .cache/wheel && ROWGATE_PYTHON=$$($(BIN)/python tests/wheel.py .cache/wheel) $(BIN)/pytest tests/process tests/rls

check: $(VENV)/installed         ## lint, types, formatting
	$(BIN)/ruff check && $(BIN)/ruff format --check && $(BIN)/mypy

bench: $(VENV)/installed         ## measure beside nginx, an ordinary proxy and FastMCP (docs/explanation/performance.md)
	$(BIN)/python bench/run.py

docs: $(VENV)/installed          ## write the generated reference pages anew
	$(BIN)/python docs/generate.py

lock:                            ## resolve the dependencies anew; review the difference like code
	echo 'hatchling>=1.27,<2' | uv pip compile -q --universal --generate-hashes --no-header --no-annotate --python-version 3.11 - -o requirements/build.txt
	uv pip compile -q --universal --generate-hashes --no-header pyproject.toml --extra redis --extra postgres -o requirements/runtime.txt
	uv pip compile -q --universal --generate-hashes --no-header pyproject.toml --all-extras --group dev -o requirements/dev.txt

clean:
	rm -rf $(VENV) dist build .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(VENV)/installed: requirements/dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@
