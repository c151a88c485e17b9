# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the table of docs/support.md from the counts of the migration matrix: migration_table.py
FOLDER."""

from __future__ import annotations

import collections
import json
import pathlib
import sys

ORDER = ("bullseye", "bookworm", "trixie", "sid")


def dotted(number: int) -> str:
    return f"{number // 1000000}.{number // 1000 % 1000}"


def rows(folder: pathlib.Path) -> list[str]:
    lines = [
        "| From: libvirt, QEMU | To | Cells | Moved | Refused | Conflict | Failed | Back: refused |",
        "|---|---|---|---|---|---|---|---|",
    ]
    totals = [0] * 6
    files = sorted(
        folder.glob("*-*.json"),
        key=lambda file: [ORDER.index(each) for each in file.stem.split("-")],
    )
    for file in files:
        found = json.loads(file.read_text(encoding="utf-8"))
        old, new = file.stem.split("-")
        there, back = collections.Counter(), collections.Counter()
        for name, counts in found["cells"].items():
            (back if name.startswith("older") else there).update(counts)
        numbers = [
            there.total(),
            there["moved"],
            there["refused"],
            there["conflict"],
            there["failed"],
            back["refused"],
        ]
        totals = [sum(each) for each in zip(totals, numbers)]
        hosts = [
            f"{name}: {dotted(found['versions'][host][1])}, {dotted(found['versions'][host][0])}"
            for name, host in ((old, "kvm1"), (new, "kvm2"))
        ]
        lines.append(f"| {' | '.join([*hosts, *map(str, numbers)])} |")
    return [*lines, f"| all | | {' | '.join(map(str, totals))} |"]


if __name__ == "__main__":
    print("\n".join(rows(pathlib.Path(sys.argv[1]))))
