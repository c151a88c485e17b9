# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A file that another host names: this host compares it with its domains' files by the number in
the file system."""

from __future__ import annotations

import os
import stat

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._files import block_devices
from ansible_collections.drover.compute.plugins.module_utils._files import mounts as _mounts
from ansible_collections.drover.compute.plugins.module_utils._ownership.file_users import FileUsers
from ansible_collections.drover.compute.plugins.module_utils._storage import file_names
from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


@pytest.fixture
def ask(tmp_path):
    """Return the answer of this host, which has a domain with the file, to a number."""
    path = tmp_path / "disk.img"
    path.write_bytes(b"x")
    connection = libvirt.open("test:///default")
    connection.defineXML(hypervisors.xml("other", uuid_of("other"), [str(path)]))
    mounts = _mounts.all_mounts()
    system, _slash, number = (file_names.inode(os.path.realpath(path), mounts) or "0/0").rpartition(
        "/"
    )

    def asked(system_there, number_there):
        inode = f"{system_there or system}/{number_there or number}"
        question = {"name": str(path), "paths": [str(path)], "shared_id": None, "inode": inode}
        return FileUsers(connection, None, mounts).reason(question)

    yield asked
    connection.close()


def test_b3_a_file_system_with_another_number_on_each_host_may_be_one(ask):
    """Some cluster file systems have a different device number on each host; the number of the file
    is the same."""
    assert "other" in (ask(None, None) or "")
    assert "other" in (ask("abcd", None) or "")


def test_b3_another_file_at_the_same_path_is_another_file(ask):
    assert ask("abcd", "77777777") is None


WWN, OTHER = "naa.600140512345678", "naa.600140587654321"


@pytest.fixture
def device(tmp_path, monkeypatch):
    """``device(name, wwid)`` -> the node of a device of this host."""
    monkeypatch.setattr(block_devices, "SYSFS", str(tmp_path / "sys"))

    def make(name, wwid, minor=200):
        path, place = tmp_path / name, tmp_path / "sys/dev/block" / f"7:{minor}"
        place.mkdir(parents=True, exist_ok=True)
        if wwid:
            (place / "wwid").write_text(wwid)
        try:
            os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(7, minor))
        except PermissionError:
            parts.leave_out("The tests of device nodes", "only root makes them")
        return str(path)

    return make


def users_of(path, named, question):
    """Return the answer of this host, which has a domain with a device, to the names of a device
    from another host."""
    connection = libvirt.open("test:///default")
    text = (
        f"<disk type='block' device='disk'><source dev='{named}'/><target"
        " dev='vda'/></disk></devices>"
    )
    connection.defineXML(hypervisors.xml("other", uuid_of("other"), []).replace("</devices>", text))
    try:
        return FileUsers(connection, None, _mounts.all_mounts()).reason(
            {"name": path, "paths": [path], "shared_id": None, **question}
        )
    finally:
        connection.close()


def test_b3_a_device_is_told_by_the_storage_and_not_by_its_node(device):
    """Each host makes its own nodes, so their numbers prove nothing."""
    path = device("lun", WWN)
    names = file_names.names(path, _mounts.all_mounts())
    assert names["inode"] is None and names["device"] == WWN
    assert "other" in (users_of(path, path, {"inode": None, "device": WWN}) or "")
    assert "other" in (
        users_of("/dev/mapper/another-name", path, {"inode": None, "device": WWN}) or ""
    )
    assert users_of(path, path, {"inode": None, "device": OTHER}) is None, (
        "a disk of its own that has the same name there"
    )


def test_b3_a_device_that_does_not_tell_what_it_is_may_be_the_one(device):
    path = device("vdb", None)
    assert file_names.names(path, _mounts.all_mounts())["device"] is None
    for known in (WWN, None):
        assert "other" in (users_of(path, path, {"inode": None, "device": known}) or "")


def test_b5_who_writes_to_a_file_whose_number_is_not_known_is_found_by_its_path(device):
    path = device("lun", WWN)
    assert "the domain other writes to it" in (
        users_of(path, path, {"inode": None, "device": WWN, "written": True}) or ""
    )
    assert users_of("/dev/null", path, {"inode": None, "device": None, "written": True}) is None
