# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nova's own unit tests against our engine: host filters, weighers, cells, devices and requests to
Placement.

    .venv-nova/bin/python tests/benchmarks/nova_tests/run.py [--nova] [-v] [MODULE ...]

The tests are read from the installed package nova. bench-nova-tests.sh installs their requirements.
MODULE is a name below nova.tests.unit, such as scheduler.filters.test_affinity_filters; without one
all tests run that known.py counts, and the exit status is the result of the comparison with its
numbers. ``--nova`` runs them with Nova's code, to check the environment.

Each test counts once: not applicable (known.py has the reason, or our engine was never called),
passed or failed. known.py has each test that may fail, with the reason why our result differs on
purpose. With ADAPTER_INVERT=1 each host filter gives the opposite and weights are negative, to
check that the tests notice it.
"""

from __future__ import annotations

import argparse
import collections
import fnmatch
import os
import pathlib
import sys
import unittest
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
import conftest  # noqa: E402, F401  pylint: disable=unused-import

os.environ["OS_NOVA_DISABLE_EVENTLET_PATCHING"] = "1"
warnings.simplefilter("ignore")

# This import is first, because it sets the mode of Nova.
import nova.tests.unit  # noqa: E402, F401  pylint: disable=unused-import
import nova.tests.unit.scheduler as folder  # noqa: E402

from ansible_collections.drover.compute.tests.benchmarks.nova_tests import known  # noqa: E402

START = "nova.tests.unit."
NOT_APPLICABLE, PASSED, FAILED = "not applicable", "passed", "failed"


def all_modules():
    """Return the names of the modules with tests, below nova.tests.unit."""
    folder_path = pathlib.Path(folder.__path__[0])
    names = [
        f"scheduler.{kind}.{file.stem}"
        for kind in ("filters", "weights")
        for file in sorted((folder_path / kind).glob("test_*.py"))
    ]
    return [*names, *known.MODULES]


class Result(unittest.TestResult):
    """The outcome of each test, with the number of calls of our engine."""

    def __init__(self, asked):
        super().__init__()
        self._asked, self._before = asked, 0
        self.found = {}

    def startTest(self, test):
        super().startTest(test)
        self._before = self._asked["count"]

    def _note(self, test, outcome, why=""):
        self.found[test.id().removeprefix(START)] = (
            outcome,
            self._asked["count"] > self._before,
            why,
        )

    def addSuccess(self, test):
        self._note(test, PASSED)

    def addFailure(self, test, err):
        self._note(test, FAILED, self._exc_info_to_string(err, test))

    addError = addFailure

    def addSkip(self, test, reason):
        self._note(test, NOT_APPLICABLE, reason)


def cases(suite):
    """Return the single tests of a suite."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from cases(test)
        else:
            yield test


def listed(name, table):
    """Return the entry of a table with a pattern that matches a name; None without one."""
    return next(
        (value for pattern, value in table.items() if fnmatch.fnmatchcase(name, pattern)), None
    )


def last_line(trace):
    """Return the last line of a trace."""
    lines = [line.strip() for line in trace.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def verdict(name, outcome, was_asked, why):
    """Return (outcome, reason) of a test with our engine."""
    reason = listed(name, known.NOT_APPLICABLE)
    if reason is None and "NotApplicable: " in why:
        reason = last_line(why).partition("NotApplicable: ")[2]
    if reason is None and not was_asked:
        reason = "our engine was never asked"
    if reason is not None:
        return NOT_APPLICABLE, reason
    return outcome, last_line(why)


def failures(found, are_all):
    """Return the errors, in sentences.

    :param found: {name of a test: (outcome, reason)}.
    :param are_all: True if all tests ran, so that their numbers are known.
    """
    wrong = [
        f"{name}: {reason}"
        for name, (outcome, reason) in found.items()
        if outcome == FAILED and listed(name, known.ON_PURPOSE) is None
    ]
    wrong += [
        f"{name}: is listed in known.py as one that differs on purpose, and passes"
        for name, (outcome, _reason) in found.items()
        if outcome == PASSED and listed(name, known.ON_PURPOSE) is not None
    ]
    if are_all:
        counts = collections.Counter(outcome for outcome, _reason in found.values())
        seen = {
            "applicable": counts[PASSED] + counts[FAILED],
            "different on purpose": counts[FAILED],
        }
        wrong += [
            f"{seen[key]} tests are {key}, not {number}."
            for key, number in known.NUMBERS.items()
            if seen[key] != number
        ]
    return wrong


def main():
    parser = argparse.ArgumentParser(description="Nova's own unit tests against our engine.")
    parser.add_argument("modules", nargs="*", metavar="MODULE")
    parser.add_argument("--nova", action="store_true", help="with Nova's own code")
    parser.add_argument(
        "-v",
        "--verbose",
        action="store_true",
        help="name each test that did not pass, with the reason",
    )
    options = parser.parse_args()
    uses = collections.Counter()
    if not options.nova:
        from ansible_collections.drover.compute.tests.benchmarks.nova_tests import (
            adapter,
            cells_and_placement,
        )

        adapter.install()
        cells_and_placement.install()
        uses = adapter.ASKED
    result = Result(uses)
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames([START + name for name in options.modules or all_modules()])
    if loader.errors:
        sys.exit(
            "Tests of Nova cannot be loaded: "
            + "; ".join(sorted({last_line(each) for each in loader.errors}))
        )
    for case in cases(suite):
        case.run(result)
    verdicts = {
        name: (outcome, last_line(why)) if options.nova else verdict(name, outcome, was_asked, why)
        for name, (outcome, was_asked, why) in sorted(result.found.items())
    }
    rows = collections.defaultdict(collections.Counter)
    for name, (outcome, reason) in verdicts.items():
        rows[name.rsplit(".", 2)[0]][outcome] += 1
        if options.verbose and outcome != PASSED:
            print(f"{outcome:14} {name}\n               {reason}")
    for module, counts in [*rows.items(), ("all", sum(rows.values(), collections.Counter()))]:
        print(
            f"{module:75} {'  '.join(f'{key} {number}' for key, number in sorted(counts.items()))}"
        )
    if options.nova:
        return 1 if any(outcome == FAILED for outcome, _reason in verdicts.values()) else 0
    print(
        "rows of tables that drover refuses, which Nova answered:"
        f" {cells_and_placement.LENT['count']}"
    )
    wrong = failures(verdicts, not options.modules)
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
