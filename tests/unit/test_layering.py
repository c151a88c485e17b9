# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules about which room may import which (docs/architecture.md), one test for each.

The rules themselves are import-linter contracts in ``.importlinter``. Three kinds of tests:

* each contract holds on the collection;
* each contract breaks on a tiny tree with one violation, so that none of them sleeps;
* what import-linter cannot say is read from the syntax trees of the files.
"""

from __future__ import annotations

import ast
import configparser
import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"
CONFIG = ROOT / ".importlinter"
PACKAGE = "ansible_collections.drover.compute.plugins"

_PARSER = configparser.ConfigParser()
_PARSER.read(CONFIG)
CONTRACTS = {
    section.rsplit(":", 1)[1]: _PARSER[section]["name"]
    for section in _PARSER.sections()
    if section.startswith("importlinter:contract:")
}

# contract -> violations, each (file that breaks it, its import).
VIOLATIONS = {
    "scheduler-is-pure": [
        ("plugin_utils/scheduler/room.py", "import sqlalchemy"),
        ("plugin_utils/scheduler/room.py", "from ansible.errors import AnsibleError"),
        ("plugin_utils/scheduler/host_filters/deep.py", "import libvirt"),
        ("plugin_utils/scheduler/room.py", f"from {PACKAGE}.plugin_utils.store import room"),
        # Indirectly: by a file that everybody may use.
        ("plugin_utils/errors.py", f"from {PACKAGE}.plugin_utils.placement import room"),
    ],
    "planner-is-pure": [
        ("plugin_utils/planner/room.py", "import sqlite3"),
        ("plugin_utils/planner/room.py", f"from {PACKAGE}.plugin_utils.tracker import room"),
    ],
    "sql-in-store-and-placement-only": [
        ("plugin_utils/tracker/room.py", "import sqlalchemy as sa"),
        ("action/room.py", "from sqlalchemy import orm"),
        ("plugin_utils/placement/room.py", "import psycopg"),
    ],
    "libvirt-on-hypervisors-only": [
        ("plugin_utils/tracker/room.py", "import libvirt"),
        ("action/room.py", "import libvirt"),
    ],
    "hypervisor-code-stands-alone": [
        ("modules/room.py", f"from {PACKAGE}.plugin_utils import errors"),
        ("module_utils/room.py", "import numpy"),
    ],
    "engine-knows-no-plugin": [
        ("plugin_utils/tracker/room.py", f"from {PACKAGE}.action import room"),
        ("plugin_utils/errors.py", f"from {PACKAGE}.lookup import room"),
    ],
    "store-stands-alone": [
        ("plugin_utils/store/room.py", f"from {PACKAGE}.plugin_utils.placement import room"),
        ("plugin_utils/store/room.py", "import ansible.constants"),
    ],
    "placement-is-below-the-deciders": [
        ("plugin_utils/placement/room.py", f"from {PACKAGE}.plugin_utils.scheduler import room"),
        ("plugin_utils/tracker/room.py", f"from {PACKAGE}.plugin_utils.planner import room"),
    ],
    "lookups-only-read": [
        ("lookup/room.py", f"from {PACKAGE}.plugin_utils.placement import claims"),
        ("lookup/room.py", f"from {PACKAGE}.plugin_utils.placement.moves import begin"),
        ("inventory/room.py", f"from {PACKAGE}.plugin_utils.tracker import room"),
    ],
}

# The smallest tree in which each contract finds the rooms that it names.
ROOMS = (
    "action/room.py",
    "callback/room.py",
    "inventory/room.py",
    "lookup/room.py",
    "module_utils/room.py",
    "modules/room.py",
    "plugin_utils/errors.py",
    "plugin_utils/placement/allocations.py",
    "plugin_utils/placement/claims.py",
    "plugin_utils/placement/moves.py",
    "plugin_utils/placement/room.py",
    "plugin_utils/planner/room.py",
    "plugin_utils/scheduler/host_filters/deep.py",
    "plugin_utils/scheduler/room.py",
    "plugin_utils/store/room.py",
    "plugin_utils/tracker/room.py",
)


def lint_imports(base, *contracts):
    """Run import-linter on ``base``/ansible_collections; returns (exit status, output)."""
    command = [
        sys.executable,
        "-c",
        "from importlinter.cli import lint_imports_command; lint_imports_command()",
        "--no-cache",
        "--no-logo",
        "--config",
        str(CONFIG),
    ]
    for contract in contracts:
        command += ["--contract", contract]
    done = subprocess.run(
        command,
        cwd=base,
        env={**os.environ, "PYTHONPATH": str(base), "COLUMNS": "400", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory):
    """The output of one run of all contracts on this collection."""
    base = tmp_path_factory.mktemp("layering")
    collection = base / "ansible_collections" / "drover" / "compute"
    collection.mkdir(parents=True)
    # Only the plugins: a link to the whole checkout would show import-linter its environments.
    (collection / "plugins").symlink_to(PLUGINS)
    return lint_imports(base)[1]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_contract_holds(contract, verdicts):
    assert f"{CONTRACTS[contract]} KEPT" in verdicts, verdicts


@pytest.fixture(scope="module")
def clean_tree(tmp_path_factory):
    """A tree with every room and no import at all."""
    base = tmp_path_factory.mktemp("rooms")
    plugins = base / "ansible_collections" / "drover" / "compute" / "plugins"
    for name in ROOMS:
        path = plugins / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return base


def test_a_clean_tree_keeps_every_contract(clean_tree):
    status, output = lint_imports(clean_tree)
    assert status == 0, output


def test_every_contract_has_a_violation():
    assert set(VIOLATIONS) == set(CONTRACTS)


@pytest.mark.parametrize(
    "contract, name, line",
    [(contract, *violation) for contract, found in VIOLATIONS.items() for violation in found],
)
def test_contract_breaks(clean_tree, contract, name, line):
    path = clean_tree / "ansible_collections" / "drover" / "compute" / "plugins" / name
    if name == "plugin_utils/errors.py":
        user = path.parent / "scheduler" / "room.py"
        user.write_text(f"from {PACKAGE}.plugin_utils import errors\n")
    path.write_text(f"try:\n    {line}\nexcept ImportError:\n    pass\n")
    try:
        status, output = lint_imports(clean_tree, contract)
    finally:
        for room in ROOMS:
            (path.parents[len(pathlib.PurePath(name).parts) - 1] / room).write_text("")
    assert status == 1, output
    assert f"{CONTRACTS[contract]} BROKEN" in output, output


# ---------------------------------------------------------------------------------------------
# What import-linter cannot see: files in folders that it leaves out, and the words inside.
# ---------------------------------------------------------------------------------------------


def python_files(*rooms):
    """Every .py below the given rooms of plugins/."""
    return sorted(path for room in rooms for path in (PLUGINS / room).rglob("*.py"))


def imported_names(path):
    """Absolute names of everything that a file imports, inside functions and guards too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add("." * node.level + (node.module or ""))
    return names


def top_level(names):
    return {name.split(".")[0] for name in names}


def short(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", python_files("."), ids=short)
def test_database_is_named_in_its_rooms_only(path):
    """Also for folders without an __init__.py beside folders with one, which import-linter skips."""
    found = top_level(imported_names(path)) & {"sqlalchemy", "alembic", "sqlite3", "psycopg"}
    room = path.relative_to(PLUGINS).parts[:2]
    if room == ("plugin_utils", "store"):
        return
    if room == ("plugin_utils", "placement"):
        found.discard("sqlalchemy")
    assert not found, f"{short(path)} imports {sorted(found)}: SQL belongs to plugin_utils/store"


@pytest.mark.parametrize("path", python_files("modules", "module_utils"), ids=short)
def test_hypervisor_code_uses_the_standard_library_and_libvirt(path):
    names = imported_names(path)
    foreign = top_level(names) - set(sys.stdlib_module_names)
    assert foreign <= {"libvirt", "libvirt_qemu", "ansible", "ansible_collections"}, short(path)
    for name in names:
        if name.startswith("ansible."):
            assert name.startswith("ansible.module_utils"), f"{short(path)} imports {name}"
        if name.startswith("ansible_collections."):
            assert name.startswith(f"{PACKAGE}.module_utils"), f"{short(path)} imports {name}"


def test_import_linter_sees_every_folder():
    """Below a folder with an __init__.py it skips folders without: only the migrations may be one.

    Alembic loads those by path, and test_database_is_named_in_its_rooms_only reads them.
    """
    hidden = {
        short(path.parent)
        for path in python_files(".")
        if not (path.parent / "__init__.py").exists()
        and any((folder / "__init__.py").exists() for folder in path.parents[1:] if folder != ROOT)
    }
    assert hidden <= {"plugins/plugin_utils/store/migrations/versions"}


@pytest.mark.parametrize("path", python_files("."), ids=short)
def test_imports_are_absolute(path):
    relative = [name for name in imported_names(path) if name.startswith(".")]
    assert not relative, f"{short(path)}: import from {PACKAGE}"


@pytest.mark.parametrize(
    "path", python_files("lookup", "inventory", "filter", "test"), ids=short
)
def test_readers_open_no_writing_session(path):
    """``store.write()`` is the only way to write: no lookup may call it."""
    calls = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "write"
    ]
    assert not calls, f"{short(path)}: write() in lines {calls}"


SQL_TEXT = re.compile(r"^\s*(SELECT\b.+\bFROM|INSERT\s+INTO|UPDATE\b.+\bSET|DELETE\s+FROM|PRAGMA)\s", re.S)


@pytest.mark.parametrize("path", python_files("."), ids=short)
def test_sql_text_is_in_the_store_only(path):
    if path.relative_to(PLUGINS).parts[:2] == ("plugin_utils", "store"):
        return
    found = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and SQL_TEXT.match(node.value)
    ]
    assert not found, f"{short(path)}: SQL text in lines {found}"


@pytest.mark.parametrize("kind", ["host_filters", "weighers"])
def test_one_class_in_one_file(kind):
    """A host filter or a weigher is one class in one file, and no file names another of its kind."""
    room = PLUGINS / "plugin_utils" / "scheduler" / kind
    files = [path for path in sorted(room.glob("*.py")) if not path.name.startswith("_")]
    assert files, f"{short(room)} is empty"
    others = {path.stem for path in files}
    for path in files:
        classes = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)]
        assert len(classes) == 1, f"{short(path)} holds {len(classes)} classes"
        siblings = {
            name.rsplit(".", 1)[1]
            for name in imported_names(path)
            if name.startswith(f"{PACKAGE}.plugin_utils.scheduler.{kind}.")
        }
        assert not siblings & (others - {path.stem}), f"{short(path)} imports {siblings}"
