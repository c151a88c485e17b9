# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each rule of docs/safety.md has tests in tests/safety_rules.yml, and these and the faults
exist.
"""

from __future__ import annotations

import ast
import functools
import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECTIONS = re.split(
    r"^## (?=S\d+ )", (ROOT / "docs" / "safety.md").read_text(encoding="utf-8"), flags=re.MULTILINE
)[1:]
#: Each rule's statement about the fault matrix: a separate paragraph.
MATRIX = {
    section.split()[0]: re.findall(
        r"^(?:In|Not in) the matrix: .+?(?:\n\n|\n\Z)", section, re.MULTILINE | re.DOTALL
    )
    for section in SECTIONS
}
TESTS = yaml.safe_load((ROOT / "tests" / "safety_rules.yml").read_text(encoding="utf-8"))
NAMED = [(rule, name) for rule, names in TESTS.items() for name in names]


@functools.cache
def functions_of(file):
    """Return the test functions that a file defines itself."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def keys_of(file, name):
    """Return the keys of a dict at the top of a file of the matrix."""
    tree = ast.parse((ROOT / "tests" / "matrix" / file).read_text(encoding="utf-8"))
    (table,) = (
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == name
    )
    return {key.value for key in table.keys}


def test_every_rule_is_there_once_and_has_tests():
    rules = [f"S{number}" for number in range(1, 23)]
    assert [section.split()[0] for section in SECTIONS] == rules
    assert list(TESTS) == rules and all(TESTS.values())


@pytest.mark.parametrize("rule, name", NAMED)
def test_a_test_that_is_named_exists(rule, name):
    file, dummy, test = name.partition("::")
    if test:
        assert test in functions_of(file)
    else:
        assert (ROOT / file / "commands.yml").is_file() and (ROOT / file / "expected.yml").is_file()


@pytest.mark.parametrize("rule", MATRIX)
def test_each_rule_names_what_of_the_matrix_shows_it(rule):
    (said,) = MATRIX[rule]
    assert set(re.findall(r"`(.+?)`", said)) <= keys_of("faults.py", "FAULTS") | keys_of(
        "operations.py", "OPERATIONS"
    )
