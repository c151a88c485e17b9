# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A fixed sample of the matrix, and how many of its cells were tried."""

from __future__ import annotations

import zlib


def pytest_addoption(parser):
    parser.addoption("--one-in", type=int, default=1, help="of the fault matrix try one cell in so many, always the same ones")


def _is_cell(nodeid):
    return "tests/matrix/test_matrix.py::test_cell[" in nodeid


def pytest_collection_modifyitems(config, items):
    share = config.getoption("one_in")
    left_out = [item for item in items if _is_cell(item.nodeid) and zlib.crc32(item.name.encode()) % share]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]


def pytest_terminal_summary(terminalreporter, config):
    counts = {
        outcome: len([each for each in terminalreporter.stats.get(outcome, []) if _is_cell(each.nodeid)]) for outcome in ("passed", "failed")
    }
    if any(counts.values()):
        share = config.getoption("one_in")
        sample = f", a sample of one in {share}" if share > 1 else ""
        terminalreporter.write_line(f"Fault matrix, simulated: {sum(counts.values())} cells tried{sample}, {counts['failed']} violations")
