# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A device that vanished between the claim and the start: the build goes to the next alternate,
with a device of that host, and leaves nothing behind.

The store is a real one, the hypervisors run the shipped modules. libvirt's test driver knows no
such devices: the test gives its refusals.
"""

from __future__ import annotations

import re

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._ownership.mdev_uuids import made_for
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.building import Building
from ansible_collections.drover.compute.plugins.plugin_utils._numa.device_requests import (
    request_of_port,
)
from ansible_collections.drover.compute.plugins.plugin_utils._numa.request import HostRequest
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import devices
from ansible_collections.drover.compute.tests.unit import hypervisors, node_devices
from ansible_collections.drover.compute.tests.unit.devices import error
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker import machines

HOSTS = ("kvm1", "kvm2")
PARENT, KIND = "pci_0000_84_00_0", "nvidia-35"


@pytest.fixture
def fleet(tmp_path, monkeypatch):
    made = hypervisors.Fleet(tmp_path / "hosts", monkeypatch, names=HOSTS)
    yield made
    made.close()


@pytest.fixture
def store(prepared_url):
    options = {
        "pci_device_specs": [
            {"address": "0000:3b:00.0", "product_id": "154c", "physical_network": "physnet1"}
        ]
    }
    fleets.discover(
        prepared_url,
        *(machines.node(host=name, options=options, **machines.devices()) for name in HOSTS),
    )
    return Store.open(prepared_url)


def claim(store, *hosts, pci=()):
    with store.write(together=True) as connection:
        wanted = fleets.selection("web", *hosts, host_request=HostRequest(pci=tuple(pci)).as_data())
        (found,) = claims.claim(connection, [wanted], fleets.NOW, defined=True)
    return found


def wanted(claimed, folder, **more):
    disk = str(folder / "web.qcow2")
    nics = "".join(
        "<interface type='hostdev' managed='yes'><source><address type='pci' domain='0x{}'"
        " bus='0x{}' slot='0x{}' function='0x{}'/></source></interface>".format(
            *re.split("[:.]", each["address"])
        )
        for each in claimed.get("pci_devices", ())
    )
    xml = hypervisors.xml("web", claimed["uuid"], [disk]).replace("</devices>", f"{nics}</devices>")
    return {
        "uuid": claimed["uuid"],
        "name": "web",
        "xml": xml,
        "disks": [{"path": disk, "size_gb": 1}],
        "uri": "qemu:///system",
        **more,
    }


def owners(store):
    """Return {host: {address: owner}} of devices with an owner."""
    with store.read() as connection:
        by_node = devices.read_pci(connection)
    return [
        {each["address"]: each["owner"] for each in by_node[node] if each["owner"]}
        for node in sorted(by_node)
    ]


def build(store, fleet, claimed, folder, **more):
    """Build it as the role does; return the last claim, and the reason of each failed build."""
    failures = []
    while True:
        building = Building(
            fleet.ports(store), fleet.hand(claimed["host"]), claimed["host"], timeout=2
        )
        try:
            building.build(wanted(claimed, folder, **more))
            return claimed, failures
        except DroverError as problem:
            failures.append(str(problem))
            assert problem.details["uncertain"] is False
        claimed = {
            **claimed,
            **building.settle(claimed["uuid"], claimed["alternates"], 3600, failures[-1])["claim"],
        }


def test_a_pci_device_that_vanished_ends_in_the_next_alternate(store, fleet, tmp_path, monkeypatch):
    claimed = claim(store, *HOSTS, pci=[request_of_port("physnet1", "direct")])
    ((gone, dummy),) = [(each["address"], each["request"]) for each in claimed["pci_devices"]]
    assert owners(store) == [{gone: claimed["uuid"]}, {}]
    create = libvirt.virDomain.createWithFlags

    def start(domain, flags=0):
        if hypervisors.HERE.get().name == "kvm1":
            raise error(
                libvirt.VIR_ERR_INTERNAL_ERROR,
                f"internal error: Device {gone} not found: could not access"
                f" /sys/bus/pci/devices/{gone}/config",
            )
        return create(domain, flags)

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", start)
    last, failures = build(store, fleet, claimed, tmp_path)
    (failure,) = failures
    assert f"Device {gone} not found" in failure and "Instance web on kvm1" in failure
    assert last["host"] == "kvm2" and fleet.where() == {"web": [("kvm2", "running")]}
    # The device of the first host is free again, and the device of the second belongs to the
    # instance.
    assert owners(store) == [{}, {last["pci_devices"][0]["address"]: last["uuid"]}]
    assert [each["request"] for each in last["pci_devices"]] == [0]


def test_a_device_that_vanished_from_the_only_host_gives_everything_back(
    store, fleet, tmp_path, monkeypatch
):
    claimed = claim(store, "kvm1", pci=[request_of_port("physnet1", "direct")])

    def start(domain, flags=0):
        raise error(libvirt.VIR_ERR_INTERNAL_ERROR, "internal error: Device not found")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", start)
    with pytest.raises(
        DroverError, match="no alternate is left. What was made was removed and its room given back"
    ):
        build(store, fleet, claimed, tmp_path)
    assert (
        owners(store) == [{}, {}] and fleet.where() == {} and not (tmp_path / "web.qcow2").exists()
    )


def test_a_parent_of_mediated_devices_that_vanished_ends_in_the_next_alternate(
    store, fleet, tmp_path, monkeypatch
):
    gpus = node_devices.NodeDevices(monkeypatch, {PARENT: {KIND: 1}})
    claimed = claim(store, *HOSTS)
    mdev = {"uuid": made_for(claimed["uuid"], PARENT, KIND, 0), "parent": PARENT, "type": KIND}

    def before(host, module, arguments):
        gpus.parents = {} if host == "kvm1" else {PARENT: {KIND: 1}}

    fleet.before.append(before)
    last, (failure,) = build(store, fleet, claimed, tmp_path, mdevs=[mdev])
    assert f"The device {PARENT}, of which a mediated device is to be made, is not there" in failure
    assert (
        last["host"] == "kvm2"
        and list(gpus.there()) == [mdev["uuid"]]
        and fleet.where() == {"web": [("kvm2", "running")]}
    )


def test_the_mediated_devices_of_an_uncertain_build_stay(store, fleet, tmp_path, monkeypatch):
    gpus = node_devices.NodeDevices(monkeypatch, {PARENT: {KIND: 1}})
    claimed = claim(store, *HOSTS)
    mdev = {"uuid": made_for(claimed["uuid"], PARENT, KIND, 0), "parent": PARENT, "type": KIND}
    fleet.after.append(lambda host, module, result: setattr(fleet.hosts[host], "reached", False))
    building = Building(fleet.ports(store), fleet.hand("kvm1"), "kvm1", timeout=2)
    with pytest.raises(DroverError) as caught:
        building.build(wanted(claimed, tmp_path, mdevs=[mdev]))
    assert caught.value.details["uncertain"] is True and list(gpus.there()) == [mdev["uuid"]]
    with pytest.raises(DroverError):
        building.settle(claimed["uuid"], claimed["alternates"], 3600, "It was not built.")
    assert list(gpus.there()) == [mdev["uuid"]]
    fleet.after.clear()
    fleet.hosts["kvm1"].reached = True
    assert building.build(wanted(claimed, tmp_path, mdevs=[mdev])) and fleet.where() == {
        "web": [("kvm1", "running")]
    }
