# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules about which package may import which (docs/architecture.md), one test for each.

The rules themselves are import-linter contracts in ``.importlinter``. Three kinds of tests:

* each contract holds on the collection;
* each contract breaks on a tiny tree with one violation, so every contract is active;
* rules that import-linter cannot express are read from the syntax trees of the files.
"""

from __future__ import annotations

import ast
import configparser
import functools
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
    "one-direction": [
        (
            "plugin_utils/_conductor/part.py",
            f"from {PACKAGE}.plugin_utils._ansible_border import part",
        ),
        ("plugin_utils/_conductor/part.py", f"from {PACKAGE}.plugin_utils._simulation import part"),
        ("plugin_utils/_tracker/part.py", f"from {PACKAGE}.plugin_utils._conductor import part"),
        ("plugin_utils/_tracker/part.py", f"from {PACKAGE}.plugin_utils._definitions import part"),
        ("plugin_utils/_migrations/part.py", f"from {PACKAGE}.plugin_utils._tracker import part"),
        ("plugin_utils/_planner/part.py", f"from {PACKAGE}.plugin_utils._migrations import part"),
        ("plugin_utils/_planner/part.py", f"from {PACKAGE}.plugin_utils._report import part"),
        ("plugin_utils/_placement/part.py", f"from {PACKAGE}.plugin_utils._migrations import part"),
        (
            "plugin_utils/_store/hosts/part.py",
            f"from {PACKAGE}.plugin_utils._placement import part",
        ),
        (
            "plugin_utils/_scheduler/part.py",
            f"from {PACKAGE}.plugin_utils._store.hosts import part",
        ),
        (
            "plugin_utils/_common/validation.py",
            f"from {PACKAGE}.plugin_utils._store.hosts import part",
        ),
        ("plugin_utils/_numa/part.py", f"from {PACKAGE}.plugin_utils._scheduler import part"),
        ("plugin_utils/_common/errors.py", f"from {PACKAGE}.plugin_utils._numa import part"),
        # A package and a file without a place in the layers.
        ("plugin_utils/drawer/part.py", "import os"),
        ("plugin_utils/drawer.py", "import os"),
    ],
    "rooms-of-the-hypervisor": [
        ("module_utils/_files/part.py", f"from {PACKAGE}.module_utils._libvirt import part"),
        ("module_utils/_libvirt/part.py", "from .._storage import part"),
        ("module_utils/_storage/part.py", "from .._domain import part"),
        ("module_utils/_domain/part.py", "from .._ownership import part"),
        ("module_utils/_ownership/part.py", "from .._bindings import part"),
        ("module_utils/_bindings/part.py", "from .._orders import part"),
        ("module_utils/_orders/part.py", "from .._images import part"),
        ("module_utils/_images/part.py", "from .._snapshots import part"),
        ("module_utils/_snapshots/part.py", "from .._host import part"),
        ("module_utils/_host/part.py", "from .._devices import part"),
        ("module_utils/_devices/part.py", "from .._migration import part"),
        ("module_utils/_disk_move/part.py", "from .._migration import part"),
        ("module_utils/_migration/part.py", "from .._restart import part"),
        # A package and a file without a place in the layers.
        ("module_utils/_drawer/part.py", "import os"),
        ("module_utils/_drawer.py", "import os"),
    ],
    "rooms-of-the-store": [
        ("plugin_utils/_store/database/part.py", "from ..schema import part"),
        ("plugin_utils/_store/schema/part.py", "from ..runs import part"),
        ("plugin_utils/_store/providers/part.py", "from ..runs import part"),
        ("plugin_utils/_store/runs/part.py", "from ..hosts import part"),
        ("plugin_utils/_store/hosts/part.py", "from ..instances import part"),
        ("plugin_utils/_store/instances/part.py", "from ..reports import part"),
        ("plugin_utils/_store/reports/part.py", "from ..copies import part"),
        ("plugin_utils/_store/engine.py", "from .copies import part"),
        # A package and a file without a place in the layers.
        ("plugin_utils/_store/drawer/part.py", "import os"),
        ("plugin_utils/_store/drawer.py", "import os"),
    ],
    "scheduler-is-pure": [
        ("plugin_utils/_scheduler/part.py", "import sqlalchemy"),
        ("plugin_utils/_scheduler/part.py", "from ansible.errors import AnsibleError"),
        ("plugin_utils/_scheduler/host_filters/deep.py", "import libvirt"),
        (
            "plugin_utils/_scheduler/part.py",
            f"from {PACKAGE}.plugin_utils._store.hosts import part",
        ),
        ("plugin_utils/_scheduler/part.py", f"from {PACKAGE}.plugin_utils._conductor import part"),
        ("plugin_utils/_numa/part.py", "import sqlalchemy"),
        ("plugin_utils/_numa/part.py", "from ansible.errors import AnsibleError"),
        # Indirectly: by a file that all packages may use.
        ("plugin_utils/_common/errors.py", f"from {PACKAGE}.plugin_utils._placement import part"),
    ],
    "planner-is-pure": [
        (
            "plugin_utils/_evacuation/part.py",
            f"from {PACKAGE}.plugin_utils._store.hosts import part",
        ),
        ("plugin_utils/_planner/part.py", "import sqlite3"),
        ("plugin_utils/_planner/part.py", f"from {PACKAGE}.plugin_utils._store.hosts import part"),
        ("plugin_utils/_planner/part.py", f"from {PACKAGE}.plugin_utils._tracker import part"),
        ("plugin_utils/_planner/part.py", f"from {PACKAGE}.plugin_utils._report import part"),
    ],
    "database-in-the-store-only": [
        ("plugin_utils/_tracker/part.py", "import sqlalchemy as sa"),
        ("plugin_utils/_placement/part.py", "import sqlalchemy as sa"),
        ("action/part.py", "from sqlalchemy import orm"),
        ("plugin_utils/_placement/part.py", "import psycopg"),
        ("plugin_utils/_migrations/part.py", "import sqlite3"),
    ],
    "sql-in-three-packages-only": [
        (
            "plugin_utils/_tracker/part.py",
            f"from {PACKAGE}.plugin_utils._store.database.sql import sa",
        ),
        (
            "plugin_utils/_conductor/part.py",
            f"from {PACKAGE}.plugin_utils._store.database.sql import sa",
        ),
        ("action/part.py", f"from {PACKAGE}.plugin_utils._store.database.sql import sa"),
    ],
    "libvirt-on-hypervisors-only": [
        ("plugin_utils/_tracker/part.py", "import libvirt"),
        ("action/part.py", "import libvirt"),
    ],
    "hypervisor-code-stands-alone": [
        ("modules/part.py", f"from {PACKAGE}.plugin_utils._common import errors"),
        ("module_utils/_files/part.py", "import numpy"),
        ("module_utils/_migration/part.py", f"from {PACKAGE}.plugin_utils._common import errors"),
    ],
    "engine-knows-no-plugin": [
        ("plugin_utils/_tracker/part.py", f"from {PACKAGE}.action import part"),
        ("plugin_utils/_common/errors.py", f"from {PACKAGE}.lookup import part"),
    ],
    "events-are-pure": [
        ("plugin_utils/_events/host_events.py", "import time"),
        ("plugin_utils/_events/instance_events.py", "import libvirt"),
        (
            "plugin_utils/_events/finding_events.py",
            f"from {PACKAGE}.plugin_utils._store.hosts import part",
        ),
    ],
    "events-only-read": [
        (
            "plugin_utils/_events/part.py",
            f"from {PACKAGE}.plugin_utils._conductor import operations",
        ),
        ("plugin_utils/_events/part.py", f"from {PACKAGE}.plugin_utils._tracker import part"),
    ],
    "store-stands-alone": [
        (
            "plugin_utils/_store/hosts/part.py",
            f"from {PACKAGE}.plugin_utils._placement import part",
        ),
        (
            "plugin_utils/_store/hosts/part.py",
            f"from {PACKAGE}.plugin_utils._migrations import part",
        ),
        ("plugin_utils/_store/hosts/part.py", "import ansible.constants"),
    ],
    "ansible-at-the-border-only": [
        ("plugin_utils/_conductor/part.py", "from ansible.errors import AnsibleError"),
        ("plugin_utils/_report/part.py", "from ansible.utils.display import Display"),
        ("plugin_utils/_common/plain.py", "import ansible"),
    ],
    "placement-is-below-the-deciders": [
        ("plugin_utils/_placement/part.py", f"from {PACKAGE}.plugin_utils._scheduler import part"),
        ("plugin_utils/_tracker/part.py", f"from {PACKAGE}.plugin_utils._planner import part"),
        ("plugin_utils/_migrations/part.py", f"from {PACKAGE}.plugin_utils._scheduler import part"),
    ],
    "lookups-only-read": [
        ("lookup/part.py", f"from {PACKAGE}.plugin_utils._placement import claims"),
        ("lookup/part.py", f"from {PACKAGE}.plugin_utils._migrations.claims import begin"),
        ("lookup/part.py", f"from {PACKAGE}.plugin_utils._conductor import migrate"),
        ("inventory/part.py", f"from {PACKAGE}.plugin_utils._tracker import part"),
    ],
}

# The smallest tree with the packages that each contract names.
TREE = (
    "action/part.py",
    "callback/part.py",
    "inventory/part.py",
    "lookup/part.py",
    "module_utils/_bindings/part.py",
    "module_utils/_changes/part.py",
    "module_utils/_devices/part.py",
    "module_utils/_disk_move/part.py",
    "module_utils/_domain/part.py",
    "module_utils/_files/part.py",
    "module_utils/_host/part.py",
    "module_utils/_images/part.py",
    "module_utils/_libvirt/part.py",
    "module_utils/_migration/part.py",
    "module_utils/_orders/part.py",
    "module_utils/_ownership/part.py",
    "module_utils/_restart/part.py",
    "module_utils/_snapshots/part.py",
    "module_utils/_storage/part.py",
    "modules/part.py",
    "plugin_utils/_ansible_border/part.py",
    "plugin_utils/_common/arrays.py",
    "plugin_utils/_common/capacity_rule.py",
    "plugin_utils/_common/certainty.py",
    "plugin_utils/_conductor/building.py",
    "plugin_utils/_conductor/evacuation.py",
    "plugin_utils/_conductor/evacuation_restarts.py",
    "plugin_utils/_conductor/evacuation_settling.py",
    "plugin_utils/_conductor/migrate.py",
    "plugin_utils/_conductor/operations.py",
    "plugin_utils/_conductor/part.py",
    "plugin_utils/_conductor/refusals.py",
    "plugin_utils/_definitions/part.py",
    "plugin_utils/_common/errors.py",
    "plugin_utils/_management_controllers/part.py",
    "plugin_utils/_migrations/claims.py",
    "plugin_utils/_migrations/holdings.py",
    "plugin_utils/_migrations/options.py",
    "plugin_utils/_migrations/orders.py",
    "plugin_utils/_migrations/part.py",
    "plugin_utils/_numa/part.py",
    "plugin_utils/_placement/allocations.py",
    "plugin_utils/_placement/claims.py",
    "plugin_utils/_placement/part.py",
    "plugin_utils/_events/event.py",
    "plugin_utils/_events/finding_events.py",
    "plugin_utils/_events/host_events.py",
    "plugin_utils/_events/instance_events.py",
    "plugin_utils/_events/libvirt_connections.py",
    "plugin_utils/_events/observations.py",
    "plugin_utils/_events/part.py",
    "plugin_utils/_common/labels.py",
    "plugin_utils/_common/plain.py",
    "plugin_utils/_records/part.py",
    "plugin_utils/_common/resource_classes.py",
    "plugin_utils/_planner/part.py",
    "plugin_utils/_report/part.py",
    "plugin_utils/_scheduler/host_filters/deep.py",
    "plugin_utils/_scheduler/part.py",
    "plugin_utils/_simulation/part.py",
    "plugin_utils/_simulation/simulate.py",
    "plugin_utils/_common/sizes.py",
    "plugin_utils/_common/spec_names.py",
    "plugin_utils/_common/storage_identity.py",
    "plugin_utils/_evacuation/part.py",
    *(
        f"plugin_utils/_store/{room}/part.py"
        for room in (
            "copies",
            "database",
            "hosts",
            "instances",
            "providers",
            "reports",
            "runs",
            "schema",
        )
    ),
    "plugin_utils/_store/engine.py",
    "plugin_utils/_store/database/sql.py",
    "plugin_utils/_tracker/part.py",
    "plugin_utils/_common/validation.py",
    "plugin_utils/_common/yaml_errors.py",
    "plugin_utils/scheduler.py",
)


def lint_imports(base, *contracts):
    """Run import-linter on ``base``/ansible_collections; return (exit status, output)."""
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
    """Return the output of one run of all contracts on this collection."""
    base = tmp_path_factory.mktemp("layering")
    collection = base / "ansible_collections" / "drover" / "compute"
    collection.mkdir(parents=True)
    # The tree has only the plugins: with a link to the whole checkout import-linter would read its
    # environments.
    (collection / "plugins").symlink_to(PLUGINS)
    return lint_imports(base)[1]


@pytest.mark.parametrize("contract", CONTRACTS)
def test_contract_holds(contract, verdicts):
    assert f"{CONTRACTS[contract]} KEPT" in verdicts, verdicts


@pytest.fixture(scope="module")
def clean_tree(tmp_path_factory):
    """Return a tree with every package and no import."""
    base = tmp_path_factory.mktemp("packages")
    plugins = base / "ansible_collections" / "drover" / "compute" / "plugins"
    for name in TREE:
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
    if name == "plugin_utils/_common/errors.py":
        user = path.parents[1] / "_scheduler" / "part.py"
        user.write_text(f"from {PACKAGE}.plugin_utils._common import errors\n")
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"try:\n    {line}\nexcept ImportError:\n    pass\n")
    try:
        status, output = lint_imports(clean_tree, contract)
    finally:
        if name not in TREE:
            path.unlink()
            if not any(path.parent.iterdir()):
                path.parent.rmdir()
        for each in TREE:
            (path.parents[len(pathlib.PurePath(name).parts) - 1] / each).write_text("")
    assert status == 1, output
    assert f"{CONTRACTS[contract]} BROKEN" in output, output


# ---------------------------------------------------------------------------------------------
# Rules that import-linter cannot check: files in folders that it leaves out, and words in files.
# ---------------------------------------------------------------------------------------------


def python_files(*folders):
    """Return every .py below the given folders of plugins/."""
    return sorted(path for folder in folders for path in (PLUGINS / folder).rglob("*.py"))


@functools.cache
def imported_names(path):
    """Return absolute names of all imports of a file, inside functions and guards too."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level:
            parts = [
                PACKAGE,
                *path.relative_to(PLUGINS).parts[: -node.level],
                *filter(None, [node.module]),
            ]
            names.add(".".join(parts))
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
    return names


def top_level(names):
    return {name.split(".")[0] for name in names}


def short(path):
    return str(path.relative_to(ROOT))


def of_each_file(*folders):
    """Turn a test of one file into a test of every file below these folders: thousands of tests
    would cost more time than the checks themselves."""

    def for_all(test):
        @functools.wraps(test)
        def all_of_them():
            problems = []
            for path in python_files(*folders):
                try:
                    test(path)
                except AssertionError as problem:
                    problems.append(str(problem).partition("\n")[0])
            assert not problems, "\n".join(problems)

        # pytest would look for a fixture named path.
        del all_of_them.__wrapped__
        return all_of_them

    return for_all


@of_each_file(".")
def test_database_is_named_in_its_packages_only(path):
    """The rule also covers folders without an __init__.py beside folders with one; import-linter
    skips these."""
    names = imported_names(path)
    package = path.relative_to(PLUGINS).parts[:2]
    if package != ("plugin_utils", "_store"):
        found = top_level(names) & {"sqlalchemy", "alembic", "sqlite3", "psycopg"}
        assert not found, (
            f"{short(path)} imports {sorted(found)}: SQL belongs to plugin_utils/_store"
        )
    if package not in [("plugin_utils", each) for each in ("_store", "_migrations", "_placement")]:
        assert f"{PACKAGE}.plugin_utils._store.database.sql" not in names, (
            f"{short(path)}: SQL belongs to plugin_utils/_store"
        )


GUARDS = {
    "numpy": "plugin_utils/_common/arrays.py",
    "sqlalchemy": "plugin_utils/_store/database/sql.py",
    "alembic": "plugin_utils/_store/schema/revisions.py",
}


@of_each_file(".")
def test_a_package_that_may_be_missing_is_imported_in_one_file(path):
    packages = {
        name
        for name in top_level(imported_names(path)) & set(GUARDS)
        if path != PLUGINS / GUARDS[name]
    }
    assert not packages, (
        f"{short(path)} imports {sorted(packages)}: import it from"
        f" {[GUARDS[name] for name in sorted(packages)]}"
    )


@of_each_file("modules", "module_utils")
def test_hypervisor_code_uses_the_standard_library_and_libvirt(path):
    names = imported_names(path)
    foreign = top_level(names) - set(sys.stdlib_module_names)
    assert foreign <= {
        "libvirt",
        "libvirt_qemu",
        "ansible",
        "ansible_collections",
    }, f"{short(path)} imports {sorted(foreign)}"
    for name in names:
        if name.startswith("ansible."):
            assert name.startswith("ansible.module_utils"), f"{short(path)} imports {name}"
        if name.startswith("ansible_collections."):
            assert name.startswith(f"{PACKAGE}.module_utils"), f"{short(path)} imports {name}"


def test_every_file_of_the_engine_is_in_a_package_that_is_named():
    """Beside the packages is only the public scheduler; .importlinter and the page name all
    packages.
    """
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    for folder, contract, public in (
        ("plugin_utils", "one-direction", {"scheduler"}),
        ("module_utils", "rooms-of-the-hypervisor", set()),
    ):
        files = [path.relative_to(PLUGINS / folder).parts for path in python_files(folder)]
        packages = {parts[0] for parts in files if len(parts) > 1}
        assert {pathlib.PurePath(parts[0]).stem for parts in files if len(parts) == 1} == public
        assert all(name.startswith("_") for name in packages), (
            "all but the public files begin with _"
        )
        assert packages | public == set(
            re.findall(r"\w+", _PARSER[f"importlinter:contract:{contract}"]["layers"])
        )
        assert packages == set(re.findall(rf"^\| `{folder}/(\w+)` \|", page, re.MULTILINE))


def test_what_keeps_the_laws_is_where_the_page_says():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = re.search(
        r"^## What keeps the laws\n(.+?)^## ", page, re.MULTILINE | re.DOTALL
    ).group(1)
    controller, hypervisor = section.split("On a hypervisor, in `module_utils`:")
    for text, folder in ((controller, "plugin_utils"), (hypervisor, "module_utils")):
        named = [
            name
            for cell in re.findall(r"^\| (`.+?`) \|", text, re.MULTILINE)
            for name in re.findall(r"`(.+?)`", cell)
        ]
        assert named
        assert [name for name in named if not (PLUGINS / folder / f"{name}.py").is_file()] == []


def test_import_linter_sees_every_folder():
    """Below a folder with an __init__.py import-linter skips folders without: only the schema
    revisions may be one.

    Alembic loads the revisions by path, and test_database_is_named_in_its_packages_only reads
    them.
    """
    hidden = {
        short(path.parent)
        for path in python_files(".")
        if not (path.parent / "__init__.py").exists()
        and any((folder / "__init__.py").exists() for folder in path.parents[1:] if folder != ROOT)
    }
    assert hidden <= {"plugins/plugin_utils/_store/schema/versions"}


@of_each_file(".")
def test_imports_inside_the_engine_are_relative(path):
    """Plugins import absolutely, because Ansible loads them by name, and so do schema revisions,
    which Alembic loads by path.
    """
    if path.is_relative_to(PLUGINS / "plugin_utils" / "_store" / "schema" / "versions"):
        return
    inside = path.relative_to(PLUGINS).parts[0]
    engine = inside in ("plugin_utils", "module_utils")
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert engine, f"{short(path)}:{node.lineno}: import from {PACKAGE}"
        elif isinstance(node, ast.ImportFrom) and engine:
            assert not (node.module or "").startswith(f"{PACKAGE}.{inside}"), (
                f"{short(path)}:{node.lineno}: import relatively"
            )


@of_each_file("lookup", "inventory", "filter", "test")
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


SQL_TEXT = re.compile(
    r"^\s*(SELECT\b.+\bFROM|INSERT\s+INTO|UPDATE\b.+\bSET|DELETE\s+FROM|PRAGMA)\s", re.S
)


@of_each_file(".")
def test_sql_text_is_in_the_store_only(path):
    if path.relative_to(PLUGINS).parts[:2] == ("plugin_utils", "_store"):
        return
    line_numbers = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text(), str(path)))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and SQL_TEXT.match(node.value)
    ]
    assert not line_numbers, f"{short(path)}: SQL text in lines {line_numbers}"


@pytest.mark.parametrize("kind", ["host_filters", "weighers"])
def test_one_class_in_one_file(kind):
    """A host filter or a weigher is one class in one file, and no file names another of its
    kind.
    """
    folder = PLUGINS / "plugin_utils" / "_scheduler" / kind
    files = [path for path in sorted(folder.glob("*.py")) if not path.name.startswith("_")]
    assert files, f"{short(folder)} is empty"
    others = {path.stem for path in files}
    for path in files:
        classes = [n for n in ast.parse(path.read_text()).body if isinstance(n, ast.ClassDef)]
        assert len(classes) == 1, f"{short(path)} holds {len(classes)} classes"
        siblings = {
            name.rsplit(".", 1)[1]
            for name in imported_names(path)
            if name.startswith(f"{PACKAGE}.plugin_utils._scheduler.{kind}.")
        }
        assert not siblings & (others - {path.stem}), f"{short(path)} imports {siblings}"
