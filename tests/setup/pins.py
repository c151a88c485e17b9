# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write a file of constraints from two of pip's reports: the versions for Python 3.11, and the
versions for 3.12 and later.

Usage: pins.py REPORT-OF-3.11 REPORT-OF-NEWER > FILE
"""

from __future__ import annotations

import json
import pathlib
import re
import sys

COMMENT = """\
# The versions that the environments get. `make pins` writes this file. The ranges are in the files of
# requirements. Python 3.10 takes what the ranges allow: many of these versions no longer support it."""


def versions(report: str) -> dict[str, str]:
    installed = [
        each["metadata"] for each in json.loads(pathlib.Path(report).read_text())["install"]
    ]
    return {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in installed}


def main() -> None:
    old, new = (versions(report) for report in sys.argv[1:])
    print(COMMENT)
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) == new.get(name):
            print(f'{name}=={old[name]}; python_version >= "3.11"')
            continue
        if name in old:
            print(f'{name}=={old[name]}; python_version == "3.11"')
        if name in new:
            print(f'{name}=={new[name]}; python_version >= "3.12"')


main()
