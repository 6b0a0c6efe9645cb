# Two commands matter: `make demo` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
ENGINE := target/engine/plimsoll-engine
CARGO_TEST := cargo test --release --workspace --locked
# The recorder that is loaded before libc: the engine carries it (crates/capture/build.rs).
export PLIMSOLL_PRELOAD_LIBRARY := $(CURDIR)/target/preload/release/libplimsoll_preload.so
RUST   := Cargo.toml Cargo.lock $(shell find crates -name '*.rs' -o -name Cargo.toml)

# The rules name files below target/; some machines set another place for all programs.
unexport CARGO_TARGET_DIR
# Every command of a test would compile the lab again; some machines set this for all programs.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-rust test-binaries test-python test-python-pure test-python-real check check-rust check-python format setup system engine wheel bench clean

demo: setup
	$(BIN)/plimsoll run examples/quickstart.yaml --out results

# Limit: 12 minutes on two cores where everything is built, 20 where nothing is. CONTRIBUTING.md has the measured times. The checks of the Python half
# fill the gaps of cargo's build.
test:
	@$(MAKE) --no-print-directory -j3 setup system check-python
	@scripts/test-halves

# What is too long for every change; to be run before a release. Records its result in tests/long/RESULT.md.
test-long: setup system
	@scripts/test-long $(PARTS)

# More threads than cores, as these tests wait for time and services. Documentation tests are few and stay.
test-rust: test-binaries
	RUST_TEST_THREADS=$${RUST_TEST_THREADS:-6} $(CARGO_TEST) --no-fail-fast --lib --bins --tests
	$(CARGO_TEST) --doc

test-binaries: engine
	$(CARGO_TEST) --no-run --lib --bins --tests

# Tests without services, at a low priority: they fill what the build and the tests of the Rust half leave of the cores.
# Then the others with more workers than cores, as they wait for time and services. Tests that share services stay together
# (tests/conftest.py).
test-python: test-python-pure test-python-real

test-python-pure: setup
	nice -n 10 $(BIN)/pytest -q -m "not long" -n 2 --dist loadfile tests/unit tests/golden tests/stats

test-python-real: setup
	$(BIN)/pytest -q -m "not long and not alone" -n 5 --dist loadgroup --durations=30 --durations-min=8 tests/real
	$(BIN)/pytest -q -m "alone and not long" tests/real

# Everything that a reviewer would otherwise have to say. Needs no engine, whose build takes longer than all checks.
check: check-python check-rust

check-python: $(VENV)/installed
	$(BIN)/ruff format --check python tests bench studies scripts/test-long setup.py
	$(BIN)/ruff check python tests bench studies scripts/test-long setup.py
	$(BIN)/mypy
	$(BIN)/lint-imports

check-rust:
	cargo fmt --all --check
	cargo clippy --release --workspace --all-targets --locked -- -D warnings

format: $(VENV)/installed
	$(BIN)/ruff format python tests bench studies scripts/test-long setup.py
	$(BIN)/ruff check --fix python tests bench studies scripts/test-long setup.py
	cargo fmt --all

setup: $(VENV)/installed engine

$(VENV)/installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Plimsoll needs Python 3.11 or later; $(PYTHON) is $$($(PYTHON) --version). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@

# Linked statically, so that the same file runs here and on every host that it is copied to. It lies in a place of its own,
# as `cargo test` builds another one, which needs this host's libraries, in the place where cargo leaves it.
engine: $(ENGINE)

$(ENGINE): $(RUST)
	@command -v cargo >/dev/null || { echo "Plimsoll's engine is built with Rust: install it with rustup (https://rustup.rs) and try again"; exit 1; }
	scripts/preload-library
	cargo rustc --release --locked -p plimsoll-engine --bin plimsoll-engine -- -C target-feature=+crt-static
	mkdir -p $(@D)
	cp target/release/plimsoll-engine $@.new && mv $@.new $@

# Both halves in one file: `pip install dist/*.whl` gives `plimsoll` and `plimsoll-engine` (setup.py).
wheel: setup
	rm -rf dist
	$(BIN)/pip wheel --quiet --no-build-isolation --no-deps --wheel-dir dist .
	@ls dist/*.whl

# Debian packages that tests drive: where apt-get may not be used, those tests are skipped and say so.
system:
	@scripts/system-packages
	@scripts/python-servers $(PYTHON)

bench: setup
	$(BIN)/python bench/run.py

clean:
	rm -rf $(VENV) target results build dist
