# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A status is compared only with words that it may have, and the types of arguments have the names
of the options.
"""

from __future__ import annotations

import ast
import importlib
import pathlib
import typing

import pytest

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"
PACKAGE = "ansible_collections.drover.compute.plugins"
#: The modules that have the words of states as Literals.
WORDS_OF = (
    "plugin_utils._records.statuses",
    "plugin_utils._records.plans",
    "module_utils._domain.facts",
    "module_utils._ownership.move_record",
    "module_utils._restart.restart",
    "module_utils._disk_move.move",
)
#: The fields that are states.
FIELDS = ("status", "phase", "stage")
ACTIONS = sorted(
    path.stem
    for path in (PLUGINS / "action").glob("*.py")
    if "class ActionModule" in path.read_text(encoding="utf-8")
)


def words_of(module):
    """Return the words of all Literals of a module, also inside its TypedDicts."""
    found = set()
    tree = ast.parse((PLUGINS / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal":
            found |= {each.value for each in ast.walk(node.slice) if isinstance(each, ast.Constant)}
    return found


KNOWN = set().union(*map(words_of, WORDS_OF))


def field_of(node):
    """Return the name of the field that an expression reads, None if it reads none."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        return node.slice.value
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        is_get = node.func.attr == "get" and isinstance(node.args[0], ast.Constant)
        return node.args[0].value if is_get else None
    return node.attr if isinstance(node, ast.Attribute) else None


def compared(text):
    """Yield (line, field, word) of each comparison of a state with a word."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Compare):
            continue
        field = field_of(node.left)
        for each in node.comparators:
            for word in each.elts if isinstance(each, (ast.Tuple, ast.Set, ast.List)) else [each]:
                if (
                    field in FIELDS
                    and isinstance(word, ast.Constant)
                    and isinstance(word.value, str)
                ):
                    yield node.lineno, field, word.value


@pytest.mark.parametrize("field", FIELDS)
def test_a_state_is_compared_with_words_that_it_may_have(field):
    odd = [
        f"{path.relative_to(PLUGINS)}:{line}: {word}"
        for path in sorted(PLUGINS.rglob("*.py"))
        for line, name, word in compared(path.read_text(encoding="utf-8"))
        if name == field and word not in KNOWN
    ]
    assert odd == []


def test_an_unknown_word_is_found():
    text = 'a["status"] == "ended"\nb.get("phase") in ("x", "done")\nc.stage != "done"'
    assert sorted(compared(text)) == [
        (1, "status", "ended"),
        (2, "phase", "done"),
        (2, "phase", "x"),
        (3, "stage", "done"),
    ]
    assert "ended" not in KNOWN
    assert "completed" in KNOWN


def test_a_restart_has_the_same_words_on_both_sides():
    """The records of the controller do not import the code that restarts."""
    statuses = importlib.import_module(f"{PACKAGE}.plugin_utils._records.statuses")
    restarted = importlib.import_module(f"{PACKAGE}.module_utils._restart.restart").Restarted
    assert typing.get_type_hints(restarted)["status"] == statuses.RestartStatus


@pytest.mark.parametrize("name", ACTIONS)
def test_the_arguments_of_an_action_have_the_names_of_its_options(name):
    action = importlib.import_module(f"{PACKAGE}.action.{name}").ActionModule
    arguments = next(each for base in action.__orig_bases__ for each in typing.get_args(base))
    if name == "compute_node":
        pytest.skip("its arguments are no TypedDict yet")
    odd = set(arguments.__annotations__) ^ set(action.ARGUMENT_SPEC)
    if arguments.__name__ == "KeptArgs":
        # The action passes its other options on and reads none of them.
        odd &= set(arguments.__annotations__)
    assert odd == set()
