# make demo    the main job: real cells, then a Census-like experiment, streamed and classified
# make demo-scvi  scVI on the same cells, on two processes, to a plot of the latent space
# make test    the tests that .ci/run runs
# make test-all  `check`, `docs`, `test`, and what takes hours: scalar paths, other loaders, test-long, other versions of
#              Python and of packages, a minute of fuzzing a target. Interrupted, it continues with the parts that have
#              not passed; PARTS="check asan" makes these
# make test-long  tests marked `long`, more of the random cases that `make test` has and other ones each day, TSan in
#              format and pipeline
# make check   formatting, lint, types, layers
# make docs    the documentation site in build/docs/html; open index.html there
# make look    each page of the site in headless Chromium, with pictures in build/docs/pictures (5 minutes)
# make bench   speed and memory beside other loaders, a page in benchmarks/results (3 minutes)
# make bench-picture   the pictures of that page again, from its measurements
# make bench-tiledbsoma   cases of benchmarks/RESULTS.md beside tiledbsoma_ml (about 10 minutes); LARGE=EXPERIMENT
# make fuzz    random search, FUZZ_SECONDS (an hour) a target, recorded; keeps the inputs that reach new code
# make sanitize  the C++ tests under ASan+UBSan and under TSan
# make test-newest, test-oldest  the Python tests on the newest and the oldest packages that pyproject.toml allows,
#              each in a venv of its own: PYTHON=python3.13 WITH='pandas>=3' TESTS=tests/python/stores/test_tables.py
# make test-peers  our Python tests of `penstock bench` beside the loaders it compares, each installed in build/bench/peers
# make test-ray  our tests that need Ray, with one in build/ray
# make test-scalar  the C++ tests of what has vector paths, without them
# make wheels  wheels for Linux in build/wheels/dist, with all libraries inside: ARCHES="x86_64 aarch64"
# make test-wheel  the Python tests with such a wheel in fresh environments, and bare Debian systems (needs root)
#
# Each sets up what it needs from a clean clone: system packages by apt (root) and .venv.
# Settings: PYTHON (3.11 to 3.13), NEWER_PYTHONS (programs, those of test-all), TORCH, TORCH_INDEX, JOBS, CMAKE_ARGS, TESTS.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
MAKEFLAGS += --no-print-directory

JOBS ?= $(shell nproc)
FUZZ_SECONDS ?= 3600
NEWER_PYTHONS ?= python3.12 python3.13
TESTS ?= tests/python
# Of the Python tests; empty for all. HYPOTHESIS_PROFILE is `quick` or `thorough` (tests/python/conftest.py).
TEST_CHOICE ?= -m "not long"
export HYPOTHESIS_PROFILE ?= quick
VENV := $(CURDIR)/.venv
BIN := $(VENV)/bin
# Looked for by each recipe: `system` may have installed it.
LAUNCHER = $(if $(shell command -v ccache),-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
CMAKE = cmake -S . -G Ninja $(LAUNCHER) $(CMAKE_ARGS)
# One name for the compiler in all builds: ccache tells `c++`, which CMake finds, from `g++`, which Python names.
ifeq ($(origin CXX),default)
export CC := gcc
export CXX := g++
endif
# A clone in another folder finds in the cache what this one compiled. The extension's build uses both, too.
export CCACHE_NOHASHDIR := 1
export CCACHE_BASEDIR := $(CURDIR)

.PHONY: help demo demo-scvi docs look test test-all test-long check tidy bench bench-picture bench-tiledbsoma fuzz \
        sanitize system packages-long install test-cpp test-asan test-tsan test-scalar test-fuzz test-install \
        test-python test-newest test-oldest test-peers test-ray test-peer-suites wheels test-wheel format stubs clean

help:
	@sed -n '/^# make/s/^# //p' Makefile

demo: install
	$(BIN)/penstock demo

demo-scvi: install
	$(BIN)/penstock train scvi pbmc3k --devices 2 --accelerator cpu --epochs 20 --plot cell_type \
	  --output demo_output/scvi

# The reference comes from docstrings of the installed package. Warnings are errors.
docs: install $(VENV)/.docs-ready
	rm -rf build/docs
	$(BIN)/python -m sphinx -n -W --keep-going -c docs -d build/docs/doctrees . build/docs/html
	$(BIN)/python tools/check_site.py build/docs/html
	@echo "the site: build/docs/html/index.html"

# Each page in headless Chromium, wide and narrow, light and dark. The pictures are for you to look at.
look: docs
	[ "$$(id -u)" -ne 0 ] || tools/install_system_packages.sh "command:chromium chromium" \
	  "command:chromedriver chromium-driver"
	$(BIN)/python -m pip --disable-pip-version-check install --quiet selenium
	$(BIN)/python tools/look_at_site.py build/docs/html build/docs/pictures

$(VENV)/.docs-ready: pyproject.toml | $(VENV)/.ready
	$(BIN)/python -c "import tomllib; project = tomllib.load(open('pyproject.toml', 'rb'))['project']; \
	print(*project['optional-dependencies']['docs'], sep='\n')" >$(VENV)/docs-requirements.txt
	$(BIN)/python -m pip --disable-pip-version-check install --quiet -r $(VENV)/docs-requirements.txt
	@touch $@

# Each C++ test runs once here: under ASan and UBSan those of the layers that read stored bytes, as released those above
# them; the kernels' both ways. `make test-all`, `make test-cpp` and `make test-asan` run all of them.
test: CPP_LAYERS = $(if $(PENSTOCK_TEST_FULL),$(LAYERS),plan kernel pipeline)
test: ASAN_LAYERS = $(if $(PENSTOCK_TEST_FULL),$(LAYERS),$(filter-out plan pipeline,$(LAYERS)))
test: test-cpp test-install test-asan test-fuzz test-tsan test-python
	@echo "all tests passed"

# Before an issue is called resolved. Versions other than .venv's run what `make test` runs. The seed of C++ tests is
# the day's, and a failure prints it. A part that passed is not made again while its files are the same. .ci/run does
# `test` and `check` without clang-tidy on every change.
test-all:
	NEWER_PYTHONS="$(NEWER_PYTHONS)" tools/test_all.sh $(PARTS)

packages-long:
	[ "$$(id -u)" -ne 0 ] || tools/install_system_packages.sh "command:slurmctld slurmctld" "command:slurmd slurmd" \
	  "command:srun slurm-client" "command:munged munge" \
	  "command:sshfs sshfs" "command:sshd openssh-server"

test-long sanitize: export PENSTOCK_TEST_FULL = 1
test-long: system packages-long
	$(MAKE) test-tsan TSAN_LAYERS="format pipeline"
	$(MAKE) test-python TEST_CHOICE='-m "long or hypothesis or random"' HYPOTHESIS_PROFILE=thorough

# annbatch and scDataset get environments of their own; one that cannot be installed (annbatch needs
# Python 3.12) is left out with a line.
BENCH_DATA := benchmarks/.data/census-65k
BENCH_TITLE := "CSR batches of 128 from 65,536 cells in the Census's layout"
bench: install $(BENCH_DATA)
	if $(BIN)/penstock bench peers | grep -E '^(annbatch|scDataset) ' | grep -q 'not installed'; then \
	  TORCH="$${TORCH:-torch==2.13.0}" $(BIN)/penstock bench peers install annbatch scdataset || \
	  echo "bench continues without the loaders that are not installed"; fi
	$(BIN)/penstock bench compare $(BENCH_DATA) --memory-budget 256MiB,2GiB --num-epochs 2 --rounds 3 --max-seconds 60 \
	  -m penstock,penstock:pack,annbatch,scDataset,tiledbsoma_ml,in-memory --results benchmarks/results/epochs.parquet \
	  --report benchmarks/results --title $(BENCH_TITLE)

bench-picture: install
	$(BIN)/penstock bench plot benchmarks/results/measurements.parquet --output benchmarks/results/speed_vs_memory \
	  --format json,png,svg --epoch 2 --title $(BENCH_TITLE)", epoch 2"

bench-tiledbsoma: install $(BENCH_DATA) $(or $(LARGE),benchmarks/.data/census-262k)
	benchmarks/tiledbsoma.sh $(BIN)

# Cells of the benchmarks, made once: `make benchmarks/.data/census-524k-1f`. benchmarks/README.md lists them.
STORES := $(addprefix benchmarks/.data/census-,65k 262k 524k-32f 524k-1f)
benchmarks/.data/census-65k: SYNTH := --cells 65536 --datasets 40
benchmarks/.data/census-262k: SYNTH := --cells 262144 --datasets 160
benchmarks/.data/census-524k-32f: SYNTH := --cells 524288 --datasets 120
benchmarks/.data/census-524k-1f: SYNTH := --cells 524288 --datasets 120 --consolidated
$(STORES): | install
	$(BIN)/penstock synth $@ --seed 20250101 $(SYNTH)

sanitize: test-asan test-tsan

# --- setting up

system:
	@tools/install_system_packages.sh

$(VENV)/.ready: pyproject.toml tools/make_venv.sh tools/find_python.sh | system
	tools/make_venv.sh $(VENV)
	@touch $@

# The package as users have it, installed in .venv; compiled again only where sources changed.
install: $(VENV)/.ready
	CMAKE_BUILD_PARALLEL_LEVEL=$(JOBS) $(BIN)/python -m pip --disable-pip-version-check install --quiet \
	  --no-build-isolation --no-deps --force-reinstall --config-settings=cmake.define.PENSTOCK_WERROR=ON \
	  $(if $(LAUNCHER),--config-settings=cmake.args=$(LAUNCHER)) .

# --- C++

LAYERS := $(shell sed -nE 's/^penstock_layer.([a-z]+).*/\1/p' CMakeLists.txt)
CPP_LAYERS ?= $(LAYERS)
ASAN_LAYERS ?= $(LAYERS)
# For ctest: the tests of some layers.
only = -R '^($(subst $(space),|,$(strip $1)))_tests$$'
space := $(subst ,, )

test-cpp: system
	$(CMAKE) -B build/release -DCMAKE_BUILD_TYPE=Release -DPENSTOCK_INSTALL=ON >/dev/null
	cmake --build build/release -j $(JOBS) --target penstock $(CPP_LAYERS:%=%_tests)
	ctest --test-dir build/release --output-on-failure -j $(JOBS) $(call only,$(CPP_LAYERS))

test-install: test-cpp
	tools/test_install.sh build/release

# One build for ASan+UBSan and for fuzzing, with the other compiler. Without optimisation it compiles in half the time,
# and its tests take four times as long; if only the tests are not optimised, twice as long. Layers without tests here
# compile too: clang checks what their locks guard.
build/asan/.built: system
	$(CMAKE) -B build/asan -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -gline-tables-only" \
	  -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_C_COMPILER=clang \
	  -DPENSTOCK_SANITIZE=address,undefined -DPENSTOCK_BUILD_FUZZERS=ON >/dev/null
	cmake --build build/asan -j $(JOBS) --target penstock_fuzzers $(LAYERS:%=penstock_%) $(ASAN_LAYERS:%=%_tests)
.PHONY: build/asan/.built

test-asan: build/asan/.built
	ASAN_OPTIONS=detect_stack_use_after_return=1:allocator_may_return_null=1 \
	UBSAN_OPTIONS=print_stacktrace=1 ctest --test-dir build/asan --output-on-failure -j $(JOBS) $(call only,$(ASAN_LAYERS))

# The kept inputs, each once: the same answer every time. Search is `make fuzz`.
test-fuzz: build/asan/.built
	JOBS=$(JOBS) tools/run_fuzzers.sh build/asan replay

fuzz: build/asan/.built
	status=0; JOBS=$(JOBS) tools/run_fuzzers.sh build/asan $(FUZZ_SECONDS) $(FUZZ_TARGETS) || status=1; \
	tools/keep_fuzz_corpora.sh build/asan; exit $$status

# The layers that have threads are base, io, format and pipeline; `make test` does the two that compile in a minute.
TSAN_LAYERS ?= base io
test-tsan: system
	$(CMAKE) -B build/tsan -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="-O1 -g1" \
	  -DPENSTOCK_SANITIZE=thread >/dev/null
	cmake --build build/tsan -j $(JOBS) --target $(TSAN_LAYERS:%=%_tests)
	TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1 \
	  ctest --test-dir build/tsan --output-on-failure -j $(JOBS) $(call only,$(TSAN_LAYERS))

# Of the layers that have vector paths, as they are compiled off x86-64. No part of `make test`: the
# build of its own takes minutes.
SCALAR_LAYERS := base codec kernel format
test-scalar: system
	$(CMAKE) -B build/scalar -DCMAKE_BUILD_TYPE=Release -DPENSTOCK_SCALAR_ONLY=ON >/dev/null
	cmake --build build/scalar -j $(JOBS) --target $(SCALAR_LAYERS:%=%_tests)
	ctest --test-dir build/scalar --output-on-failure -j $(JOBS) $(call only,$(SCALAR_LAYERS))

# --- Python

# Files side by side, in the order of tests/python/file_times.py: many tests wait for processes that they start.
# A worker that crashes ends the run: where xdist starts another, the run can wait for ever.
PYTEST = $(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --max-worker-restart 0
test-python: install
	$(PYTEST) --no-loadscope-reorder $(TEST_CHOICE) $(TESTS)

# torch and Python are those of the settings in either set. No part of `make test`.
test-newest: RESOLUTION := highest
test-oldest: RESOLUTION := lowest-direct
test-newest test-oldest: test-%: | system
	RESOLUTION=$(RESOLUTION) tools/make_venv.sh $(CURDIR)/build/venv-$*
	touch $(CURDIR)/build/venv-$*/.ready
	$(MAKE) test-python VENV=$(CURDIR)/build/venv-$*

# Our tests that need other loaders, and skip without them. Each loader has a venv of its own, some GiB in all;
# one for which there is no Python (annbatch needs 3.12) is left out with a line. No part of `make test`.
PEER_TESTS := $(addprefix tests/python/bench/,test_bench_joinids.py test_bench_details.py test_bench_exports.py \
              test_bench_peers.py test_peer_faults.py)
test-peers: install
	export PENSTOCK_BENCH_CACHE=$(CURDIR)/build/bench TORCH="$${TORCH:-torch==2.13.0}"; \
	$(BIN)/penstock bench peers install; \
	for peer in "$$PENSTOCK_BENCH_CACHE"/peers/*/; do \
	  name=$$(basename "$$peer"); export "PENSTOCK_BENCH_PYTHON_$${name^^}=$${peer}bin/python"; done; \
	$(PYTEST) $(PEER_TESTS)

# Ray is no dependency; what it needs itself is in .venv.
test-ray: install
	[ -d build/ray ] || $(BIN)/python -m pip --disable-pip-version-check install --quiet --no-deps --target build/ray ray
	PYTHONPATH=$(CURDIR)/build/ray $(PYTEST) tests/python/executors/test_ray.py tests/python/ranks/test_ray_job.py

# The peers' own tests over penstock.compat (docs/guides/compat.md), from your checkouts: PEER_TESTS_OF="A/tests B/tests".
test-peer-suites: install
	@[ -n "$(PEER_TESTS_OF)" ] || echo "the peers' own suites are left out: PEER_TESTS_OF names no checkout"
	for tests in $(PEER_TESTS_OF); do $(BIN)/python tools/peer_tests.py "$$tests"; done

# --- wheels. No part of `make test` or `make test-all`: the libraries inside are downloaded, and compile for minutes.

WHEELS := $(CURDIR)/build/wheels
ARCHES ?= x86_64
wheels: system
	for arch in $(ARCHES); do JOBS=$(JOBS) tools/wheels/make_wheels.sh $(WHEELS) $$arch; done

# PYTHONS are programs; each has the tests of TESTS in an environment of its own.
PYTHONS ?= python3.11 $(NEWER_PYTHONS)
test-wheel: wheels install
	for python in $(PYTHONS); do JOBS=$(JOBS) tools/wheels/test_wheel.sh $(WHEELS) $$python $(TEST_CHOICE) $(TESTS); done
	$(BIN)/python tools/wheels/digests.py --all >$(WHEELS)/digests-gcc.txt
	$(WHEELS)/venv-$(notdir $(firstword $(PYTHONS)))/bin/python tools/wheels/digests.py --all >$(WHEELS)/digests.txt
	diff $(WHEELS)/digests-gcc.txt $(WHEELS)/digests.txt
	for suite in bookworm trixie; do tools/wheels/test_bare.sh $(WHEELS) $$suite; done
	if ls $(WHEELS)/dist/*aarch64.whl >/dev/null 2>&1; then tools/wheels/test_aarch64.sh $(WHEELS); fi

stubs: install
	$(BIN)/python tools/make_stubs.py

# --- the code itself

CXX_FILES = $(shell git ls-files -co --exclude-standard '*.cc' '*.h' '*.cpp')
PYTHON_FOLDERS = docs/conf.py python tests tools benchmarks

check: install
	$(BIN)/python tools/check_layers.py
	tools/check_package_layers.sh $(BIN)
	$(BIN)/python tools/check_markdown.py
	$(BIN)/clang-format --dry-run --Werror $(CXX_FILES)
	$(BIN)/ruff check $(PYTHON_FOLDERS)
	$(BIN)/ruff format --check $(PYTHON_FOLDERS)
	$(BIN)/python tools/make_stubs.py --check
	$(BIN)/mypy
	[ "$${PENSTOCK_NO_TIDY:-}" = 1 ] || $(MAKE) tidy

# Takes longer than the rest of `check`. PENSTOCK_NO_TIDY=1 leaves it out.
tidy: install
	tools/install_system_packages.sh "command:clang-tidy clang-tidy"
	tools/run_clang_tidy.sh build/tidy $(JOBS) $(BIN)/python -- $(LAUNCHER) $(CMAKE_ARGS)

format: $(VENV)/.ready
	$(BIN)/clang-format -i $(CXX_FILES)
	$(BIN)/ruff check --fix-only $(PYTHON_FOLDERS)
	$(BIN)/ruff format $(PYTHON_FOLDERS)

clean:
	rm -rf build dist
