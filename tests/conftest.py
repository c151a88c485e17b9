# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of each ``make test``, and the tests of ``make test-all`` only.

``-m 'not long'`` leaves out the tests that are marked as long, and PostgreSQL above the store: the
tests of the store itself cover the differences. ``--one-in N`` tries a fixed sample of the fault
matrix and of the golden scenarios.
"""

from __future__ import annotations

import os
import zlib

import pytest

from ansible_collections.drover.compute.tests import parts

SAMPLED = (
    "tests/matrix/test_matrix.py::test_cell[",
    "tests/scenarios/test_scenarios.py::test_scenario[",
    "tests/scenarios/test_order.py::test_a_change_in_the_order_changes_a_scenario[",
    "tests/unit/test_layering.py::test_contract_breaks[",
    # Each has runs of ansible-playbook, or long waits.
    "tests/unit/action/test_aggregate_and_flavor.py::",
    "tests/unit/action/test_alignment.py::",
    "tests/unit/action/test_bmc_power.py::",
    "tests/unit/action/test_delegation.py::",
    "tests/unit/action/test_discover_max_age.py::",
    "tests/unit/action/test_failures_are_short.py::",
    "tests/unit/action/test_hanging_host.py::",
    "tests/unit/action/test_instance_labels.py::",
    "tests/unit/action/test_limit.py::",
    "tests/unit/action/test_metrics.py::",
    "tests/unit/action/test_migration_trust_",
    "tests/unit/action/test_no_selector.py::",
    "tests/unit/action/test_notify.py::",
    "tests/unit/action/test_other_machine.py::test_no_operation_touches_it[",
    "tests/unit/action/test_place_looks_everywhere.py::",
    "tests/unit/action/test_plans_as_modules.py::",
    "tests/unit/action/test_resize_of_pinned.py::",
    "tests/unit/action/test_resize_without_domain.py::",
    "tests/unit/action/test_rolling_role.py::",
    "tests/unit/action/test_start_looks_everywhere.py::",
    "tests/unit/action/test_tags.py::",
    "tests/unit/action/test_wrong_input.py::",
    "tests/unit/events/test_source.py::",
    "tests/unit/inventory/test_fleet_inventory.py::",
    "tests/unit/module_utils/test_files.py::",
    "tests/unit/simulation/test_losses_agree.py::",
    "tests/unit/store/test_least_privilege.py::",
    "tests/unit/test_pages_current.py::test_output_is_what_the_command_prints[",
    "tests/unit/test_security.py::",
)

#: Files that take long too, with runs of ansible-playbook or many stores. A run with a sample tries
#: one in eight of their tests.
PLAYED = (
    "tests/unit/action/test_actions.py::",
    "tests/unit/action/test_dead_master.py::test_f",
    "tests/unit/action/test_decisions_of_tasks.py::",
    "tests/unit/action/test_definitions_kept.py::",
    "tests/unit/action/test_delegated_connection.py::",
    "tests/unit/action/test_disk_growth.py::",
    "tests/unit/action/test_evacuated_definitions.py::",
    "tests/unit/action/test_evacuate_check.py::",
    "tests/unit/action/test_foreign_variables.py::test_walk_f03",
    "tests/unit/action/test_host_leaves.py::test_walk_f10_the_playbooks",
    "tests/unit/action/test_hostile_variables.py::",
    "tests/unit/action/test_instance_devices.py::",
    "tests/unit/action/test_instances.py::",
    "tests/unit/action/test_instances_of_the_fleet.py::",
    "tests/unit/action/test_known_variables.py::",
    "tests/unit/action/test_lease.py::",
    "tests/unit/action/test_own_host_keeps_its_power.py::",
    "tests/unit/action/test_providers.py::",
    "tests/unit/action/test_questions.py::",
    "tests/unit/action/test_report_module.py::",
    "tests/unit/action/test_silent_hosts.py::",
    "tests/unit/action/test_simulate_module.py::",
    "tests/unit/action/test_stale_while_unread.py::",
    "tests/unit/action/test_statements.py::",
    "tests/unit/action/test_store_module.py::",
    "tests/unit/action/test_store_url.py::",
    "tests/unit/action/test_terminal.py::",
    "tests/unit/action/test_who_did_what.py::",
    "tests/unit/candidates/test_candidate_properties.py::",
    "tests/unit/conductor/",
    "tests/unit/lookup/test_lookups.py::",
    "tests/unit/migrations/test_limits.py::",
    "tests/unit/numa/test_fit_properties.py::",
    "tests/unit/planner/test_drain_properties.py::",
    "tests/unit/planner/test_plan_properties.py::",
    "tests/unit/report/",
    "tests/unit/scheduler/test_bad_",
    "tests/unit/scheduler/test_more_properties.py::",
    "tests/unit/store/test_audit.py::",
    "tests/unit/store/test_claims.py::",
    "tests/unit/store/test_everything_together.py::",
    "tests/unit/store/test_pooler.py::",
    "tests/unit/store/test_quotas.py::",
    "tests/unit/store/test_resource_providers.py::",
    "tests/unit/store/test_storage_pools.py::",
    "tests/unit/store/test_store_engine.py::",
    "tests/unit/store/test_transfer.py::",
    "tests/unit/store/test_upgrades.py::",
    "tests/unit/test_community_package.py::",
)


def pytest_addoption(parser):
    parser.addoption(
        "--one-in",
        type=int,
        default=1,
        help="of the tests of which there are many try one in so many, always the same ones",
    )


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "long: too long for make test; make test-operations runs it."
    )


_left_out = []


def pytest_runtest_logreport(report):
    if (part := parts.left_out(report)) and not os.environ.get("PYTEST_XDIST_WORKER"):
        _left_out.append(part)


def pytest_terminal_summary(terminalreporter):
    for part in dict.fromkeys(_left_out):
        terminalreporter.write_line(f"{_left_out.count(part)} tests were left out. {part}")
    if _left_out:
        parts.note(_left_out)


def _is_sampled(item):
    return any(each in item.nodeid for each in SAMPLED) or (
        _is_on_postgresql(item) and "tests/unit/store/" in item.nodeid
    )


def _share(item, share):
    """Return N if one in N tests like this is tried."""
    if _is_sampled(item):
        return share
    return min(share, 8) if any(each in item.nodeid for each in PLAYED) else 1


def _is_on_postgresql(item):
    given = getattr(item, "callspec", None)
    return given is not None and "postgresql" in given.params.values()


def _is_above_the_store(item):
    return "tests/unit/" in item.nodeid and "tests/unit/store/" not in item.nodeid


def in_sample(name, share):
    """Return True if the sample of one in so many contains a test of this name; the sample is
    always the same."""
    return zlib.crc32(name.encode()) % share == 0


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        if _is_on_postgresql(item) and _is_above_the_store(item):
            item.add_marker(pytest.mark.long)
    share = config.getoption("one_in")
    left_out = [item for item in items if not in_sample(item.name, _share(item, share))]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
