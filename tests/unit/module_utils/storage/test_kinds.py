# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of storage kinds is the only place that compares names of kinds.

A comparison elsewhere would be one more file to change for a new kind of storage. This test reads
the code of all plugins.
"""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

from ansible_collections.drover.compute.plugins.module_utils._storage import kinds

PLUGINS = pathlib.Path(__file__).parents[4] / "plugins"
#: The names that only a kind of storage has; the others are also words for other things.
SURE = {
    *("netfs", "rbd", "logical", "zfs", "gluster", "sheepdog", "iscsi", "iscsi-direct", "mpath"),
    *("nvme", "vhostuser", "vhostvdpa", "nfs", "nbd"),
}
ROWS = (*kinds.POOLS, *kinds.DISKS, *kinds.PROTOCOLS, *kinds.FILE_SYSTEMS)
NAMES = {each.name for each in ROWS} | SURE
#: Keys whose values are not storage kinds: a device that the guest sees, its bus, the part of a
#: file in a move.
KEYS = {"device", "bus", "kind"}
#: {file: the reason why its comparison is about another thing}.
ALLOWED = {
    "module_utils/_files/block_devices.py": "disk is a folder below /dev",
    "module_utils/_files/mounts.py": "file is a word of the kernel",
    "module_utils/_storage/backing.py": "file is a key of QEMU",
    "module_utils/_storage/ceph_fence.py": "ceph is a program",
    "plugin_utils/_conductor/alignment.py": "network is a type of interfaces",
    # The table is in a package above.
    "module_utils/_libvirt/drivers.py": "packages of Debian, by the name of a driver",
}


def words_in(node: ast.expr) -> set[str]:
    """Return the strings in a literal: a constant, or a tuple, list, set or dictionary of some."""
    if isinstance(node, ast.Dict):
        parts = [each for each in node.keys if each is not None]
    else:
        parts = list(getattr(node, "elts", [node]))
    return {
        each.value
        for each in parts
        if isinstance(each, ast.Constant) and isinstance(each.value, str)
    }


def is_other(node: ast.expr) -> bool:
    """Return True for an expression that has another word than the name of a kind."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
        return bool(words_in(node.args[0]) & KEYS)
    if isinstance(node, ast.Subscript):
        return bool(words_in(node.slice) & KEYS)
    # The name of an element of XML.
    return getattr(node, "id", getattr(node, "attr", None)) == "tag"


def bare_names(text: str) -> list[str]:
    """Return the comparisons with names of kinds, the tables of them, and the searches for them."""
    lines = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            is_bare = any(words_in(each) & NAMES for each in sides)
            is_bare = is_bare and not any(is_other(each) for each in sides)
        elif isinstance(node, (ast.Tuple, ast.List, ast.Set, ast.Dict)):
            is_bare = len(words_in(node) & SURE) > 1
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            words = {word for each in node.args for word in words_in(each)}
            is_bare = node.func.attr in ("startswith", "removeprefix") and any(
                word.partition(":")[0] in SURE for word in words
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_bare = bool(re.search(r"\b(disk|pool)\[@type=", node.value))
        else:
            continue
        if is_bare:
            lines.append(f"{node.lineno}: {ast.unparse(node)}")
    return lines


def test_no_code_beside_the_table_compares_names_of_kinds():
    by_file = {
        str(path.relative_to(PLUGINS)): bare
        for path in sorted(PLUGINS.rglob("*.py"))
        if (bare := bare_names(path.read_text(encoding="utf-8")))
    }
    assert {name: bare for name, bare in by_file.items() if name not in ALLOWED} == {}
    assert sorted(set(ALLOWED) - set(by_file)) == [], "nothing to allow is left there"


@pytest.mark.parametrize(
    "line",
    [
        "disk['type'] == 'file'",
        "pool.get('type') in ('dir', 'fs')",
        "kind != 'rbd'",
        "'network' in (disk['type'], place.type)",
        "POOLS = ('logical', 'zfs')",
        "NAMES = {'rbd': 1, 'nfs': 2}",
        "text.startswith('rbd:')",
        "root.findall(\"devices/disk[@type='volume']\")",
    ],
)
def test_the_test_finds_bare_names(line):
    assert bare_names(line)


@pytest.mark.parametrize(
    "line",
    [
        "disk['device'] == 'disk'",
        "disk.get('device', 'disk') != 'disk'",
        "element.tag == 'disk'",
        "entry['kind'] == 'network'",
        "kinds.of_disk(disk).source is Source.FILE",
    ],
)
def test_other_words_may_be_compared(line):
    assert bare_names(line) == []


@pytest.mark.parametrize("table", [kinds.POOLS, kinds.DISKS, kinds.PROTOCOLS, kinds.FILE_SYSTEMS])
def test_a_name_has_one_row(table):
    names = [each.name for each in table]
    assert len(names) == len(set(names))


def test_a_disk_that_stays_says_why():
    for each in kinds.DISKS:
        assert bool(each.binds) == each.stays, each
        assert each.is_image or each.why_fixed, each


def test_an_unknown_kind_is_never_taken_for_a_known_one():
    """A disk of an unknown type stays; in a pool of an unknown type drover makes nothing."""
    assert kinds.disk("madeup").stays and kinds.disk(None).stays
    assert not kinds.disk("madeup").is_path and not kinds.disk("madeup").has_size
    pool = kinds.pool("madeup")
    assert pool.maker is None and pool.identity is None and pool.move is kinds.MoveMethod.SHARED
    assert kinds.protocol("madeup").family is None
    assert kinds.file_system("ext4") is None


def test_drover_makes_files_before_volumes():
    assert kinds.made_in() == ["dir", "fs", "netfs", "rbd", "logical", "zfs"]
