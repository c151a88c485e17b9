# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``_domain_restart`` and the devices that were claimed for a domain here."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._ownership.mdev_uuids import made_for
from ansible_collections.drover.compute.tests.unit import node_devices

UUID, PARENT, KIND = "00000000-0000-4000-8000-000000000007", "pci_0000_84_00_0", "nvidia-35"
OURS = made_for(UUID, PARENT, KIND, 0)
MDEV = (
    "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address"
    f" uuid='{OURS}'/></source></hostdev>"
)
PCI = (
    "<hostdev mode='subsystem' type='pci' managed='yes'><source><address domain='0x0000' bus='0x3b'"
    " slot='0x02' function='0x1'/></source></hostdev>"
)


@pytest.fixture
def gpus(monkeypatch):
    return node_devices.NodeDevices(monkeypatch, {PARENT: {KIND: 1}})


def restart(run_module, uri, xml, **more):
    order = {
        "uuid": UUID,
        "name": "vm",
        "xml": xml,
        "mdevs": [{"uuid": OURS, "parent": PARENT, "type": KIND}],
        **more,
    }
    return run_module("_domain_restart", uri=uri, instances=[order])["instances"][0]


def test_it_starts_with_the_devices_that_were_claimed_here(run_module, fake_host, gpus, domain_xml):
    uri, connection = fake_host()
    # The test driver has no PCI devices to pass through, so nothing of that kind is started here.
    answer = restart(
        run_module,
        uri,
        domain_xml("vm", 7, devices=MDEV + PCI),
        pci_devices=["0000:3b:02.1"],
        running=False,
    )
    assert (answer["status"], answer["state"], answer["message"]) == ("restarted", "shutoff", "")
    assert gpus.there() == {OURS: (PARENT, KIND, True, True)}
    assert (
        restart(
            run_module,
            uri,
            domain_xml("vm", 7, devices=MDEV + PCI),
            pci_devices=["0000:3b:02.1"],
            running=False,
        )["status"]
        == "there"
    )


@pytest.mark.parametrize(
    ("devices", "more", "says"),
    [(PCI, {}, "pci device 0000:3b:02.1"), (MDEV, {"mdevs": []}, f"mdev device {OURS}")],
)
def test_other_devices_are_refused(run_module, fake_host, gpus, domain_xml, devices, more, says):
    uri, connection = fake_host()
    answer = restart(run_module, uri, domain_xml("vm", 7, devices=devices), **more)
    assert (
        answer["status"] == "failed"
        and says in answer["message"]
        and "is passed through to it" in answer["message"]
    )
    assert connection.listAllDomains(0) == [] and gpus.there() == {}


def test_a_failed_start_leaves_no_device(run_module, fake_host, gpus, domain_xml, monkeypatch):
    uri, connection = fake_host()

    def refuse(self, flags):
        raise libvirt.libvirtError("it does not")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    answer = restart(run_module, uri, domain_xml("vm", 7, devices=MDEV))
    assert (
        answer["status"] == "failed" and connection.listAllDomains(0) == [] and gpus.there() == {}
    )


def test_a_host_that_cannot_make_the_device_is_named(run_module, fake_host, gpus, domain_xml):
    uri, connection = fake_host()
    gpus.parents[PARENT][KIND] = 0
    answer = restart(run_module, uri, domain_xml("vm", 7, devices=MDEV))
    assert (
        answer["status"] == "failed"
        and "cannot make 1 more of the type" in answer["message"]
        and connection.listAllDomains(0) == []
    )
