# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves of domains with mediated devices: the move makes the devices at the destination and removes
them at the source; a move back does the reverse."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    parse_hostdevs,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records
from ansible_collections.drover.compute.plugins.module_utils._ownership.mdev_uuids import made_for
from ansible_collections.drover.compute.tests.unit import node_devices
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_worker import (
    PHASES,
    UUID,
    XML,
    Fleet,
    Killed,
)

PARENT, OTHER, KIND = "pci_0000_84_00_0", "pci_0000_85_00_0", "nvidia-35"
HERE, THERE = made_for(UUID, PARENT, KIND, 0), made_for(UUID, OTHER, KIND, 0)
DEVICES = {
    "pci": [],
    "mdevs": [{"uuid": HERE, "there": {"uuid": THERE, "parent": OTHER, "type": KIND}}],
}
HOSTDEV = (
    "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address"
    f" uuid='{HERE}'/></source></hostdev>"
)


@pytest.fixture
def gpus(monkeypatch):
    """Return the mediated devices of both hosts: one host has PARENT, the other has OTHER."""
    found = node_devices.NodeDevices(monkeypatch, {PARENT: {KIND: 2}, OTHER: {KIND: 2}})
    found.add(HERE, PARENT, KIND, autostart=True)
    return found


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    made = Fleet(tmp_path, monkeypatch)
    made.domain().destroy()
    made.source.defineXML(XML.replace("</domain>", f"<devices>{HOSTDEV}</devices></domain>"))
    yield made
    made.close()


def shown(fleet, there=True):
    return [each["address"] for each in parse_hostdevs(parse(fleet.domain(there).XMLDesc(0)))]


def test_a_cold_move_makes_its_own_there_and_removes_that_of_the_source(fleet, gpus):
    record, dummy = fleet.move(devices=DEVICES)
    assert (record["status"], record["message"], fleet.states()) == (
        "completed",
        "",
        ("absent", "shutoff"),
    )
    assert shown(fleet) == [THERE]
    assert gpus.there() == {THERE: (OTHER, KIND, True, True)}
    assert fleet.move(devices=DEVICES)[0]["status"] == "completed" and list(gpus.there()) == [THERE]


def test_a_device_that_nobody_claimed_there_is_refused(fleet, gpus):
    record, dummy = fleet.move()
    assert (
        record["status"] == "failed"
        and f"the host's mdev device {HERE} is passed through to it" in record["message"]
    )
    assert (fleet.states(), list(gpus.there())) == (("shutoff", "absent"), [HERE])


def test_a_running_guest_stays_with_an_old_libvirt(fleet, gpus):
    fleet.domain().create()
    record, dummy = fleet.move(devices=DEVICES)
    assert (
        record["status"] == "failed"
        and "only from libvirt 8.6.0 and QEMU 8.1.0 on" in record["message"]
    )
    assert (fleet.states(), shown(fleet, False), list(gpus.there())) == (
        ("running", "absent"),
        [HERE],
        [HERE],
    )


def test_a_failed_move_leaves_none_there(fleet, gpus):
    fleet.behave = fleet.fail
    record, dummy = fleet.move(devices=DEVICES)
    assert (record["status"], record["leftovers"]) == ("failed", [])
    assert (fleet.states(), shown(fleet, False), list(gpus.there())) == (
        ("shutoff", "absent"),
        [HERE],
        [HERE],
    )


def test_a_destination_that_cannot_make_it_is_named(fleet, gpus):
    gpus.parents[OTHER][KIND] = 0
    record, dummy = fleet.move(devices=DEVICES)
    assert (
        record["status"] == "failed"
        and f"The device {OTHER} on kvm2 cannot make 1 more of the type {KIND}" in record["message"]
    )
    gpus.parents[OTHER][KIND], gpus.refuses = 2, "Input/output error"
    record, dummy = fleet.move(devices=DEVICES)
    assert record["status"] == "failed" and "Input/output error" in record["message"]
    assert (fleet.states(), list(gpus.there())) == (("shutoff", "absent"), [HERE])


def test_one_at_the_source_that_is_in_use_is_named(fleet, gpus):
    gpus.busy.add(HERE)
    record, dummy = fleet.move(devices=DEVICES)
    assert record["status"] == "completed"
    assert (
        f"left at the source: the mediated device {HERE} (Unable to destroy 'mdev': Device or"
        " resource busy" in record["message"]
    )


@pytest.mark.parametrize("phase", [each for each in PHASES if each != "waiting"])
@pytest.mark.parametrize("again", ["start", "follow"])
def test_a_worker_killed_after_any_step_leaves_one_device(fleet, gpus, monkeypatch, phase, again):
    real_write = Records.write

    def write_and_die(self, record):
        real_write(self, record)
        if record["phase"] == phase:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Records, "write", write_and_die)
        with pytest.raises(Killed):
            fleet.move(devices=DEVICES)
    moved = phase in ("verifying", "cleaning")
    # A discovery may have seen that the source does not have it now.
    record, dummy = fleet.move(may_start=again == "start", devices=None if moved else DEVICES)
    if moved or again == "start":
        expected = ("completed", ("absent", "shutoff"), [THERE])
    else:
        expected = ("failed", ("shutoff", "absent"), [HERE])
    assert (record["status"], fleet.states(), list(gpus.there())) == expected
