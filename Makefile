# Two commands: `make demo` and `make test`. Each sets up what it needs, and is quick the second time.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Bytecode is made at the first import: of all that is installed, a tenth is ever imported.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
# The tests start hundreds of processes; without bytecode on the disk each of them would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Two torch threads in one process collapse as soon as anything else runs: one thread a process.
export OMP_NUM_THREADS ?= 1

# Debian packages of the tests, as package:command. What would be started at the next boot is for containers only.
PACKAGES := mosquitto mtools dosfstools:mkfs.vfat fdisk:sfdisk chromium \
	$(if $(wildcard /run/systemd/system),,systemd:systemd-analyze cloud-init openssh-server:sshd)

SLOW_PACKAGES := prometheus chromium-driver:chromedriver rabbitmq-server iproute2:ip

BOARD_PACKAGES := qemu-system-arm:qemu-system-aarch64 qemu-user-static:qemu-aarch64-static mmdebstrap \
	binfmt-support:update-binfmts arch-test

.PHONY: help demo docs test suite test-slow test-boards lint light-tests system-packages clean
help:
	@echo "make demo       set up, and watch a small fleet of different models learn (2 to 3 minutes)"
	@echo "make test       set up, lint, type-check and run the tests"
	@echo "make test-slow  the tests that take minutes"
	@echo "make test-boards  boot flashed cards in emulated ARM boards (QEMU; the first time builds Debian roots)"
	@echo "make docs       the documentation as a site that needs no network: build/site/index.html"
	@echo "make lint       ruff, mypy and vermin alone"
	@echo "make clean      remove the virtual environments and caches"

demo: $(VENV)/.edgestill-demo
	$(BIN)/edgestill simulate --transport mqtt --dataset digits --devices 6 --prototypes cnn:fp32,mlp:fp32,cnn:w1 \
		--rounds 6 --recipe feddf --seed 0 --out demo-run --force
	$(BIN)/edgestill report demo-run --target 90
	@echo "look at it: file://$(CURDIR)/demo-run/report.html"

# Side by side: the light tests beside the installation, which they need nothing of; linting and typing beside the tests.
test: system-packages | $(BIN)/python
	@$(MAKE) --no-print-directory --jobs=3 light-tests suite lint

# More workers than cores: many tests wait for a broker, a process or a clock. What all of them import is compiled once
# before they start, not by each of them at the same time.
suite: $(VENV)/.edgestill-dev
	@$(BIN)/python -c "import brevitas.nn, torch"
	$(BIN)/python -m pytest -n 3 --dist worksteal -m "not slow" tests

# The boards of a test run belong to one fleet: they are booted by one process. Without QEMU the tests say so.
BOOT = $(BIN)/python -m pytest -m boards tests/boards
test-slow: $(VENV)/.edgestill-dev system-packages
	@scripts/system_packages.sh $(SLOW_PACKAGES)
	$(PIP) --editable '.[dev,ray]'
	$(BIN)/python -m pytest -n 2 -m "slow and not boards" tests
	$(BOOT)

test-boards: $(VENV)/.edgestill-dev system-packages
	@scripts/system_packages.sh $(BOARD_PACKAGES)
	$(BOOT)
	@echo "serial consoles and figures of the boards: ~/.cache/edgestill/test-boards"

lint: $(VENV)/.edgestill-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/vermin --target=3.10- --violations --no-tips --eval-annotations \
		core wire transport quant models edge_agent aggregator fleet firmware_configs edgestill

# An environment of its own packages only: the site is made of the sources, nothing of edgestill is imported.
docs: $(VENV)/.edgestill-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "read it: file://$(CURDIR)/build/site/index.html"

light-tests: | $(BIN)/python
	$(BIN)/python scripts/light_tests.py

system-packages:
	@scripts/system_packages.sh $(PACKAGES)

$(BIN)/python:
	@PYTHON="$(PYTHON)" scripts/make_venv.sh "$(VENV)"

$(VENV)/.edgestill-demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing edgestill and what it stands on (a few minutes the first time) ..."
	$(PIP) --editable '.[aggregator]'
	@touch $@

$(VENV)/.edgestill-dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing edgestill, its test tools and what they stand on (a few minutes the first time) ..."
	$(PIP) --editable '.[dev]'
	@touch $@ $(VENV)/.edgestill-demo

$(VENV)/.edgestill-docs: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing what makes the documentation site ..."
	$(PIP) "mkdocs-material>=9.5" "mkdocstrings-python>=1.10"
	@touch $@

clean:
	rm -rf $(VENV) .venv-light-* build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
