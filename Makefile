# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# `make` or `make help` lists what there is.

.DEFAULT_GOAL := help
.PHONY: help setup ready demo lab lab-down test quick test-unit test-lab test-all test-matrix test-scenarios test-operations test-core-versions test-core-ends test-core-quick test-bare test-odd test-postgresql test-newest lint-newest pins bench-lab bench-nova bench-nova-tests bench-numa bench-placement bench-drain lint docs pages pictures build clean
SETUP := tests/setup/setup.sh
LAB := tests/lab/lab
# Another one has another ansible-core: tests/setup/core-versions.sh makes it.
ENVIRONMENT := .venv
PYTEST := $(ENVIRONMENT)/bin/pytest -q -n 2
QUICK := $(addprefix tests/unit/,planner scheduler definitions report tracker module_utils modules conductor candidates common evacuation) \
	$(addprefix tests/properties/,hosts scheduling test_laws.py test_layering.py test_removals.py test_rules_cited.py)

help:  ## this list
	@sed -n 's/^\([a-z-]*\):.*## */\1\t/p' $(firstword $(MAKEFILE_LIST)) | \
		while IFS="$$(printf '\t')" read -r target text; do printf '  make %-18s %s\n' "$$target" "$$text"; done

setup:  ## install what is missing: Debian packages, a Python environment in .venv
	@$(SETUP) packages env

demo:  ## three hypervisors: discover, place six instances, drain one host, undrain
	@tests/lab/demo.sh

lab: setup  ## start the lab, or whatever of it is not running
	@$(LAB) up

lab-down:  ## stop the lab and remove everything of it
	@$(LAB) down

ready:
	@tests/setup/ready.sh

test: ready lint test-unit test-core-quick test-lab  ## linters, unit tests, tests in the lab: under 20 minutes
	@.venv/bin/python tests/setup/seen.py make test

# What cannot run is a failure here.
test-all: export DROVER_SKIP_NOTHING := 1
test-all: test test-matrix test-operations  ## those and the long ones

quick:  ## the engine's unit tests, without root, PostgreSQL or a browser: under 90 seconds
	@$(SETUP) env
	$(PYTEST) --dist worksteal -m 'not long' -k 'not postgresql' $(QUICK)

test-unit: ready  ## unit tests, the store on SQLite; a sample of those of which there are many: on PostgreSQL, of each playbook, the fault matrix, the scenarios
	$(PYTEST) -m 'not long' --one-in 48 tests/unit tests/properties
	$(PYTEST) --one-in 600 tests/matrix tests/scenarios

test-matrix: ready  ## the fault matrix, simulated: each operation, with each fault, at each of its moments
	$(PYTEST) tests/matrix

test-scenarios: ready  ## all golden scenarios: the store, the planner and the conductor on a simulated fleet
	$(PYTEST) tests/scenarios

test-lab: ready  ## the playbooks on real hypervisors
	$(PYTEST) -n 0 -m 'not long' tests/lab/test_lab_itself.py
	$(PYTEST) --dist worksteal -m 'not long' tests/lab --ignore tests/lab/test_lab_itself.py

test-operations: setup  ## the long tests: all unit tests, all scenarios, AWX jobs, examples, browser; all operations and the fault matrix in the lab; pylint
	@$(SETUP) browser events storage hosts
	$(PYTEST) tests/unit tests/properties
	$(PYTEST) tests/scenarios
	$(PYTEST) --dist worksteal -m long tests/lab
	tests/setup/odd_machine.sh
	@$(SETUP) lint
	tests/setup/lint.sh pylint

test-core-versions: setup  ## all unit tests with each ansible-core that is supported: over an hour; CORE=2.18 takes one
	@$(SETUP) browser
	tests/setup/core-versions.sh $(CORE)

test-core-ends: setup  ## all unit tests and the tests in the lab, with the oldest ansible-core, with 2.19 and with 2.21: hours
	@$(SETUP) browser
	tests/setup/core-versions.sh --lab oldest 2.19 2.21

test-core-quick: ready  ## what depends on ansible-core most, with the oldest that this machine has a Python for
	tests/setup/core-versions.sh --quick oldest

test-odd: setup  ## unit tests as on a machine where umask, locale, zone, name, IPv6, /tmp and the user's configuration are odd; needs root
	tests/setup/odd_machine.sh

# Tests of the store itself; the last two have ICU, a zone far from UTC and serializable transactions by default.
STORE = -k 'not sqlite' tests/unit/store tests/unit/placement tests/properties/store
test-postgresql: setup  ## the tests of the store with PostgreSQL 13 and 17, also with odd settings, and the take-over of a standby; needs root
	tests/setup/postgresql_root.sh bullseye trixie
	DROVER_POSTGRESQL=.cache/postgresql/bullseye $(PYTEST) $(STORE)
	DROVER_POSTGRESQL=.cache/postgresql/trixie $(PYTEST) $(STORE)
	DROVER_POSTGRESQL=.cache/postgresql/trixie DROVER_POSTGRESQL_ODD=Pacific/Kiritimati $(PYTEST) $(STORE)
	DROVER_POSTGRESQL_ODD=America/St_Johns $(PYTEST) $(STORE)
	$(PYTEST) tests/matrix/test_promoted_standby.py

test-bare: export COMMAND := $(or $(COMMAND),make demo)
test-bare:  ## a command on a fresh Debian without anything: SUITE=bookworm COMMAND='make test'; by default make demo on trixie
	@tests/setup/bare_root.sh $(or $(SUITE),trixie) "$$COMMAND"

lint: ready  ## ruff, mypy, vermin, ansible-test sanity without pylint, ansible-lint, galaxy-importer, antsibull-docs, layering, subjects of commits
	@$(SETUP) lint
	tests/setup/lint.sh

lint-newest: setup  ## the linters, ansible-core and all packages in their newest versions; all sanity tests
	tests/setup/core-versions.sh --make newest
	@$(SETUP) newest
	tests/setup/lint.sh newest

test-newest: lint-newest  ## linters and all unit tests with the newest of all Python packages, none of them pinned
	@$(SETUP) browser
	tests/setup/core-versions.sh newest

pins: setup  ## take the newest versions of all Python packages: tests/setup/constraints.txt, constraints-lint.txt
	@$(SETUP) pins

docs: setup  ## the site, in build/docs
	@$(SETUP) lint
	tests/setup/docs.sh

pages: setup  ## what the pages take from the code: output of commands, lists of variables and playbooks
	.venv/bin/python tests/pages/write.py

pictures: setup  ## the pictures of the README, in docs/pictures
	@$(SETUP) browser
	.venv/bin/python tests/pages/write.py pictures

bench-nova: setup  ## compare the scheduler with Nova's own, which is installed into .venv-nova
	tests/benchmarks/bench-nova.sh

bench-nova-tests:  ## run Nova's own unit tests, which are read from its package in .venv-nova, against our engine
	tests/benchmarks/bench-nova-tests.sh

bench-numa: setup  ## compare the fit to NUMA cells and PCI devices with Nova's own, which is installed into .venv-nova
	tests/benchmarks/bench-numa.sh

bench-placement: setup  ## compare allocation candidates and claims with Placement's own, which is installed into .venv-placement
	tests/benchmarks/bench-placement.sh

bench-drain: setup  ## plans of drains of seeded fleets, judged by the verifier in tests/peers
	.venv/bin/python tests/benchmarks/drain_families.py $(BENCH_DRAIN)

bench-lab: setup  ## the first restarted guest after a power cut, and the drain of eight instances beside parallel virsh, in a lab
	.venv/bin/python tests/benchmarks/dead_host_lab.py
	.venv/bin/python tests/benchmarks/drain_lab.py

build: setup  ## the collection's tarball, in build/
	.venv/bin/ansible-galaxy collection build --force --output-path build

clean: lab-down  ## lab-down, and remove the environments and everything built
	rm -rf .venv .venv-lint .venv-nova .venv-placement .ansible .cache .hypothesis .import_linter_cache .pytest_cache .ruff_cache \
		build collections importer_result.json tests/output changelogs/.plugin-cache.yaml
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
