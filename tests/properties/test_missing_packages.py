# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A controller without the packages of requirements.txt: every plugin can be imported, and its use
is refused with a sentence."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"
PACKAGE = "ansible_collections.drover.compute.plugins"
MODULES = [
    ".".join((PACKAGE, *path.relative_to(PLUGINS).with_suffix("").parts))
    for folder in ("plugin_utils", "action", "lookup", "inventory", "filter")
    for path in sorted((PLUGINS / folder).rglob("*.py"))
    if path.name != "__init__.py"
]
# The first call of an operator in each case.
USES = {
    "numpy": (
        "from {0}._scheduler.host_states import HostStates; HostStates({{'host': ['kvm1'], 'node':"
        " ['kvm1']}})"
    ),
    "SQLAlchemy": "from {0}._store import Store; Store.open('sqlite:////nowhere/fleet.db')",
    "alembic": "from {0}._store.schema import schema; schema.revisions()",
}


def run(missing: str, code: str) -> subprocess.CompletedProcess[str]:
    """Run code in a Python that cannot import a package."""
    blocked = f"import sys; sys.modules[{missing.lower()!r}] = None\n"
    paths = [path for path in sys.path if path]
    return subprocess.run(
        [sys.executable, "-c", blocked + code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("missing", USES)
def test_every_plugin_can_be_imported(missing):
    done = run(missing, f"import importlib\nfor name in {MODULES!r}: importlib.import_module(name)")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("missing", USES)
def test_its_use_names_the_package(missing):
    done = run(missing, USES[missing].format(f"{PACKAGE}.plugin_utils"))
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert f"DroverError: The Python package {missing} is missing on this controller" in said
    assert re.search(r"pip install -r /\S+/requirements\.txt$", said)
