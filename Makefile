# `make` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
DOCS := $(VENV)/docs-installed
LINT := $(VENV)/lint-installed
NATIVE := $(shell find loader pool -name '*.cpp' -o -name '*.h' -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt)
FAKEGPU := build/fakegpu/libfakegpu.so
NATIVE_TESTS := $(shell find tests/native tests/fuzz tests/gpu/fake/native tests/gpu/stub_driver -name '*.cpp' -o -name '*.h')
NATIVE_BUILD := build/native-tests
SELECTED := $(shell sed -nE "s/^addopts.*-m '([^']*)'.*/\1/p" pyproject.toml)
KERNELS := $(wildcard pool/kernels/rules.cuh pool/kernels/cuda/src/* pool/tasks/*/cuda/*.cu*) tests/pool/kernels/cuda/shim.h $(wildcard benchmarks/gpu/*.cu tests/gpu/stub_driver/*.cu)
CUDA_TOOLS ?= build/cuda-tools
BENCHMARKS := sparse_layer nnue_step training loader pool_cost memory recovery clicks ensemble

.PHONY: help install demo test test-simulation test-runs test-docs test-machines test-fakegpu fakegpu cuda-tools test-machine-code test-engines test-libraries test-native test-crashes test-chaos check format docs reference pictures bench learning fuzz chaos chaos-mutants \
        hostile test-hostile soak structure read gpu-check gpu-bench gpu-dry wheel-check bare-check image-check fakegpu-sound digests clean

help:  ## this list
	@sed -nE 's/^([a-z][a-z-]*):[^#]*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | expand --tabs=20

# pip shows its progress on a terminal; elsewhere these lines say what takes long.
PIP = $(BIN)/python -m pip install $$([ -t 2 ] || echo --quiet) --disable-pip-version-check --constraint constraints.txt
# The compiler's progress, on a terminal; all that was said is in install.log.
COMPILED = tee $(VENV)/install.log | awk -v tty=$$([ -t 2 ] && echo 1) \
    'tty && match($$0, /^ *\[[0-9]+\/[0-9]+\] /) {printf "\rcompiled %s", $$1; fflush(); shown = 1} END {if (shown) print ""}'

$(STAMP): pyproject.toml constraints.txt CMakeLists.txt $(NATIVE)
	@$(PYTHON) -c 'import sys; sys.exit("$(PYTHON) is older than 3.11: make PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@command -v $(CXX) >/dev/null || { echo "no C++ compiler $(CXX): Debian's package is g++"; exit 1; }
	@test -e "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" || \
	    { echo "no headers of $(PYTHON) to compile with: Debian's package is python3-dev"; exit 1; }
	@echo "install 1/4: a Python environment in $(VENV), 1.2 GB with the CPU build of torch"
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
	@echo "install 2/4: torch, 190 MB to download as a CPU build, gigabytes as a CUDA build (docs/how-to/install.md says how to choose)"
	@$(PIP) torch
	@echo "install 3/4: the native code is compiled, 2 minutes on two cores"
	@set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --verbose --no-deps --editable . \
	    --config-settings cmake.define.SPARSEPOOL_WERROR=$(if $(CI),ON,OFF) 2>&1 | $(COMPILED) || \
	    { tail --lines=60 $(VENV)/install.log; exit 1; }
	@echo "install 4/4: the other packages, 100 MB to download"
	@$(PIP) 'sparsepool[dev]'
	@touch $@
	@echo "installed; to have the commands pool and loader in this shell: . $(BIN)/activate"

install: $(STAMP)  ## .venv with all that the project needs, native code compiled: minutes, 290 MB to download

demo: $(STAMP)  ## installs, then `pool demo`: trains the bundled sample (45 s), exports and evaluates the network
	rm -rf runs/demo
	$(BIN)/pool demo

wheel-check: $(STAMP)  ## the wheel, built and used from an empty folder: 2 minutes
	$(BIN)/python -m pytest -m wheel tests/project/test_wheel.py

bare-check: $(STAMP)  ## `make demo` on a Debian with nothing but Python, g++ and make, as root (debootstrap): 8 minutes
	$(BIN)/python -m pytest -m bare tests/project/test_bare.py

image-check:  ## the steps of deploy/Dockerfile without docker, as root: 2 minutes
	unshare --mount $(PYTHON) -m tests.project.image

test: $(STAMP) $(FAKEGPU)  ## all tests but those below: 7 minutes on two cores
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "$(SELECTED) and not runs"

test-simulation: $(STAMP)  ## 5,600 whole runs without processes, from seeds, in which everything fails: 2 minutes
	$(BIN)/python -m tests.pool.simulation --seeds 5000
	$(BIN)/python -m tests.pool.simulation --first 1000000 --seeds 600

# Whole runs with real processes, by what they show.
RUNS = $(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m "$(SELECTED) and runs"
RUNS_OF_DOCS := tests/project tests/benchmarks tests/runs/test_tutorial_numbers.py
RUNS_OF_MACHINES := tests/runs/test_machines.py

test-runs: $(STAMP) $(FAKEGPU)  ## whole runs with real processes, without those of the next three targets: 9 minutes on two cores
	$(RUNS) $(RUNS_OF_DOCS:%=--ignore=%) $(RUNS_OF_MACHINES:%=--ignore=%) --ignore=tests/gpu

test-docs: $(STAMP) $(FAKEGPU)  ## the commands of the documentation, as printed: 3 minutes
	$(RUNS) $(RUNS_OF_DOCS)

test-machines: $(STAMP) $(FAKEGPU)  ## runs on several machines: 4 minutes
	$(RUNS) $(RUNS_OF_MACHINES)

test-fakegpu: $(STAMP) $(FAKEGPU)  ## runs on the GPU of the tests, and its seeded races: 4 minutes
	$(RUNS) tests/gpu

$(FAKEGPU): $(STAMP) $(wildcard tests/gpu/fake/native/*)
	cmake -S tests/gpu/fake/native -B $(@D) -DTORCH=$$($(BIN)/python -c 'import torch; print(*torch.__path__)')
	cmake --build $(@D) --parallel 2

fakegpu: $(FAKEGPU)  ## the GPU of the tests: a torch device made of threads

cuda-tools: $(CUDA_TOOLS)/installed  ## NVIDIA's compiler, disassembler and bindings as packages, for tests of the kernels' machine code and of what the driver is asked: 72 MB

$(CUDA_TOOLS)/installed: tests/pool/kernels/cuda/tools.txt | $(STAMP)
	@$(PIP) --upgrade --no-deps --target $(CUDA_TOOLS) --requirement $<
	@touch $@

test-machine-code: $(CUDA_TOOLS)/installed  ## the kernels' machine code for every kind of GPU
	CUDA_TOOLS=$(CUDA_TOOLS) $(BIN)/python -m pytest --numprocesses 2 -m machine_code tests/pool/kernels/cuda

# C++ unit tests, and the CUDA kernels as C++, under AddressSanitizer and UndefinedBehaviorSanitizer; needs doctest
# (Debian's doctest-dev).
test-native: $(STAMP) $(NATIVE_BUILD)/CMakeCache.txt  ## C++ tests and the CUDA kernels as C++, with sanitizers: 3 minutes
	cmake --build $(NATIVE_BUILD) --parallel 2
	ctest --test-dir $(NATIVE_BUILD) --output-on-failure
	$(BIN)/python -m pytest -m sanitizers tests/pool/kernels/cuda

$(NATIVE_BUILD)/CMakeCache.txt: CMakeLists.txt
	cmake -S . -B $(NATIVE_BUILD) -DCMAKE_CXX_FLAGS="-O1 -g" -DSPARSEPOOL_PYTHON=OFF -DSPARSEPOOL_TESTS=ON \
	    -DSPARSEPOOL_SANITIZE=ON

test-engines: $(STAMP)  ## newer networks in the engines themselves: downloads 0.5 GB once
	$(BIN)/python -m pytest -m engines tests/pool/tasks/chess/stockfish

test-libraries: $(STAMP)  ## what onnxruntime and pyarrow have done wrongly now and then: a million rows on several threads, hundreds of calls: 10 minutes
	$(BIN)/python -m tests.pool.export.onnx_threads
	$(BIN)/python -m tests.loader.rows.formats.parquet_exits

test-crashes: $(STAMP) $(FAKEGPU)  ## real runs killed at every crash point: minutes
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal -m chaos tests/chaos/test_crash_points.py

test-chaos: test-crashes  ## the same, and kills at random: minutes
	$(BIN)/python -m pytest -m chaos tests/chaos/test_random_kills.py

test-hostile: $(STAMP)  ## each attack of the hostile suite once: minutes
	$(BIN)/python -m pytest --numprocesses 2 -m hostile tests/hostile

check: $(STAMP) $(LINT) $(NATIVE_BUILD)/CMakeCache.txt  ## ruff, mypy, clang-format, clang-tidy: 2 minutes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests benchmarks
	$(BIN)/clang-format --dry-run --Werror $(filter %.cpp %.h,$(NATIVE)) $(NATIVE_TESTS) $(KERNELS)
	printf '%s\n' $(filter-out %/bind.cpp,$(foreach file,$(filter %.cpp,$(NATIVE)),$(if $(findstring /bind/,$(file)),,$(file)))) | \
	    xargs --max-args=2 --max-procs=2 $(BIN)/clang-tidy -p $(NATIVE_BUILD) --quiet

structure:  ## files, folders, lines, circles of imports, commands, words, counted
	$(PYTHON) -m tests.structure

read:  ## a sheet of functions drawn at random, to be scored by somebody who has not seen them (ROOM=pool/worker)
	$(PYTHON) -m tests.reading $(ROOM)

format: $(STAMP) $(LINT)  ## mends what `make check` says of form
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(filter %.cpp %.h,$(NATIVE)) $(NATIVE_TESTS) $(KERNELS)

docs: $(STAMP) $(DOCS)  ## the site, in build/site; warnings are errors; its notebook is run
	$(BIN)/jupyter execute docs/tutorial/clicks.ipynb
	$(BIN)/zensical build --clean --strict

# An extra's packages by themselves: the native code stays as it is.
$(DOCS) $(LINT): $(VENV)/%-installed: pyproject.toml constraints.txt | $(STAMP)
	@$(PIP) $$($(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["$*"])')
	@touch $@

reference: $(STAMP)  ## the pages that are generated from the code
	$(BIN)/python docs/reference/generate.py

# Of a real run of the demo config: on a terminal, its curves, three of its steps, in the
# browser beside another one (Debian's chromium). And what an NNUE is.
pictures: $(STAMP) $(DOCS)  ## the pictures of a run and of networks in docs, drawn anew
	rm -rf runs/pictures
	$(BIN)/python docs/pictures/progress.py docs/pictures/progress.svg
	$(BIN)/python docs/pictures/kill.py docs/pictures/kill.svg
	$(BIN)/python docs/pictures/nnue.py
	$(BIN)/pool train configs/demo.toml --set run.dir=runs/pictures --trace runs/pictures.json
	$(BIN)/python docs/pictures/curves.py runs/pictures docs/pictures/curves.png
	$(BIN)/python docs/pictures/trace.py runs/pictures.json docs/pictures/trace.png --steps 20 22
	rm -rf runs/twice-the-rate
	$(BIN)/pool train configs/demo.toml --set run.dir=runs/twice-the-rate --set optimizer.args.lr=0.002
	$(BIN)/python docs/pictures/watch.py runs/pictures runs/twice-the-rate docs/pictures/watch.png

# Half an hour of a quiet machine. Pictures of it: python docs/pictures/benchmarks.py build/bench (needs matplotlib).
bench: $(STAMP)  ## the benchmarks that have pictures: half an hour of a quiet machine
	mkdir -p build/bench
	set -o pipefail; for name in $(BENCHMARKS); do \
	  $(BIN)/python -m benchmarks.$$name | tee build/bench/$$name.txt || exit 1; done

# Data that its seed describes, networks from it, matches of them; needs Debian's stockfish.
learning: $(STAMP)  ## proof of learning: makes data (8 minutes, once), trains, plays matches: 20 minutes on two cores
	mkdir -p build/bench
	set -o pipefail; $(BIN)/python -m benchmarks.learning | tee build/bench/learning.txt

# libFuzzer with sanitizers on each native parser; needs clang, nothing else. RUNS=20000 for a short one.
fuzz:  ## libFuzzer with sanitizers on each parser; RUNS=20000 for minutes, else hours
	$(MAKE) -C tests/fuzz $(if $(RUNS),RUNS=$(RUNS))

# Whatever may go wrong, often: simulated runs, crash points in every way, random kills. Hours; KILLS=30
# SEEDS=1000 for a short one.
chaos: $(STAMP)  ## simulated runs, crash points in every way, random kills: hours; KILLS=30 SEEDS=1000 for a short one
	$(BIN)/python -m tests.pool.simulation --seeds $(if $(SEEDS),$(SEEDS),200000)
	$(BIN)/python -m tests.pool.simulation --first 1000000 --seeds $(if $(SEEDS),$(SEEDS),40000)
	$(BIN)/python -m tests.chaos.points
	$(BIN)/python -m tests.chaos.kills --kills $(if $(KILLS),$(KILLS),1000)
	$(BIN)/python -m tests.chaos.machine_kills --kills $(if $(KILLS),$(KILLS),1000)

# Would the tests notice? Puts seeded bugs into a copy of the sources, one after the other; each must be caught. Then races
# on a fake GPU, each of which five runs must find, and 780 runs there without a bug.
chaos-mutants: $(STAMP) $(FAKEGPU)  ## seeded bugs and races, each of which must be found: hours
	$(BIN)/python -m tests.chaos.mutants
	$(BIN)/python -m tests.gpu.fake.races --runs 40
	$(BIN)/python -m tests.gpu.fake.device_races --runs 15

fakegpu-sound: $(STAMP) $(FAKEGPU)  ## 360 runs on the fake GPU without a false alarm: 5 minutes
	$(BIN)/python -m tests.gpu.fake.races --sound --runs 40

# Hostile use at random: files that change, odd values for every key, hostile tasks, planted folders, crafted checkpoints.
hostile: $(STAMP)  ## hostile use at random; MINUTES=60
	$(BIN)/python -m tests.hostile --minutes $(if $(MINUTES),$(MINUTES),60)

soak: $(STAMP)  ## does anything grow in a long run? MINUTES=20
	$(BIN)/python -m tests.chaos.soak --minutes $(if $(MINUTES),$(MINUTES),20)

digests: $(STAMP)  ## a digest of the weights of eight runs and three stages, to compare before and after a change: 50 s
	@$(BIN)/python -m tests.digests

# On a machine with CUDA devices, which needs nothing but this checkout, Python and torch with CUDA; WHEELS=FOLDER names
# a folder of wheels where there is no network. The tests on cuda:0, on cuda:0,cuda:0 and on all cards.
GPU_PYTHON ?= $(if $(wildcard $(STAMP)),$(BIN)/python,$(PYTHON))
ON_GPU = $(GPU_PYTHON) benchmarks/gpu/install.py $(if $(WHEELS),--wheels $(WHEELS)) --
gpu-check:  ## tests on the CUDA devices of this machine; WHEELS=FOLDER where there is no network
	$(ON_GPU) -m pytest -m gpu --needs-card -W default -p no:cacheprovider tests/gpu --ignore=tests/gpu/fake

gpu-bench:  ## what the cards make of kernels, exchange and pool: ten minutes
	$(ON_GPU) -m benchmarks.gpu

gpu-dry: $(STAMP) $(FAKEGPU)  ## both, small, on the fake GPU: 2 minutes
	$(BIN)/python -m pytest --numprocesses 2 -m gpu_dry tests/gpu

clean:  ## removes .venv and build
	rm -rf $(VENV) build
