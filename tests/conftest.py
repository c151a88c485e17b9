# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What runs in each ``make test``, and what only in ``make test-all``.

``-m 'not long'`` leaves out what is marked as long, and PostgreSQL above the store: what differs there is tested with the
store itself. ``--one-in N`` tries a fixed sample of the fault matrix and of the golden scenarios.
"""

from __future__ import annotations

import zlib

import pytest

SAMPLED = ("tests/matrix/test_matrix.py::test_cell[", "tests/scenarios/test_scenarios.py::test_scenario[")


def pytest_addoption(parser):
    parser.addoption("--one-in", type=int, default=1, help="of the fault matrix and the scenarios try one in so many, always the same ones")


def pytest_configure(config):
    config.addinivalue_line("markers", "long: too long for make test; make test-operations runs it.")


def _is_sampled(item):
    return any(each in item.nodeid for each in SAMPLED)


def _is_above_the_store(item):
    return "tests/unit/" in item.nodeid and "tests/unit/store/" not in item.nodeid


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    for item in items:
        given = getattr(item, "callspec", None)
        if given is not None and "postgresql" in given.params.values() and _is_above_the_store(item):
            item.add_marker(pytest.mark.long)
    share = config.getoption("one_in")
    left_out = [item for item in items if _is_sampled(item) and zlib.crc32(item.name.encode()) % share]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]
