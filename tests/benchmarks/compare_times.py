# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU times of Placement and of ours, for bench-placement.sh: FOLDER CASE ...

The program reads CASE.theirs.json and CASE.ours.json. The answers must be equal, and the limits of
the cases must be kept.
"""

from __future__ import annotations

import json
import pathlib
import sys

if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
    import conftest  # noqa: F401  pylint: disable=unused-import

from ansible_collections.drover.compute.tests.benchmarks.compare_candidates import differences

BARS = {"perfload": 20, "nested": 10, "sharing": 10}


def main():
    folder, wrong, spent = pathlib.Path(sys.argv[1]), 0, {}
    for case in sys.argv[2:]:
        theirs, ours = (
            json.loads((folder / f"{case}.{whose}.json").read_text())["queries"][0]
            for whose in ("theirs", "ours")
        )
        texts = differences(theirs, ours)
        bar = BARS[case.partition("-")[0]]
        ratio = theirs["cpu_ms"] / ours["cpu_ms"]
        spent[case] = ours["cpu_ms"]
        wrong |= bool(texts) or ratio < bar
        print(
            f"{case}: {ours['count']} candidates, Placement {theirs['cpu_ms']:.1f} ms, ours"
            f" {ours['cpu_ms']:.1f} ms of CPU, {ratio:.1f} times (bar"
            f" {bar}){'; the answers differ: ' + texts[0] if texts else ''}"
        )
    if {"perfload-1000", "perfload-10000"} <= set(spent):
        growth = spent["perfload-10000"] / spent["perfload-1000"]
        wrong |= growth > 10
        print(f"ten times the providers take {growth:.1f} times as long (bar 10)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
