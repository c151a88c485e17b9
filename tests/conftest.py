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
    "tests/matrix/test_full_disk.py::",
    "tests/matrix/test_promoted_standby.py::",
    "tests/scenarios/test_scenarios.py::test_scenario[",
    "tests/scenarios/test_order.py::test_a_change_in_the_order_changes_a_scenario[",
    "tests/properties/test_layering.py::test_contract_breaks[",
    # Each has runs of ansible-playbook, or long waits.
    "tests/unit/action/test_aggregate_and_flavor.py::",
    "tests/unit/action/test_alignment.py::",
    "tests/unit/action/test_bmc_power.py::",
    "tests/unit/ansible_border/test_delegation.py::",
    "tests/properties/playbooks/test_discover_max_age.py::",
    "tests/properties/playbooks/test_failures_are_short.py::",
    "tests/properties/playbooks/test_hanging_host.py::",
    "tests/unit/action/test_instance_labels.py::",
    "tests/properties/playbooks/test_limit.py::",
    "tests/unit/action/test_metrics.py::",
    "tests/unit/action/test_migration_trust_",
    "tests/properties/playbooks/test_notify.py::",
    "tests/properties/playbooks/test_other_machine.py::test_no_operation_touches_it[",
    "tests/properties/playbooks/test_place_looks_everywhere.py::",
    "tests/properties/playbooks/test_plans_as_modules.py::",
    "tests/unit/action/test_resize_of_pinned.py::",
    "tests/unit/action/test_resize_without_domain.py::",
    "tests/unit/action/test_rolling_role.py::",
    "tests/properties/playbooks/test_start_looks_everywhere.py::",
    "tests/properties/playbooks/test_tags.py::",
    "tests/properties/playbooks/test_wrong_input.py::",
    "tests/properties/test_event_source.py::",
    "tests/unit/inventory/test_fleet.py::",
    "tests/unit/module_utils/files/test_access.py::",
    "tests/properties/scheduling/test_losses_agree.py::",
    "tests/properties/store/test_least_privilege.py::",
    "tests/properties/test_pages_current.py::test_output_is_what_the_command_prints[",
    "tests/properties/test_security.py::",
)

#: Folders and files that take long too, with runs of ansible-playbook or many stores. A run with a
#: sample tries one in eight of their tests.
PLAYED = (
    "tests/properties/hosts/",
    "tests/properties/lookups/test_lookups.py::",
    "tests/properties/playbooks/",
    "tests/properties/scheduling/test_bad_",
    "tests/properties/scheduling/test_candidate_properties.py::",
    "tests/properties/scheduling/test_fit_properties.py::",
    "tests/properties/scheduling/test_more_properties.py::",
    "tests/properties/scheduling/test_plan_properties.py::",
    "tests/properties/store/",
    "tests/properties/test_community_package.py::",
    "tests/properties/test_report_in_a_browser.py::",
    "tests/properties/test_said_once.py::",
    "tests/unit/action/",
    "tests/unit/ansible_border/test_foreign_variables.py::test_walk_f03",
    "tests/unit/ansible_border/test_known_variables.py::",
    "tests/unit/ansible_border/test_options.py::",
    "tests/unit/ansible_border/test_terminal.py::",
    "tests/unit/conductor/",
    "tests/unit/migrations/test_limits.py::",
    "tests/unit/modules/test_domain_files.py::",
    "tests/unit/modules/test_image_file.py::",
    "tests/unit/placement/test_audit.py::",
    "tests/unit/placement/test_claims.py::",
    "tests/unit/placement/test_resource_providers.py::",
    "tests/unit/planner/test_drain_properties.py::",
    "tests/unit/report/",
    "tests/unit/store/test_engine.py::",
    "tests/unit/store/test_quotas.py::",
    "tests/unit/store/test_revisions.py::",
    "tests/unit/store/test_transfer.py::",
    "tests/unit/tracker/test_storage_pools.py::",
)

#: The tests of the store itself: they cover the differences between the databases.
STORE = (
    "tests/properties/store/",
    "tests/unit/conductor/test_used_files.py::",
    "tests/unit/migrations/",
    "tests/unit/placement/",
    "tests/unit/store/",
    "tests/unit/tracker/test_pools_listing.py::",
    "tests/unit/tracker/test_storage_pools.py::",
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
        _is_on_postgresql(item) and _is_of_the_store(item)
    )


def _share(item, share):
    """Return N if one in N tests like this is tried."""
    if _is_sampled(item):
        return share
    return min(share, 8) if any(each in item.nodeid for each in PLAYED) else 1


def _is_on_postgresql(item):
    given = getattr(item, "callspec", None)
    return given is not None and "postgresql" in given.params.values()


def _is_of_the_store(item):
    return any(each in item.nodeid for each in STORE)


def _is_above_the_store(item):
    return ("tests/unit/" in item.nodeid or "tests/properties/" in item.nodeid) and not (
        _is_of_the_store(item)
    )


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
