# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that are a device or a program of their host: from the XML of a domain to a refused drain
and a lost instance.

A new kind of such disks is a row of the table of storage kinds, and a line of KINDS here.
"""

from __future__ import annotations

import types
import xml.etree.ElementTree as ET

import pytest

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading
from ansible_collections.drover.compute.plugins.module_utils._disk_move.disk import MovedDisk
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    has_written_image,
    parse_disk,
)
from ansible_collections.drover.compute.plugins.module_utils._host.disk_facts import DiskFacts
from ansible_collections.drover.compute.plugins.module_utils._host.domains import domain_from_xml
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import LibvirtProblem
from ansible_collections.drover.compute.plugins.module_utils._migration import storage
from ansible_collections.drover.compute.plugins.module_utils._storage import kinds
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.plans import DrainQuestion
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import disk_sources
from ansible_collections.drover.compute.plugins.plugin_utils._planner import evacuation
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import MigrationLimits
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import evacuations
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import domain as tracked
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import storage_pools
from ansible_collections.drover.compute.tests.unit.definitions.test_differences import compared
from ansible_collections.drover.compute.tests.unit.definitions.test_differences import (
    facts as facts_of_web,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker.machines import node

#: By type: the source in XML, its name in facts, and the clause of a refusal.
KINDS = {
    "nvme": (
        (
            "<source type='pci' managed='yes' namespace='1'><address domain='0' bus='1' slot='0'"
            " function='0'/></source>"
        ),
        "nvme:0000:01:00.0/1",
        "its disk vda is an NVMe device of the host (0000:01:00.0/1)",
    ),
    "vhostuser": (
        "<source type='unix' path='/run/blk.sock'><reconnect enabled='yes'/></source>",
        "vhostuser:/run/blk.sock",
        "its disk vda comes from a program of the host by the socket /run/blk.sock",
    ),
    "vhostvdpa": (
        "<source dev='/dev/vhost-vdpa-0'/>",
        "vhostvdpa:/dev/vhost-vdpa-0",
        "its disk vda is a vDPA device of the host (/dev/vhost-vdpa-0)",
    ),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
FILE = (
    "<disk type='file' device='disk'><driver name='qemu' type='raw'/><source"
    " file='/srv/a.img'/><target dev='vdb' bus='virtio'/></disk>"
)


def disk(kind):
    """Return the XML of a disk of one kind."""
    return (
        f"<disk type='{kind}' device='disk'><driver name='qemu' type='raw'/>{KINDS[kind][0]}<target"
        " dev='vda' bus='virtio'/></disk>"
    )


def xml_of(name, *disks):
    return (
        "<domain"
        f" type='kvm'><name>{name}</name><uuid>{fleets.uuid_of(name)}</uuid><vcpu>1</vcpu><memory"
        " unit='MiB'>64</memory>"
        f"<os><type>hvm</type></os><devices>{''.join(disks)}</devices></domain>"
    )


def seen(name, *disks, state="running"):
    """Return the facts of a domain with these disks, as its host reports them."""
    entry = domain_from_xml(xml_of(name, *disks), state)
    DiskFacts([], [], None).add_domains([entry])
    return entry


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/store.db"


@every_kind
def test_discovery_names_the_disk_and_counts_no_space_of_the_host(kind):
    entry = seen("vm", disk(kind), FILE)
    first, second = entry["disks"]
    assert (first["type"], first["source"], first["path"]) == (kind, KINDS[kind][1], None)
    second["capacity_bytes"] = 3 * 2**30
    report = tracked.describe(entry)
    assert report["resources"]["DISK_GB"] == 3
    names = {each[0] for each in tracked.needs(report, {})}
    assert "/srv/a.img" in names and KINDS[kind][1] not in names


@every_kind
@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_a_drain_refuses_the_instance_and_names_the_disk(url, kind, state):
    fleets.discover(url, node(seen("vm", disk(kind), state=state)), node(host="kvm2"))
    question = DrainQuestion(Policy.from_mapping({}), MigrationLimits())
    with Store.open(url).read() as connection:
        plan = question.plan(connection, ["kvm1"])
    (stays,) = plan["unmovable"]
    assert plan["moves"] == [] and KINDS[kind][2] in stays["reason"]


@every_kind
def test_the_disk_is_lost_with_its_host(url, kind):
    fleets.discover(url, node(seen("vm", disk(kind))), node(host="kvm2"))
    with Store.open(url).read() as connection:
        (instance,) = evacuations.instances(connection, "kvm1")
        (place,) = [
            each for each in evacuations.storage(connection).values() if each["host"] == "kvm1"
        ]
    why = evacuation.why_lost(instance, place)
    assert why == f"its disk {KINDS[kind][1]} is on the dead host alone; it waits there, untouched"
    # Facts without sources lead to the same answer.
    (binding,) = instance["bindings"]
    without = {**instance, "disks": [], "bindings": [binding]}
    assert evacuation.why_lost(without, place).startswith(KINDS[kind][2])


@every_kind
def test_the_module_of_a_move_refuses_it_too(kind):
    (found,) = reading.read(xml_of("vm", disk(kind)))
    assert (found.move, found.evacuation) == ("never", "lost") and found.what == KINDS[kind][2]
    host = types.SimpleNamespace(getURI=lambda: "qemu:///system")
    files, reasons = storage.survey(host, None, xml_of("vm", disk(kind)))
    assert files == [] and len(reasons) == 1
    assert f"its disk vda is the {kind} device {KINDS[kind][1]}" in reasons[0]


@every_kind
def test_a_definition_has_no_such_disk_and_leaves_one_alone(kind):
    assert kind not in disk_sources.PROTOCOLS
    have = parse_disk(ET.fromstring(disk(kind)))
    assert has_written_image(have)
    (extra,) = compared({}, disks=[*facts_of_web()["disks"], {**have, "target": "vdb"}])
    assert (extra.key, extra.there, extra.change) == ("disk vdb", KINDS[kind][1], None)


@every_kind
def test_no_job_copies_the_disk_to_other_storage_of_its_host(kind):
    # An old libvirt does not know each kind.
    domain = types.SimpleNamespace(
        name=lambda: "vm", isActive=lambda: False, XMLDesc=lambda flags: xml_of("vm", disk(kind))
    )
    with pytest.raises(LibvirtProblem, match=f"is {kinds.disk(kind).why_fixed}. It is not moved"):
        MovedDisk(domain, "vda").refuse()


@every_kind
def test_counted_pools_leave_the_disk_out(kind):
    pools = [{"name": "fast", "resource_class": "CUSTOM_POOL_FAST"}]
    facts = {"pools": [{"name": "fast", "path": "/srv"}], "storage_pools": pools}
    file = {**parse_disk(ET.fromstring(FILE)), "path": "/srv/a.img", "capacity_bytes": 2**30}
    have = [parse_disk(ET.fromstring(disk(kind))), file]
    assert storage_pools.divide(have, facts) == ({"CUSTOM_POOL_FAST": 1}, 0)
