# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
# `make` or `make help` lists what there is.

.DEFAULT_GOAL := help
.PHONY: help setup demo lab lab-down test test-unit test-lab test-all test-matrix test-operations test-core-versions test-core-quick bench-lab bench-nova bench-placement bench-drain lint docs build clean
SETUP := tests/setup/setup.sh
LAB := tests/lab/lab
OPERATIONS := tests/lab/test_power.py tests/lab/test_evacuate.py tests/lab/test_silent_host.py tests/lab/test_hypervisor.py \
	tests/lab/test_rolling.py tests/lab/test_rebalance.py tests/lab/test_drain_plan.py tests/lab/test_lifecycle.py tests/lab/test_migration_options.py \
	tests/lab/test_chaos.py tests/lab/test_examples.py tests/lab/test_drain_aborted.py tests/lab/test_least_privilege.py \
	tests/lab/test_guides.py tests/lab/test_undrain.py tests/lab/test_odd_names.py tests/lab/test_storage_safety.py tests/lab/test_odd_guests.py

# Whole playbooks again and again, and a browser.
LONG := tests/unit/awx/test_jobs.py tests/unit/awx/test_awx_setup.py tests/unit/action/test_hostile_variables.py tests/unit/test_examples.py \
	tests/unit/action/test_claims_at_once.py tests/unit/report/test_report_in_a_browser.py

# Its cells are long but for a sample.
MATRIX := tests/lab/test_matrix.py

# Scenarios of two runs at once, or of a fault in every phase of making room: half of the time of all.
LONG_SCENARIOS := making_room_faults or making_room_killed or fault_at_the_hand_over or of_a_dead_run or caps_when

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

test: lint test-unit test-core-quick test-lab  ## linters, unit tests, tests in the lab: under 20 minutes

test-all: test test-matrix test-operations  ## those and the long ones

test-unit: setup  ## unit tests, the store on SQLite and on PostgreSQL; golden scenarios on a simulated fleet
	.venv/bin/pytest -q -n 2 tests/unit tests/scenarios -k 'not ($(LONG_SCENARIOS))' $(patsubst %,--ignore %,$(LONG))
	.venv/bin/pytest -q -n 2 tests/matrix --one-in 20

test-matrix: setup  ## the fault matrix, simulated: each operation, with each fault, at each of its moments
	.venv/bin/pytest -q -n 2 tests/matrix

test-lab: setup  ## the playbooks on real hypervisors
	.venv/bin/pytest -q tests/lab/test_lab_itself.py
	.venv/bin/pytest -q -n 2 --dist worksteal -m 'not long' tests/lab $(patsubst %,--ignore %,tests/lab/test_lab_itself.py $(OPERATIONS))

test-operations: setup  ## the long tests: AWX jobs, examples, browser; power, evacuation, chaos, fault matrix, rolling, lifecycle, migration options in the lab
	@$(SETUP) browser
	.venv/bin/pytest -q -n 2 $(LONG)
	.venv/bin/pytest -q -n 2 tests/scenarios -k '$(LONG_SCENARIOS)'
	.venv/bin/pytest -q -n 2 --dist worksteal $(OPERATIONS)
	.venv/bin/pytest -q -n 2 --dist worksteal $(MATRIX)

test-core-versions: setup  ## all unit tests with each ansible-core that is supported, and with the newest: about an hour
	@$(SETUP) browser
	tests/setup/core-versions.sh

test-core-quick: setup  ## what depends on ansible-core most, with the oldest and the newest
	tests/setup/core-versions.sh --quick 2.17 newest

lint: setup  ## ansible-test sanity, ansible-lint, galaxy-importer, antsibull-docs, layering
	@$(SETUP) lint
	tests/setup/lint.sh

docs: setup  ## the site, in build/docs
	@$(SETUP) lint
	tests/setup/docs.sh

bench-nova: setup  ## compare the scheduler with Nova's own, which is installed into .venv-nova
	tests/benchmarks/bench-nova.sh

bench-placement: setup  ## compare allocation candidates and claims with Placement's own, which is installed into .venv-placement
	tests/benchmarks/bench-placement.sh

bench-drain: setup  ## plans of drains of seeded fleets, judged by the verifier; DRAIN=FOLDER has fleetgen.py and verify.py
	.venv/bin/python tests/benchmarks/drain_families.py $(BENCH_DRAIN)

bench-lab: setup  ## the drain of eight instances in a lab, and the same migrations by parallel virsh
	.venv/bin/python tests/benchmarks/drain_lab.py

build: setup  ## the collection's tarball, in build/
	.venv/bin/ansible-galaxy collection build --force --output-path build

clean: lab-down  ## lab-down, and remove the environments and everything built
	rm -rf .venv .venv-lint .venv-nova .venv-placement .ansible .cache .hypothesis .import_linter_cache .pytest_cache .ruff_cache \
		build collections importer_result.json tests/output changelogs/.plugin-cache.yaml
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
