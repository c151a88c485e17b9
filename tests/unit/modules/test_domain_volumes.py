# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A build that was killed while it made a volume of LVM or ZFS. A withdrawal of its order removes
its volumes, and no others."""

from __future__ import annotations

import json
import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._orders.unfinished import (
    UnfinishedBuild,
)
from ansible_collections.drover.compute.plugins.module_utils._storage import block_volumes

UUID = "00000000-0000-4000-8000-000000000007"
NAME = f"{UUID}-vda"
POOL = (
    "<pool"
    " type='{kind}'><name>vms</name><source><name>vms</name></source><target><path>/dev/vms-of-no-host</path></target></pool>"
)
DISK = {"pool": "vms", "volume": NAME, "size_gb": 1}


class Killed(BaseException):
    """The exception that stands for the kill of the module."""


@pytest.fixture(params=["logical", "zfs"])
def host(fake_host, request):
    uri, connection = fake_host()
    connection.storagePoolCreateXML(POOL.format(kind=request.param), 0)
    return uri, connection.storagePoolLookupByName("vms")


def build(run_module, uri, xml, order, **more):
    return run_module(
        "domain",
        uri=uri,
        uuid=UUID,
        name="vm",
        xml=xml,
        state="running",
        disks=[DISK],
        order=order,
        **more,
    )


@pytest.fixture
def killed(host, run_module, domain_xml, monkeypatch, records, request):
    """Kill the build after it made the volume: no line of it runs after that."""
    uri, pool = host
    made = UnfinishedBuild.made

    def kill(*args):
        if noted:
            made(*args)
        kept[0] = {
            name: open(os.path.join(records.folder, name)).read()
            for name in os.listdir(records.folder)
            if name.endswith(".volumes")
        }
        raise Killed

    kept = [{}]
    noted = getattr(request, "param", True)
    monkeypatch.setattr(UnfinishedBuild, "made", kill)
    with pytest.raises(Killed):
        build(run_module, uri, domain_xml("vm", 7), "first")
    monkeypatch.setattr(UnfinishedBuild, "made", made)
    # Make the volume again if the end of the module removed it.
    if NAME not in pool.listVolumes():
        make_volume(pool)
    for name, text in kept[0].items():
        with open(os.path.join(records.folder, name), "w", encoding="utf-8") as handle:
            handle.write(text)
    assert kept[0] and json.loads(kept[0][f"{UUID}.volumes"])
    return uri, pool


def make_volume(pool, name=NAME):
    pool.createXML(block_volumes.volume_xml(name, 2**30), 0)


def withdraw(run_module, uri, *orders, **more):
    (entry,) = run_module(
        "_domain_order", uri=uri, domains=[{"uuid": UUID, "withdraw": list(orders)}], **more
    )["domains"]
    return entry


def test_what_it_has_made_goes_with_its_order(killed, run_module):
    uri, pool = killed
    make_volume(pool, f"{UUID}-vdb")
    entry = withdraw(run_module, uri, "first")
    assert entry["domain"] is None and entry["kept_disks"] == []
    # A person has made the other one.
    assert pool.listVolumes() == [f"{UUID}-vdb"]


def test_c1_a_damaged_list_of_what_it_has_made_is_not_an_empty_one(
    killed, run_module, domain_xml, records
):
    """Its volume stays on a host that nothing names, while the instance is built on another one."""
    uri, pool = killed
    path = os.path.join(records.folder, f"{UUID}.volumes")
    with open(path, "w", encoding="utf-8") as handle:
        handle.write('{"lvm')
    (kept,) = withdraw(run_module, uri, "first")["kept_disks"]
    assert kept["path"] == UUID and path in kept["reason"] and "is damaged" in kept["reason"]
    failed = build(run_module, uri, domain_xml("vm", 7), "second")
    assert "is damaged" in failed["msg"] and pool.listVolumes() == [NAME]
    assert open(path).read() == '{"lvm'


@pytest.mark.parametrize("orders", [[], ["second"]])
def test_it_stays_while_its_order_counts(killed, run_module, orders):
    uri, pool = killed
    withdraw(run_module, uri, *orders)
    assert pool.listVolumes() == [NAME]


def test_one_that_other_hosts_have_stays_and_is_named(killed, run_module, monkeypatch):
    """Another store may have a build of the same instance there."""
    uri, pool = killed
    monkeypatch.setattr(block_volumes, "is_device", lambda conn, pool: False)
    entry = withdraw(run_module, uri, "first")
    assert (
        pool.listVolumes() == [NAME]
        and "other hosts have its storage" in entry["kept_disks"][0]["reason"]
    )


@pytest.mark.parametrize("killed", [False], indirect=True)
def test_one_of_which_only_the_intention_is_noted_stays_and_is_named(killed, run_module):
    uri, pool = killed
    entry = withdraw(run_module, uri, "first")
    assert (
        pool.listVolumes() == [NAME]
        and "nothing tells it from one that a person has made" in entry["kept_disks"][0]["reason"]
    )


def test_in_check_mode_it_stays(killed, run_module):
    uri, pool = killed
    withdraw(run_module, uri, "first", check_mode=True)
    assert pool.listVolumes() == [NAME]


def test_what_another_domain_uses_stays_and_is_named(killed, run_module, domain_xml, fake_host):
    uri, pool = killed
    disk = (
        f"<disk type='block'><source dev='{pool.storageVolLookupByName(NAME).path()}'/><target"
        " dev='vda'/></disk>"
    )
    libvirt.open(uri).defineXML(domain_xml("thief", 8, devices=disk))
    entry = withdraw(run_module, uri, "first")
    assert pool.listVolumes() == [NAME] and "thief" in entry["kept_disks"][0]["reason"]


def test_a_volume_of_a_domain_that_was_defined_stays(host, run_module, domain_xml):
    """The domain may be on another host by now, with this very volume."""
    uri, pool = host
    build(run_module, uri, domain_xml("vm", 7), "first")
    domain = libvirt.open(uri).lookupByName("vm")
    domain.destroy()
    domain.undefine()
    withdraw(run_module, uri, "first")
    assert pool.listVolumes() == [NAME]
