# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The results of the lab's tests on hosts of each release, and their page.

``DROVER_WRITE_EXPECTED=1 DROVER_LAB_RELEASE=trixie pytest tests/lab/test_place.py`` records the
results of that file; ``make pages`` writes the page.
"""

from __future__ import annotations

import ast
import datetime
import json
import pathlib
import subprocess
from typing import Any

from ansible_collections.drover.compute.tests.unit import examples

FILE = examples.ROOT / "tests" / "lab" / "tested.json"
PAGE = examples.ROOT / "docs" / "tested.md"

#: The programs of a host whose versions the page has: title, command, number of the word.
PROGRAMS = (
    ("libvirt", "libvirtd --version", 2),
    ("QEMU", "qemu-system-x86_64 --version", 3),
    ("Python", "python3 --version", 1),
)

INTRODUCTION = """\
{made}
# Tested releases

The tests of the lab (`tests/lab`) run with hosts of each release: each host has libvirt, QEMU and Python of that release, on the kernel of the
machine that runs the tests. A number is the number of tests that passed; "-": not run there. Most tests start guests, so they need `make
test-all` or hours; a run with `DROVER_LAB_RELEASE={example}` and `DROVER_WRITE_EXPECTED=1` records its results for this page.

Other tests have hosts of several releases in one fleet: `tests/lab/test_newer_release.py`, `tests/lab/test_upgrade.py` and
`tests/lab/test_migration_matrix.py`. Debian: bullseye is 11, bookworm 12, trixie 13, sid the next one; noble is Ubuntu 24.04.
"""


def record(release: str, root: pathlib.Path, counts: dict[str, dict[str, int]]) -> None:
    """Keep the results of a run, in place of earlier ones of the same files.

    :param root: the root of the hosts.
    :param counts: {name of a file: {"passed", "failed" or "skipped": number of tests}}.
    """
    results = json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else {}
    of_release = results.setdefault(release, {"files": {}})
    of_release["versions"] = {
        title: _version(root, command, word) for title, command, word in PROGRAMS
    }
    today = datetime.date.today().isoformat()
    for name, numbers in counts.items():
        of_release["files"][name] = {**numbers, "date": today}
    FILE.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _version(root: pathlib.Path, command: str, word: int) -> str:
    said = subprocess.run(
        ["chroot", root, *command.split()], capture_output=True, text=True, check=True
    )
    return said.stdout.split()[word]


def page(made: str) -> str:
    """Return the page.

    :param made: the comment that names its origin.
    """
    results: dict[str, dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    # By the version of libvirt, the oldest first.
    releases = sorted(
        results,
        key=lambda name: [int(part) for part in results[name]["versions"]["libvirt"].split(".")],
    )
    rows = [["", *releases], ["---"] * (len(releases) + 1)]
    rows += [
        [title, *(results[name]["versions"][title] for name in releases)]
        for title, dummy, dummy in PROGRAMS
    ]
    files = sorted({name for release in results.values() for name in release["files"]})
    for name in files:
        cells = [_cell(results[release]["files"].get(name)) for release in releases]
        rows.append([f"`{name}`: {_subject(name)}", *cells])
    dates = [each["date"] for one in results.values() for each in one["files"].values()]
    lines = [f"| {' | '.join(row)} |".replace("|  |", "| |") for row in rows]
    return (
        INTRODUCTION.format(made=made, example=releases[-1])
        + f"\nThe runs: {min(dates)} to {max(dates)}.\n\n"
        + "\n".join(lines)
        + "\n"
    )


def _cell(counts: dict[str, Any] | None) -> str:
    if counts is None:
        return "-"
    words = [
        f"{counts[word]} {word}" if word != "passed" else str(counts[word])
        for word in ("passed", "failed", "skipped")
        if counts.get(word)
    ]
    return ", ".join(words) or "-"


def _subject(name: str) -> str:
    """Return the first sentence of a file's docstring."""
    text = (FILE.parent / name).read_text(encoding="utf-8")
    docstring = " ".join((ast.get_docstring(ast.parse(text)) or "").split())
    return docstring.partition(". ")[0].rstrip(".").replace("|", "\\|")
