# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The names of the engine are the words of the field. The names in RETIRED were private to this
collection, and do not come back.

docs/architecture.md has the words that replace them.
"""

from __future__ import annotations

import ast
import pathlib

import pytest

ENGINE = pathlib.Path(__file__).parents[2] / "plugins" / "plugin_utils"
#: The names of functions, classes, attributes, arguments, variables and files.
RETIRED = {
    "alike",
    "beyond",
    "board",
    "caps",
    "chooser",
    "deciding",
    "distinct",
    "exact_room",
    "fitting",
    "forecast",
    "idle",
    "journal",
    "ladder",
    "losing",
    "making_room",
    "narrowing",
    "once",
    "picture",
    "reach",
    "returning",
    "rewrite",
    "rooms",
    "series",
    "told",
    "turn_to",
    "vague",
}
#: Words with a plain meaning that these files need.
PLAIN = {
    ("_ansible_border/remote_module.py", "reach"),
    ("_conductor/ports.py", "reach"),
    ("_report/view.py", "once"),
}
FILES = sorted(ENGINE.rglob("*.py"))


def names(text):
    """Yield the names that a file defines, in lower case and without underscores around them."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def retired(place, text):
    found = {name.strip("_").lower() for name in [*names(text), pathlib.Path(place).stem]} & RETIRED
    return {name for name in found if (place, name) not in PLAIN}


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(ENGINE)) for path in FILES])
def test_no_retired_name(path):
    assert not retired(str(path.relative_to(ENGINE)), path.read_text())


def test_a_retired_name_is_seen():
    text = "class Board:\n    def _told(self, chooser):\n        self.rooms = series = chooser\n"
    assert retired("planner/packing_state.py", text) == {
        "board",
        "told",
        "chooser",
        "rooms",
        "series",
    }
    assert retired("report/picture.py", "") == {"picture"}
