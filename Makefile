# The jobs of this repository. Each target sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MPLBACKEND := Agg

.PHONY: verify test bench figures lint clean
.DELETE_ON_ERROR:

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,dp]'
	touch $@

verify: $(VENV)/.installed  ## verify every claim at every level; the ledger is build/ledger.json
	$(BIN)/borrow verify

test: $(VENV)/.installed  ## run the tests
	$(BIN)/python -m pytest -n auto --benchmark-disable

bench: $(VENV)/.installed  ## measure the kernels against their bare cost and against NumPy
	$(BIN)/python -m pytest tests/bench --benchmark-only --benchmark-group-by=group -o python_files='bench_*.py' -p no:xdist -s

figures: $(VENV)/.installed  ## draw every theory figure into build/figures
	$(BIN)/borrow figures

lint: $(VENV)/.installed  ## ruff and pyright
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[lint]'
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/pyright

clean:
	rm -rf $(VENV) build
