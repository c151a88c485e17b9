# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On a hypervisor only one file removes files, volumes and definitions:
module_utils/_ownership/ownership.py.

The test reads the syntax trees of the code for hypervisors. A name counts, for a call and for a
reference.
"""

from __future__ import annotations

import ast
import pathlib

import pytest

PLUGINS = pathlib.Path(__file__).resolve().parents[2] / "plugins"
ROOMS = ("modules", "module_utils")
ONE_PLACE = "module_utils/_ownership/ownership.py"

#: Methods that remove, of any object.
REMOVES = {
    "delete",
    "deleteFlags",
    "removedirs",
    "rmdir",
    "rmtree",
    "undefine",
    "undefineFlags",
    "unlink",
    "wipe",
    "wipePattern",
    "VIR_DOMAIN_UNDEFINE_NVRAM",
    "VIR_DOMAIN_UNDEFINE_TPM",
}
#: Functions that remove in these modules; lists have such a method too.
OF_MODULES = {("os", "remove"), ("shutil", "move")}
PROGRAMS = {"rm", "/bin/rm", "shred", "unlink", "truncate"}


def removals(source):
    """Return the names in a source that remove something, as (line, text)."""
    places = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            owner = node.value.id if isinstance(node.value, ast.Name) else None
            if owner not in ("_ownership", "ownership") and (
                node.attr in REMOVES or (owner, node.attr) in OF_MODULES
            ):
                places.append((node.lineno, f"{owner or '...'}.{node.attr}"))
        elif isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil", "pathlib"):
            names = {alias.name for alias in node.names}
            bad = {name for name in names if name in REMOVES or (node.module, name) in OF_MODULES}
            places += [(node.lineno, f"from {node.module} import {name}") for name in sorted(bad)]
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "getattr"
        ):
            names = {each.value for each in node.args if isinstance(each, ast.Constant)}
            places += [(node.lineno, f"getattr {name}") for name in sorted(names & REMOVES)]
        elif (
            isinstance(node, ast.List)
            and node.elts
            and isinstance(node.elts[0], ast.Constant)
            and node.elts[0].value in PROGRAMS
        ):
            places.append((node.lineno, str(node.elts[0].value)))
    return places


def in_tree(plugins):
    """Return the same for all files for hypervisors, except the one place: lines for people."""
    return [
        f"{file.relative_to(plugins)}:{line}: {text}"
        for room in ROOMS
        for file in sorted((plugins / room).rglob("*.py"))
        if file.relative_to(plugins).as_posix() != ONE_PLACE
        for line, text in removals(file.read_text(encoding="utf-8"))
    ]


def test_nothing_is_removed_but_in_one_place():
    assert in_tree(PLUGINS) == []


def test_that_place_does_remove():
    found = {text for dummy, text in removals((PLUGINS / ONE_PLACE).read_text(encoding="utf-8"))}
    assert found == {
        "os.unlink",
        "os.rmdir",
        "volume.delete",
        "snapshot.delete",
        "checkpoint.delete",
        "domain.undefine",
        "domain.undefineFlags",
        "device.undefine",
    }


@pytest.mark.parametrize(
    "source",
    [
        "import os\nos.unlink('x')",
        "import os\ncall(os.remove, 'x')",
        "from os import unlink as forget\nforget('x')",
        "import shutil\nshutil.rmtree('x')",
        "def f(volume):\n    volume.delete(0)",
        "def f(path):\n    path.unlink()",
        "def f(domain):\n    domain.undefineFlags(4)",
        "import libvirt\nFLAGS = libvirt.VIR_DOMAIN_UNDEFINE_NVRAM",
        "FLAGS = getattr(libvirt, 'VIR_DOMAIN_UNDEFINE_NVRAM', 0)",
        "run(['rm', '-f', 'x'])",
    ],
)
@pytest.mark.parametrize("room", ROOMS)
def test_a_tree_that_breaks_it(tmp_path, room, source):
    (tmp_path / room / "deep").mkdir(parents=True)
    (tmp_path / room / "deep" / "broken.py").write_text(source)
    (tmp_path / room / "fine.py").write_text(
        "names = []\nnames.remove('x')\n_ownership.undefine(domain)\n"
    )
    (line,) = in_tree(tmp_path)
    assert line.startswith(f"{room}/deep/broken.py:")
