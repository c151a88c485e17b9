# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""YAML read by the library in C, and generated YAML in the style of the other files: lists of words
in one line.
"""

from __future__ import annotations

import textwrap
from typing import Any

import yaml

HEAD = (
    """---
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-"""
    + """Identifier: GPL-3.0-or-later
"""
)
#: PyYAML in Python alone, where its wheel has no library, takes six times as long.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
MADE = "Made by make pages from tests/pages/options.yml. Do not edit."
#: PyYAML ends a line after the word that is at this column.
WIDTH = 120


class _Dumper(yaml.SafeDumper):
    """Values with lists of words in one line, and other lists indented."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        """Indent the items of a list, as yamllint wants it."""
        super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        """Write equal values in full."""
        return True


def load(text: str) -> Any:
    """Read a document."""
    return yaml.load(text, Loader=LOADER)


def _list(dumper: yaml.SafeDumper, value: list[Any]) -> yaml.Node:
    words = all(" " not in str(each) and not isinstance(each, (dict, list)) for each in value)
    short = words and sum(len(str(each)) + 2 for each in value) < WIDTH - 30
    return dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=short)


_Dumper.add_representer(list, _list)


def dump(value: Any, indent: int = 0) -> str:
    """Return a value as YAML, indented by a number of spaces."""
    text = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, width=WIDTH - indent, allow_unicode=True
    )
    return textwrap.indent(text, " " * indent)
