# Each target makes its own virtual environment and installs pinned dependencies into it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src native -type f -not -name '*.so' -not -path '*/__pycache__/*') CMakeLists.txt pyproject.toml constraints.txt

.PHONY: demo test check bench bench-quick growth thinning clean

demo: $(VENV)/.installed  ## train on the embedded graph and answer some questions, in under two minutes
	rm -rf runs/demo
	$(BIN)/transher train world --out runs/demo
	@echo
	@echo "This graph of the world is nearly complete. What training lacked is what was held out of it, for the test."
	@echo "Three held-out facts are found again: training never saw where Lima lies, what Venezuela speaks, how Slovakia pays."
	@echo "(known: the graph has the answer.)"
	@echo
	$(BIN)/transher predict runs/demo --head Lima --relation located_in --top 3
	$(BIN)/transher predict runs/demo --head Venezuela --relation speaks --top 3
	$(BIN)/transher predict runs/demo --head Slovakia --relation uses_currency --top 3
	@echo "Nothing is missing here: all neighbours of Germany are known, so every further one is improbable."
	@echo
	$(BIN)/transher predict runs/demo --head Germany --relation borders --top 4 --known hide
	@echo "Why: Switzerland does not use the euro, although its neighbours do."
	@echo
	$(BIN)/transher explain runs/demo --head Switzerland --relation uses_currency --tail 'Euro (EUR)' --limit 3

test: check  ## style, types and the test suite
	$(BIN)/python -m pytest -n 2
	TRANSHER_NATIVE=0 $(BIN)/python -m pytest -n 2 tests/kernels tests/models tests/training tests/evaluation  # without the native module

check: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.measuring  ## measure against others and the machine, write results/ and docs/; up to twenty minutes
	$(BIN)/python -m benchmarks $(BENCH)

bench-quick: $(VENV)/.measuring  ## the same at smaller shapes in up to three minutes; writes only to build/
	$(BIN)/python -m benchmarks --quick $(BENCH)

growth: $(VENV)/.measuring  ## the whole way on a graph of 2.5 million entities; needs 10 GB of memory
	$(BIN)/python -m benchmarks.growth $(GROWTH)

thinning: $(VENV)/.measuring  ## quality and time with fewer gradients
	$(BIN)/python -m benchmarks.thinning

$(VENV)/.installed: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt .
	touch $@

$(VENV)/.developing: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt '.[dev]'
	touch $@ $(VENV)/.installed

$(VENV)/.measuring: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt '.[bench]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist runs/demo
