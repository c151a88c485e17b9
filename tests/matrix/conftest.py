# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The number of cells of the matrix that were tried."""

from __future__ import annotations


def _is_cell(nodeid):
    return "tests/matrix/test_matrix.py::test_cell[" in nodeid


def pytest_terminal_summary(terminalreporter, config):
    counts = {
        outcome: len(
            [each for each in terminalreporter.stats.get(outcome, []) if _is_cell(each.nodeid)]
        )
        for outcome in ("passed", "failed")
    }
    if any(counts.values()):
        share = config.getoption("one_in")
        sample = f", a sample of one in {share}" if share > 1 else ""
        terminalreporter.write_line(
            f"Fault matrix, simulated: {sum(counts.values())} cells tried{sample},"
            f" {counts['failed']} violations"
        )
