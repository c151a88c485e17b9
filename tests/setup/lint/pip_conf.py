# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write pip's settings as a configuration file.

Usage: pip config list | pip_conf.py > pip.conf
"""

from __future__ import annotations

import ast
import sys


def main() -> None:
    sections: dict[str, dict[str, str]] = {}
    for line in sys.stdin:
        key, _equals, value = line.rstrip("\n").partition("=")
        section, _dot, option = key.rpartition(".")
        section = {":env:": "global"}.get(section, section)
        sections.setdefault(section, {})[option] = str(ast.literal_eval(value))
    for section, options in sections.items():
        print(f"[{section}]")
        for option, text in options.items():
            if option != "version":
                indented = text.replace("\n", "\n    ")
                print(f"{option} = {indented}")


main()
