# Everything runs in environments of its own under this folder; nothing else is touched.
#
#   make match   install, then let three sample bots play        (.venv-match)
#   make test    install with the dev extra, then run the tests  (.venv-dev)
#
# Another interpreter: make match PYTHON=python3.13      Other bots: make match BOTS="greedy my_bot.py"

BOTS ?= greedy cautious random

# The first interpreter that is new enough; names that do not run are passed over.
PYTHON ?= $(shell for name in python3 python3.14 python3.13 python3.12 python3.11; do \
	"$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& { echo "$$name"; break; }; done)

DEV := .venv-dev/bin/python -m
PIP := -m pip --disable-pip-version-check --quiet
UNUSED := 'site-packages/(.*/)?(array|async_api|dataframe|distutils|f2py|graphql|mypyc?|orm|pip|pygments|schemathesis|setuptools|testing|tests?)/'

# $(call environment,FOLDER,WHAT TO INSTALL): made afresh, so that a half-made one does no harm. uv
# takes a fifth of pip's CPU time, and less again if another environment has it; where it cannot be had
# or fails, pip installs, and says what is wrong. What pip would compile on one core is compiled on all,
# but for what hardly anything imports; what does not compile is not needed, as with pip. Where /dev/shm
# cannot be used, several processes cannot share the work, and one does it.
define environment
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "Python 3.11 or newer is needed; name one with PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null \
		|| { echo "$(PYTHON) cannot make environments; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }
	@echo "installing into $(1) (once) ..."
	@uv=$(firstword $(filter-out $(1)/%,$(wildcard .venv-*/bin/uv))); { [ -n "$$uv" ] \
			&& "$$uv" venv --quiet --clear --seed --python "$(PYTHON)" $(1) \
			&& "$$uv" pip install --quiet --python $(1)/bin/python $(2); } 2>/dev/null \
		|| { "$(PYTHON)" -m venv --clear $(1) && { $(1)/bin/python $(PIP) install --no-compile uv \
			&& $(1)/bin/uv pip install --quiet --python $(1)/bin/python $(2); } 2>/dev/null; } \
		|| $(1)/bin/python $(PIP) install --no-compile $(2)
	@$(1)/bin/python -W ignore -m compileall -qq -j 0 -x $(UNUSED) $(1)/lib 2>/dev/null \
		|| $(1)/bin/python -W ignore -m compileall -qq -x $(UNUSED) $(1)/lib || true
	@touch $@
endef

.PHONY: match
match: .venv-match/installed
	.venv-match/bin/deepsea-referee match $(BOTS)

# On all cores; then, one by one, those that measure times. With TESTS others are run. The status 5
# says that there are none.
TESTS ?= not slow and not release
# To collect all the others again would take as long as these take.
ALONE = $(shell grep -rl --include='test_*.py' 'mark\.alone' tests)

.PHONY: test
test: .venv-dev/installed
	$(DEV) pytest --numprocesses auto --dist worksteal -m "($(TESTS)) and not alone"
	$(DEV) pytest -m "($(TESTS)) and alone" $(ALONE) || [ $$? = 5 ]

.PHONY: test-slow
test-slow: TESTS = slow
test-slow: test

# The tests with the other versions of Python that are installed; .venv-dev is made anew for each.
.PHONY: test-pythons
test-pythons:
	@for name in python3.11 python3.12 python3.13; do \
		version=$$("$$name" -V 2>/dev/null) || { echo "there is no $$name"; continue; }; \
		[ "$$version" = "$$("$(PYTHON)" -V)" ] || $(MAKE) test PYTHON="$$name" || exit 1; \
	done
	@$(MAKE) .venv-dev/installed PYTHON="$(PYTHON)"

# A thousand games with honest and hostile bots; needs the sandbox (apt-get install bubblewrap).
.PHONY: soak
soak: .venv-dev/installed
	PYTHONPATH=tests $(DEV) soak.soak --games 1000

# What hostile bots once broke, tried again with and without control groups, quiet and busy; about half
# an hour. Parts of it: TRIALS="--only H2 --without-groups --runs 1"
.PHONY: hostile-trials
hostile-trials: .venv-dev/installed
	PYTHONPATH=tests:bench $(DEV) soak.hostile_trials $(TRIALS)

# False timeouts while 16 processes keep the machine busy. Takes a quarter of an hour and more.
.PHONY: host-load
host-load: .venv-dev/installed
	.venv-dev/bin/python bench/host_load.py

# How fast it is, by the goals of docs/dev/performance.md; some minutes, best with nothing else running.
# For the figures of other programs beside ours: .venv-dev/bin/pip install open_spiel 'pettingzoo[classic]'
.PHONY: bench
bench: .venv-dev/installed
	.venv-dev/bin/python bench/goals.py

# For which other systems types are checked.
SYSTEMS ?= darwin win32

# What CI runs beside the tests. `make format` fixes what the first two find.
.PHONY: check
check: .venv-dev/installed
	$(DEV) ruff check
	$(DEV) ruff format --check
	.venv-dev/bin/python tools/check_types.py --linux $(SYSTEMS)
	.venv-dev/bin/lint-imports --no-logo
	.venv-dev/bin/python tools/gen_proto.py --check
	.venv-dev/bin/buf lint
	.venv-dev/bin/buf breaking --against proto/released.binpb
	.venv-dev/bin/python tools/gen_api.py --check

.PHONY: format
format: .venv-dev/installed
	$(DEV) ruff check --fix
	$(DEV) ruff format

# Generate the _pb folders from proto/.
.PHONY: proto
proto: .venv-dev/installed
	.venv-dev/bin/python tools/gen_proto.py

# Generate docs/api from docstrings and signatures.
.PHONY: api
api: .venv-dev/installed
	.venv-dev/bin/python tools/gen_api.py

# Draw the picture of a position in the docs, with the viewer's script and Chromium.
.PHONY: picture
picture: .venv-dev/installed
	.venv-dev/bin/python tools/gen_picture.py

# Make the proto as it is now the one that later changes must be compatible with: for a release.
.PHONY: release-proto
release-proto: .venv-dev/installed
	.venv-dev/bin/buf build --exclude-source-info --output proto/released.binpb

# Both distributions: deepsea-sdk (for bot authors) and deepsea-referee, which depends on it. Each wheel
# is made of the source distribution beside it.
.PHONY: dist
dist: BY = $(if $(wildcard .venv-dev/bin/uv),--installer uv)
dist: .venv-dev/installed
	$(DEV) build $(BY) --outdir dist .
	$(DEV) build $(BY) --outdir dist sdk

.PHONY: clean
clean:
	rm -rf .venv-match .venv-dev build dist .pytest_cache .mypy_cache .ruff_cache \
		.import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# $(call other,FOLDER): always to be made, if PYTHON names another version than the folder's.
.PHONY: other-python
other = $(if $(filter-out file,$(origin PYTHON)),$(shell \
	[ "$$($(1)/bin/python -V 2>/dev/null)" = "$$("$(PYTHON)" -V 2>&1)" ] || echo other-python))

# Both are editable installs: only a change of pyproject.toml or another Python asks for a new one.
.venv-match/installed: pyproject.toml sdk/pyproject.toml $(call other,.venv-match)
	$(call environment,.venv-match,--editable ./sdk --editable .)

.venv-dev/installed: pyproject.toml sdk/pyproject.toml $(call other,.venv-dev)
	$(call environment,.venv-dev,--editable ./sdk --editable '.[dev]')
