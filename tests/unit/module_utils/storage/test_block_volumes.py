# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Logical volumes that are local to each host, in a move: made at the destination first, removed at
the source last.

A file takes the place of the device of a volume. libvirt's test driver keeps the folders of such
pools below /dev, so the pools of both hosts are fakes of the same type.
"""

from __future__ import annotations

import errno
import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._storage import block_volumes
from ansible_collections.drover.compute.tests.unit.module_utils.faraway import Faraway, Pool
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_storage import Place
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_worker import UUID

NAME = f"{UUID}-vda"
SIZE = 3 << 20
CONTENT = b"drover" * (SIZE // 6)


def device(path, kind="raw", target="vda"):
    """Return a ``<disk>`` that is a block device."""
    driver = f"<driver name='qemu' type='{kind}'/>"
    return (
        f"<disk type='block' device='disk'>{driver}<source dev='{path}'/><target dev='{target}'"
        " bus='virtio'/></disk>"
    )


@pytest.fixture(params=["logical", "zfs"])
def volumes(tmp_path, monkeypatch, request):
    """Make a volume of the instance in a pool of the source; the destination has a pool of the same
    name."""
    place = Place(tmp_path, monkeypatch)
    path = place.local / NAME
    path.write_bytes(CONTENT)
    domains = place.source
    place.source = place.connections["test:///kvm1"] = Faraway(domains, "", [place.local])
    for host in (place.source, place.far):
        host.pool("vms", place.local, kind=request.param)
    place.define(device(path))
    place.path = str(path)
    yield place
    place.source = place.connections["test:///kvm1"] = domains
    place.close()


def redefine(place, disk, **more):
    """Define the instance with another disk."""
    place.domain().create()
    place.define(disk, **more)


def names(place):
    """Return the volumes of the source."""
    return sorted(os.listdir(place.local))


def test_a_volume_is_copied_whole_and_removed_at_the_source(volumes):
    record = volumes.moved()
    assert volumes.far.read(volumes.path) == CONTENT and names(volumes) == []
    assert (record["storage"], record["removed"], record["leftovers"]) == (
        "copied",
        [volumes.path],
        [],
    )
    assert record["copies"] == {"memory_mib": 0, "disk_mib": SIZE >> 20}


def test_a_live_move_makes_an_empty_one_and_has_libvirt_copy_it(volumes):
    redefine(volumes, device(volumes.path), running=True)
    made = []

    def look(domain_, flags):
        made.append(volumes.far.read(volumes.path))
        return volumes.succeed(domain_)

    volumes.behave = look
    volumes.moved(live=True)
    assert made == [bytes(SIZE)]
    assert volumes.calls[0] & libvirt.VIR_MIGRATE_NON_SHARED_DISK


def test_one_that_is_not_named_for_the_instance_stays_and_is_named(volumes):
    other = volumes.local / "root"
    other.write_bytes(CONTENT)
    redefine(volumes, device(other))
    record = volumes.moved()
    assert "root" in names(volumes) and volumes.far.read(str(other)) == CONTENT
    assert record["kept"] == [
        {"path": str(other), "reason": "its name does not say that it is this instance's"}
    ]


def test_one_that_this_host_itself_uses_stays(volumes, monkeypatch):
    opened = os.open

    def open_(path, flags, *more, **named):
        if path == volumes.path and flags & os.O_EXCL:
            raise OSError(errno.EBUSY, "Device or resource busy")
        return opened(path, flags, *more, **named)

    monkeypatch.setattr(block_volumes.os, "open", open_)
    record = volumes.moved()
    assert (
        names(volumes) == [NAME]
        and record["leftovers"] == [volumes.path]
        and "this host itself uses it" in record["kept"][0]["reason"]
    )


@pytest.mark.parametrize(
    "prepare, words",
    [
        (
            lambda place: place.far.write(place.path, b"somebody's"),
            "nothing proves that it is a leftover of ours",
        ),
        (
            lambda place: place.far.pools.clear(),
            "the storage pool vms does not exist on kvm2: define it there",
        ),
        (
            lambda place: setattr(place.far.pools["vms"], "active", False),
            "the storage pool vms is not active on kvm2",
        ),
        (
            lambda place: setattr(place.far.pools["vms"], "kind", "fs"),
            "is of the type fs, not of logical or zfs",
        ),
        (
            lambda place: setattr(place.far.pools["vms"], "path", f"{place.local}2"),
            "is another file on kvm2",
        ),
        (
            lambda place: redefine(place, device(place.path, "qcow2")),
            "is a device with a qcow2 image, and only raw ones are copied",
        ),
    ],
)
def test_refused_before_anything_is_made(volumes, prepare, words):
    prepare(volumes)
    reason = volumes.refused()
    assert words in reason, reason
    assert names(volumes) == [NAME]


def test_refused_where_nothing_may_be_copied(volumes):
    assert "copy_storage is never" in volumes.refused(copy_storage="never")


def test_refused_without_room(volumes, monkeypatch):
    monkeypatch.setattr(Pool, "info", lambda self: [2, 1 << 30, 0, 2 << 20])
    assert (
        "the storage pool vms on kvm2 has 2 MiB free, but its disks take 3 MiB" in volumes.refused()
    )


def test_what_a_failed_move_has_made_is_removed_again(volumes):
    def fail(domain_, flags):
        raise libvirt.libvirtError("no")

    volumes.behave = fail
    record, dummy = volumes.move()
    assert (
        record["status"] == "failed"
        and volumes.far.read(volumes.path) is None
        and names(volumes) == [NAME]
    )
    assert record["leftovers"] == []


@pytest.mark.parametrize("same", [True, False])
def test_the_next_attempt_takes_over_the_very_volume_that_was_left(volumes, monkeypatch, same):
    """Another volume that got the name later is not removed."""

    def fail(domain_, flags):
        monkeypatch.setattr(Pool, "refresh", refuse)
        raise libvirt.libvirtError("no")

    def refuse(*dummy):
        raise libvirt.libvirtError("client socket is closed")

    refresh = Pool.refresh
    volumes.behave = fail
    record, dummy = volumes.move()
    assert record["leftovers"] == [f"kvm2:{volumes.path}"]
    monkeypatch.setattr(Pool, "refresh", refresh)
    volumes.behave = volumes.succeed
    if not same:
        # The file is open, so the new file does not get its number on the file system.
        with open(volumes.far.real(volumes.path), "rb"):
            os.unlink(volumes.far.real(volumes.path))
            volumes.far.write(volumes.path, b"somebody's")
        assert "another volume has its name by now" in volumes.refused()
        return
    volumes.moved()
    assert volumes.far.read(volumes.path) == CONTENT and names(volumes) == []
