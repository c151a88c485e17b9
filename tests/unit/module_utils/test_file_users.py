# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that another host names: this host tells its domains' files from it by the number in the file system."""

from __future__ import annotations

import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils import _file_names, _mounts
from ansible_collections.drover.compute.plugins.module_utils._file_users import FileUsers
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


@pytest.fixture
def ask(tmp_path):
    """Return what this host, whose domain has the file, says to a number."""
    path = tmp_path / "disk.img"
    path.write_bytes(b"x")
    connection = libvirt.open("test:///default")
    connection.defineXML(hypervisors.xml("other", uuid_of("other"), [str(path)]))
    mounts = _mounts.all_mounts()
    system, _slash, number = (_file_names.inode(os.path.realpath(path), mounts) or "0/0").rpartition("/")

    def asked(system_there, number_there):
        inode = f"{system_there or system}/{number_there or number}"
        question = {"name": str(path), "paths": [str(path)], "shared_id": None, "inode": inode}
        return FileUsers(connection, None, mounts).reason(question)

    yield asked
    connection.close()


def test_b3_a_file_system_with_another_number_on_each_host_may_be_one(ask):
    """Cluster file systems may have the number of the device, which is another one on each host; the number of the file is the same."""
    assert "other" in (ask(None, None) or "")
    assert "other" in (ask("abcd", None) or "")


def test_b3_another_file_at_the_same_path_is_another_file(ask):
    assert ask("abcd", "77777777") is None
