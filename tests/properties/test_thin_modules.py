# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module is its documentation, its argument spec and one call of a package of module_utils."""

from __future__ import annotations

import ast
import pathlib

import pytest

MODULES = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "modules"
DEFINITIONS = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef)


def definitions(source):
    """Return the names of classes and functions in a source, except ``main``."""
    return [
        node.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, DEFINITIONS) and node.name != "main"
    ]


@pytest.mark.parametrize("path", sorted(MODULES.glob("*.py")), ids=lambda path: path.stem)
def test_a_module_defines_only_main(path):
    assert definitions(path.read_text(encoding="utf-8")) == []


def test_the_test_sees_definitions():
    source = "def main():\n    def inner(): pass\nclass Change:\n    def run(self): pass\n"
    assert sorted(definitions(source)) == ["Change", "inner", "run"]
