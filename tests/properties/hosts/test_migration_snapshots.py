# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Moves with snapshots: their records are at the host of the instance, for any end of a run, and
the move loses none of their images."""

from __future__ import annotations

import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import carried_snapshots
from ansible_collections.drover.compute.plugins.module_utils._domain.texts import texts_of
from ansible_collections.drover.compute.plugins.module_utils._host.domains import (
    read_domain,
    read_domains,
)
from ansible_collections.drover.compute.plugins.module_utils._migration import control
from ansible_collections.drover.compute.plugins.module_utils._snapshots import records, snapshots
from ansible_collections.drover.compute.tests.unit import disk_snapshots
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, domain, qemu_img
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_storage import Place
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_worker import (
    UUID,
    Killed,
)

PASSWORD = "open sesame"
REDEFINE, CURRENT = (
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE,
    libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT,
)


@pytest.fixture
def place(tmp_path, monkeypatch):
    made = Place(tmp_path, monkeypatch)
    disk_snapshots.install(monkeypatch)
    yield made
    made.close()


def chain(place, folder, names=("one", "two"), running=False, console=""):
    """Make the instance with a chain of snapshots, as libvirt records them; return the images of
    its disk, the oldest first."""
    images = [qemu_img(folder / "vm.qcow2")]
    for name in names:
        images.append(qemu_img(folder / f"vm-{name}.qcow2", backing=images[-1]))
    place.define(disk(images[-1]) + console, running=running)
    for number, name in enumerate(names):
        record(
            place.domain(),
            name,
            images[number],
            images[number + 1],
            names[number - 1] if number else "",
            number,
            console=console,
        )
    return images


def record(instance, name, base, overlay, parent, created=0, current=True, console=""):
    parent = f"<parent><name>{parent}</name></parent>" if parent else ""
    text = (
        f"<domainsnapshot><name>{name}</name>{parent}<state>shutoff</state><creationTime>{1000 + created}</creationTime>"
        "<disks><disk name='vda' snapshot='external' type='file'><driver type='qcow2'/><source"
        f" file='{overlay}'/></disk></disks>"
        f"{domain('vm', 1, disk(base) + console, uuid=UUID)}</domainsnapshot>"
    )
    instance.snapshotCreateXML(text, REDEFINE | (CURRENT if current else 0))


def recorded(instance):
    """Return libvirt's snapshots of a domain: {name: (its XML, its parent)}, and the current
    one.
    """
    by_name = {
        each.getName(): each.getXMLDesc(libvirt.VIR_DOMAIN_SNAPSHOT_XML_SECURE)
        for each in instance.listAllSnapshots(0)
    }
    return by_name, instance.snapshotCurrent(0).getName() if by_name else None


def there(place):
    """Return the domain from the one host that has it."""
    domains = [
        each
        for conn in (place.source, place.far._domains)
        for each in conn.listAllDomains(0)
        if each.UUIDString() == UUID
    ]
    assert len(domains) == 1
    return domains[0]


def carries(instance):
    return "drover-snapshots" in instance.XMLDesc(0) + instance.XMLDesc(
        libvirt.VIR_DOMAIN_XML_INACTIVE
    )


@pytest.mark.parametrize("running", [True, False])
def test_the_records_are_at_the_destination_after_a_move(place, running):
    images = chain(place, place.shared, ("one", "two", "three"), running)
    before = recorded(place.domain())
    result = place.moved()
    assert result["message"] == "" and there(place).connect() is place.far._domains
    assert recorded(there(place)) == before and before[1] == "three" and not carries(there(place))
    assert sorted(os.listdir(place.shared)) == sorted(map(os.path.basename, images)), (
        "no image was touched"
    )


def test_branches_and_a_current_one_that_is_not_the_newest(place):
    images = chain(place, place.shared)
    record(place.domain(), "branch", images[0], images[2], "one", 9, current=False)
    # A clock that was set back gives this order.
    record(place.domain(), "early", images[0], images[2], "branch", -9, current=False)
    before = recorded(place.domain())
    place.moved()
    assert recorded(there(place)) == before and before[1] == "two"


@pytest.mark.parametrize("running", [True, False])
def test_a_move_that_fails_leaves_them_at_the_source(place, running):
    chain(place, place.shared, running=running)
    before = recorded(place.domain())
    place.behave = place.fail
    result, dummy = place.move()
    assert (
        result["status"] == "failed"
        and recorded(place.domain()) == before
        and not carries(place.domain())
    )


STEPS = [
    *((libvirt.virDomain, "setMetadata", number) for number in range(4)),
    *((libvirt.virDomainSnapshot, "delete", number) for number in range(2)),
    (libvirt.virDomain, "migrateToURI3", 0),
    *((libvirt.virDomain, "snapshotCreateXML", number) for number in range(2)),
]


@pytest.mark.parametrize("begin", [True, False])
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[1]}-{step[2]}")
def test_a_kill_at_any_moment(place, monkeypatch, step, after, begin):
    """After the next run all records are at one host. The next run may begin, or it may only
    settle."""
    chain(place, place.shared, running=True)
    before = recorded(place.domain())
    kind, name, number = step
    method, count = getattr(kind, name), []

    def killed(target, *arguments):
        count.append(1)
        if len(count) != number + 1:
            return method(target, *arguments)
        if after:
            method(target, *arguments)
        raise Killed

    monkeypatch.setattr(kind, name, killed)
    with pytest.raises(Killed):
        place.move()
    monkeypatch.setattr(kind, name, method)
    instance = there(place)
    # No record is ever lost: discovery sees the snapshots, and does not count their images as
    # unused.
    facts = read_domain(instance, local=False)
    assert facts["snapshots"] and facts["fixed_snapshots"] == []
    (bulk,) = [each for each in read_domains(instance.connect(), False)[0] if each["uuid"] == UUID]
    assert bulk["snapshots"] and bulk["fixed_snapshots"] == []
    assert {each.name for each in snapshots.read(instance)} == {"one", "two"}
    assert all(
        any(f"vm-{each}.qcow2" in text and "domainsnapshot" in text for text in texts_of(instance))
        for each in ("one", "two")
    )
    result, dummy = place.move(may_start=begin)
    assert result["status"] == (
        "completed" if begin or there(place).connect() is place.far._domains else "failed"
    )
    assert recorded(there(place)) == before and not carries(there(place))


def test_metadata_has_no_password(place):
    chain(
        place,
        place.shared,
        console=f"<graphics type='vnc' port='-1' autoport='yes' passwd='{PASSWORD}'/>",
    )
    records.take_along(place.domain())
    assert recorded(place.domain()) == ({}, None) and carries(place.domain())
    assert PASSWORD not in place.domain().XMLDesc(0)
    assert records.give_back(place.domain()) and not records.give_back(place.domain())
    assert all(PASSWORD in text for text in recorded(place.domain())[0].values())


def test_libvirt_there_refuses_a_record(place, monkeypatch):
    """The instance has moved; its records stay in its metadata until libvirt accepts them."""
    chain(place, place.shared)
    method = libvirt.virDomain.snapshotCreateXML

    def refuse(target, *arguments):
        raise libvirt.libvirtError("no room for records")

    monkeypatch.setattr(libvirt.virDomain, "snapshotCreateXML", refuse)
    result = place.moved()
    assert (
        "no room for records" in result["message"]
        and "run drover.compute.instance_snapshot for vm" in result["message"]
    )
    monkeypatch.setattr(libvirt.virDomain, "snapshotCreateXML", method)
    assert {each.name for each in snapshots.read(there(place))} == {"one", "two"}
    assert records.give_back(there(place)) and set(recorded(there(place))[0]) == {"one", "two"}


def test_a_local_disk_with_snapshots_is_not_copied(place):
    images = chain(place, place.local)
    text = place.refused()
    assert (
        f"its disk {images[-1]} is on storage of this host only, and a copy of it would not have"
        " its snapshots one, two" in text
    )
    assert (
        "move the disk to shared storage" in text
        and "-e drover_snapshot_state=absent -e drover_snapshot_name=two" in text
    )
    assert set(recorded(place.domain())[0]) == {"one", "two"}


def test_an_image_that_only_a_record_names_is_to_be_seen_there(place):
    """The image comes from a revert that kept it, or from a person who moved it to another disk."""
    images = chain(place, place.shared)
    kept = qemu_img(place.local / "kept.qcow2", backing=images[1])
    record(place.domain(), "old", images[1], kept, "one", 5, current=False)
    assert (
        f"the image {kept} of its snapshot old is on storage that kvm2 does not see"
        in place.refused()
    )
    os.unlink(kept)
    place.moved()
    assert set(recorded(there(place))[0]) == {"one", "two", "old"}


@pytest.mark.parametrize(
    "text, why",
    [
        (
            "<domainsnapshot><name>in</name></domainsnapshot>",
            "it has the snapshot in, which is in the image of the disk",
        ),
        (
            (
                "<domainsnapshot><name>mem</name><state>running</state><creationTime>5</creationTime><memory"
                " snapshot='external' file='/m'/>"
                "<disks><disk name='vda' snapshot='external' type='file'><driver"
                " type='qcow2'/><source file='/o'/></disk></disks>"
                f"{domain('vm', 1, disk('/b'), uuid=UUID)}</domainsnapshot>"
            ),
            "it has the snapshot mem, which has the memory of the guest",
        ),
    ],
)
def test_snapshots_that_hold_an_instance(place, text, why):
    chain(place, place.shared, running=True)
    place.domain().snapshotCreateXML(text, REDEFINE if "<state>" in text else 0)
    refused = place.refused()
    assert (
        why in refused
        and "one" not in refused.split("drover_instance")[0]
        and "with which libvirt moves nothing" in refused
    )
    assert read_domain(place.domain(), local=False)["fixed_snapshots"] == [
        why.split()[4].rstrip(",")
    ]


def test_records_that_are_too_many(place, monkeypatch):
    chain(place, place.shared)
    monkeypatch.setattr(carried_snapshots, "MOST", 1000)
    assert (
        "libvirt's records of its 2 snapshots are more than libvirt takes along" in place.refused()
    )


def test_a_check_changes_nothing(place):
    chain(place, place.shared)
    records.take_along(place.domain())
    before = place.domain().XMLDesc(0)
    request = {"uuid": UUID, "destination": "kvm2", "destination_uri": "test:///kvm2"}
    (answer,) = control.check([request], "test:///kvm1", place.records)
    assert answer["ok"] and place.domain().XMLDesc(0) == before
