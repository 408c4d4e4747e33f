# Each target makes its own virtual environment and installs pinned dependencies into it.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
FAST := tests/graph tests/models tests/rules tests/recipes tests/scripts tests/test_imports.py tests/test_package.py \
  $(addprefix --ignore=tests/graph/,test_mutated.py test_streams.py test_world.py test_statistics.py)
SOURCES := $(shell find src native -type f -not -name '*.so' -not -path '*/__pycache__/*') CMakeLists.txt pyproject.toml constraints.txt

# Each worker begins with a half of the tests, so that what the tests of a file share is mostly made once, and takes over some of
# the other's when it is done.
PYTEST = $(BIN)/python -m pytest -n 2 --dist worksteal

INTERPRETED := tests/kernels/test_distances.py tests/kernels/test_ranking.py tests/kernels/test_training_step.py \
	tests/kernels/test_gpu.py

# What the extra `gpu` needs. Installed by itself: with the package it would be built anew, and no longer be editable.
GPU := triton

.PHONY: demo dev test test-fast test-gpu coverage check docs wheel bench bench-quick bench-gpu growth thinning faults fuzz sanitize soak lock locked-environment clean

demo: $(VENV)/.installed  ## train on the embedded graph and answer some questions, in under two minutes
	rm -rf runs/demo
	$(BIN)/transher train world --out runs/demo
	@echo
	@echo "The graph is nearly complete, so these questions ask for facts that were held out of training for the test: the country"
	@echo "of Lima, the language of Venezuela, the currency of Slovakia. (known: the graph has the answer, in training or held out.)"
	@echo
	$(BIN)/transher predict runs/demo --head Lima --relation located_in --top 3
	$(BIN)/transher predict runs/demo --head Venezuela --relation speaks --top 3
	$(BIN)/transher predict runs/demo --head Slovakia --relation uses_currency --top 3
	@echo "The graph has all neighbours of Germany, so any other one is improbable:"
	@echo
	$(BIN)/transher predict runs/demo --head Germany --relation borders --top 4 --known hide
	@echo "Most of Switzerland's neighbours use the euro. How probable is it that Switzerland does, and why?"
	@echo
	$(BIN)/transher explain runs/demo --head Switzerland --relation uses_currency --tail 'Euro (EUR)' --limit 3

test: check  ## style, types and the test suite
	$(PYTEST)
	TRANSHER_NATIVE=0 $(PYTEST) tests/kernels tests/models tests/training tests/evaluation  # without the native module

test-fast: $(VENV)/.developing  ## the quick tests: under a minute on two idle cores
	$(PYTEST) $(FAST)

coverage: $(VENV)/.developing  ## all tests, and how much of the code they run; fails below the floor in pyproject.toml
	rm -f .coverage .coverage.*
	$(PYTEST) --cov --cov-report=term --cov-report=html:build/coverage

test-gpu: $(VENV)/.developing  ## the GPU kernels without a GPU: in Triton's interpreter, and compiled for five targets; 1 GB more
	$(BIN)/pip install --quiet --constraint constraints.txt $(GPU)
	TRITON_INTERPRET=1 TRANSHER_NATIVE=0 $(PYTEST) $(INTERPRETED)
	$(PYTEST) tests/kernels/test_gpu_code.py tests/kernels/test_gpu_launches.py

check: $(VENV)/.developing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

dev: pyproject.toml constraints.txt  ## an editable install for contributors: C++ is rebuilt when it has changed
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt scikit-build-core nanobind ninja cmake
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation \
	  --config-settings=editable.rebuild=true --config-settings=editable.verbose=false \
	  --config-settings=build-dir=build/editable --editable '.[dev]'
	git rev-parse --git-dir >/dev/null 2>&1 && $(BIN)/pre-commit install --hook-type pre-commit --hook-type pre-push || true
	touch $(VENV)/.editable $(VENV)/.developing $(VENV)/.installed

wheel: $(VENV)/.developing  ## wheel and sdist in dist/; the wheel keeps to the stable ABI from Python 3.12 on
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	for wheel in dist/*-linux_*.whl; do [ ! -e "$$wheel" ] || $(BIN)/auditwheel show "$$wheel"; done
	for wheel in dist/*-abi3-*.whl; do [ ! -e "$$wheel" ] || $(BIN)/abi3audit --strict "$$wheel"; done

docs: $(VENV)/.developing  ## build the documentation site into site/
	$(BIN)/python -m scripts.make_reference
	$(BIN)/python -m scripts.make_notebooks
	$(BIN)/zensical build --strict --clean

bench: $(VENV)/.measuring  ## measure against others and the machine, write results/ and docs/; up to twenty minutes
	$(BIN)/python -m benchmarks $(BENCH)

bench-quick: $(VENV)/.measuring  ## the same at smaller shapes in up to three minutes; writes only to build/
	$(BIN)/python -m benchmarks --quick $(BENCH)

bench-gpu: $(VENV)/.measuring  ## step, kernels, ranking and best answers on this machine's GPU, against the same others; results/gpu-*.json
	$(BIN)/python -c 'import triton' 2>/dev/null || $(BIN)/pip install --quiet --constraint constraints.txt $(GPU)
	$(BIN)/python -m benchmarks.gpu $(BENCH)

growth: $(VENV)/.measuring  ## the whole way on a graph of 2.5 million entities; needs 10 GB of memory
	$(BIN)/python -m benchmarks.growth $(GROWTH)

thinning: $(VENV)/.measuring  ## quality and time with fewer gradients
	$(BIN)/python -m benchmarks.thinning

faults: $(VENV)/.developing  ## a kill, half a write, a full and a broken disk at every file operation; results/faults.json
	$(BIN)/python -m tests.faults $(FAULTS)

fuzz: $(VENV)/.developing  ## 20,000 damaged files; results/fuzz.json
	$(BIN)/python -m tests.fuzz $(FUZZ)

sanitize: $(VENV)/.developing  ## kernels and training under AddressSanitizer, UBSan and ThreadSanitizer; results/sanitize.json
	$(BIN)/python -m tests.sanitize $(SANITIZE)

soak: $(VENV)/.developing  ## a server under load for ten minutes; results/soak.json, docs/serving.md; SOAK='--seconds 180' for less
	$(BIN)/python -m tests.soak $(SOAK)

lock:  ## write the lock files anew from constraints.txt
	$(BIN)/python scripts/make_lock.py

# With hashes, pip prefers an index's files to those of PIP_FIND_LINKS, so a build of torch for CPUs has to be asked for by its name.
CPU_TORCH = $(BIN)/pip install --quiet --no-deps --require-hashes --requirement requirements-cpu.lock >/dev/null 2>&1 || true

# The lock's files first, each with its hash; then this package, and what torch's build for GPUs needs besides.
$(VENV)/.installed: $(SOURCES) requirements.lock requirements-cpu.lock
	$(PYTHON) -m venv $(VENV)
	$(CPU_TORCH)
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement requirements.lock
	$(BIN)/pip install --quiet --no-build-isolation --constraint constraints.txt .
	touch $@

# After `make dev` the environment follows the sources by itself: nothing is installed again until the lock is newer.
$(VENV)/.developing: $(SOURCES) requirements-dev.lock requirements-cpu.lock
	[ $(VENV)/.editable -nt requirements-dev.lock ] || $(MAKE) --no-print-directory locked-environment
	touch $@ $(VENV)/.installed

locked-environment:
	$(PYTHON) -m venv $(VENV)
	$(CPU_TORCH)
	$(BIN)/pip install --quiet --no-deps --require-hashes --requirement requirements-dev.lock
	if [ -e $(VENV)/.editable ]; then touch $(VENV)/.editable; \
	  else $(BIN)/pip install --quiet --no-build-isolation --constraint constraints.txt '.[dev]'; fi

$(VENV)/.measuring: $(SOURCES)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt '.[bench]'
	touch $@ $(VENV)/.installed

clean:
	rm -rf $(VENV) build dist runs/demo
