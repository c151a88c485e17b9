# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The functions, modules and files exist that docstrings, comments and the pages for developers
name.
"""

from __future__ import annotations

import ast
import builtins
import io
import pathlib
import re
import tokenize

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"
FILES = sorted(PLUGINS.rglob("*.py"))
ROOMS = ("plugin_utils", "module_utils")
#: Functions of QEMU and of Ansible.
OF_OTHERS = {"path_has_protocol", "add_child"}

CALL = re.compile(r"(?<![\w/.])((?:[A-Za-z_]\w*\.)*)([A-Za-z_]\w*)\(\)")
PATH = re.compile(
    r"(?<![\w/])(?:module_utils|plugin_utils)/[\w/]+|(?<![\w/])_[a-z_]+/[a-z_]+(?=\.py|`)"
)
#: A path of the project in backquotes, with a name after it that stands in the file.
NAMED_FILE = re.compile(
    r"`((?:_|plugins/|roles/|playbooks/|extensions/|tests/|docs/|module_utils/)[\w./*-]*/[\w./*-]+)`"
    r"(?: `([A-Za-z_]+(?:\(\))?)`)?"
)
PACKAGES = {
    folder.name.lstrip("_")
    for room in ROOMS
    for folder in (PLUGINS / room).iterdir()
    if folder.is_dir()
}
DOTTED = re.compile(rf"(?<![\w/.@-])_?({'|'.join(sorted(PACKAGES))})\.([a-z_]+)(?![\w(])")


def texts_of(source):
    """Return the docstrings and comments of a source, each with its line."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, documented)]
    docstrings = [
        (getattr(node, "lineno", 1), ast.get_docstring(node, clean=False) or "") for node in nodes
    ]
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return docstrings + [
        (token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT
    ]


def names_of(source):
    """Return every name that a source defines or uses."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        for field in ("name", "attr", "id", "arg", "asname"):
            value = getattr(node, field, None)
            if isinstance(value, str):
                names.update(value.split("."))
    return names


def missing(text, names, modules):
    """Return the names in a text that do not exist."""
    unknown_names = []
    for match in CALL.finditer(text):
        owners = [each for each in match.group(1).split(".") if each]
        if match.group(2) not in names | OF_OTHERS or not set(owners[-1:]) <= names | modules:
            unknown_names.append(match.group())
    for match in PATH.finditer(text):
        places = [PLUGINS / match.group(), *(PLUGINS / room / match.group() for room in ROOMS)]
        if not any(place.exists() or place.with_suffix(".py").exists() for place in places):
            unknown_names.append(match.group())
    for package, module in DOTTED.findall(text):
        places = [PLUGINS / room / f"_{package}" / module for room in ROOMS]
        if (
            module != "py"
            and module not in names
            and not any(place.exists() or place.with_suffix(".py").exists() for place in places)
        ):
            unknown_names.append(f"{package}.{module}")
    return unknown_names


def test_each_name_in_a_docstring_or_comment_exists():
    sources = {path: path.read_text(encoding="utf-8") for path in FILES}
    names = set(dir(builtins)).union(*(names_of(source) for source in sources.values()))
    modules = {path.stem for path in FILES} | {path.parent.name for path in FILES}
    assert [
        f"{path.relative_to(PLUGINS)}:{line}: {name}"
        for path, source in sources.items()
        for line, text in texts_of(source)
        for name in missing(text, names, modules)
    ] == []


def _text(path):
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def test_each_file_that_the_pages_for_developers_name_exists():
    """The name of a function or constant after a file is a name in this file."""
    root = PLUGINS.parent
    bases = (root, PLUGINS, *(PLUGINS / room for room in ROOMS))
    wrong = []
    for page in ("docs/architecture.md", "CONTRIBUTING.md"):
        for name, inside in NAMED_FILE.findall((root / page).read_text(encoding="utf-8")):
            if re.search(r"NAME|NNNN|PACKAGE", name):
                continue
            places = [base / each for base in bases for each in (name, f"{name}.py")]
            files = [each for each in places if each.exists()]
            if not files or inside.rstrip("()") not in _text(files[0]):
                wrong.append(f"{page}: {name} {inside}".rstrip())
    assert wrong == []


def test_a_name_that_is_gone_is_found():
    text = "See plan_of_old(), rules.of_old() and _planner/old.py; planner.old_name decides."
    assert missing(text, {"rules"}, set()) == [
        "plan_of_old()",
        "rules.of_old()",
        "_planner/old",
        "planner.old_name",
    ]
