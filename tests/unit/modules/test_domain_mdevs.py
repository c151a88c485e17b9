# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``domain`` makes the mediated devices of a domain and removes them with the domain. It
removes no others."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._ownership import ownership
from ansible_collections.drover.compute.plugins.module_utils._ownership.mdev_uuids import made_for
from ansible_collections.drover.compute.tests.unit import node_devices
from ansible_collections.drover.compute.tests.unit.devices import error

PARENT, KIND = "pci_0000_84_00_0", "nvidia-35"
OURS = made_for("00000000-0000-4000-8000-000000000007", PARENT, KIND, 0)
MORE = made_for("00000000-0000-4000-8000-000000000007", PARENT, KIND, 1)
FOREIGN = "4b20d080-1b54-4048-85b3-a6a62d165c01"


@pytest.fixture
def gpus(monkeypatch):
    return node_devices.NodeDevices(monkeypatch, {PARENT: {KIND: 2, "nvidia-36": 4}})


@pytest.fixture
def xml(domain_xml):
    """The XML of a domain with mediated devices."""

    def make(*uuids, name="vm", number=7):
        hostdevs = "".join(
            "<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address"
            f" uuid='{uuid}'/></source></hostdev>"
            for uuid in uuids
        )
        return domain_xml(name, number, devices=hostdevs)

    return make


def wanted(*uuids, parent=PARENT, kind=KIND):
    return [{"uuid": uuid, "parent": parent, "type": kind} for uuid in uuids]


def test_they_are_made_before_the_start_and_come_back_with_the_host(
    run_module, fake_host, gpus, xml
):
    uri, connection = fake_host()
    gpus.add(FOREIGN, PARENT, KIND)
    result = run_module("domain", uri=uri, xml=xml(FOREIGN, OURS), mdevs=wanted(FOREIGN, OURS))
    assert result["changed"] is True and result["domain"]["state"] == "running"
    assert gpus.there() == {FOREIGN: (PARENT, KIND, True, False), OURS: (PARENT, KIND, True, True)}
    again = run_module("domain", uri=uri, xml=xml(FOREIGN, OURS), mdevs=wanted(FOREIGN, OURS))
    assert again["changed"] is False


def test_one_that_is_only_defined_is_started(run_module, fake_host, gpus, xml):
    """A run was killed after it made the device and before it recorded that."""
    uri, dummy = fake_host()
    gpus.add(OURS, PARENT, KIND, active=False)
    assert run_module("domain", uri=uri, xml=xml(OURS), mdevs=wanted(OURS))["rc"] == 0
    assert gpus.there() == {OURS: (PARENT, KIND, True, True)}


def test_check_mode_makes_none(run_module, fake_host, gpus, xml):
    uri, dummy = fake_host()
    assert (
        run_module("domain", check_mode=True, uri=uri, xml=xml(OURS), mdevs=wanted(OURS))["changed"]
        is True
    )
    assert gpus.there() == {}


def test_the_end_of_a_domain_removes_what_the_collection_made(run_module, fake_host, gpus, xml):
    uri, connection = fake_host()
    gpus.add(FOREIGN, PARENT, KIND)
    run_module("domain", uri=uri, xml=xml(FOREIGN, OURS), mdevs=wanted(FOREIGN, OURS))
    assert (
        run_module("domain", check_mode=True, uri=uri, name="vm", state="absent", force=True)[
            "changed"
        ]
        is True
    )
    assert OURS in gpus.there()
    assert run_module("domain", uri=uri, name="vm", state="absent", force=True)["changed"] is True
    assert connection.listAllDomains(0) == [] and list(gpus.there()) == [FOREIGN]


def test_one_that_another_domain_names_stays(run_module, fake_host, gpus, xml):
    uri, dummy = fake_host(xml(OURS, name="other", number=8))
    gpus.add(OURS, PARENT, KIND)
    gpus.add(MORE, PARENT, KIND)
    run_module("domain", uri=uri, xml=xml(OURS, MORE), state="present")
    result = run_module("domain", uri=uri, name="vm", state="absent", force=True)
    assert list(gpus.there()) == [OURS]
    # Warnings of all runs of one process are collected.
    assert f"The mediated device {OURS} of vm stays on " in str(
        result["warnings"][-1]
    ) and "other names it." in str(result["warnings"][-1])


def test_one_that_is_busy_stays_and_the_domain_goes(run_module, fake_host, gpus, xml):
    uri, connection = fake_host()
    run_module("domain", uri=uri, xml=xml(OURS), mdevs=wanted(OURS))
    gpus.busy.add(OURS)
    result = run_module("domain", uri=uri, name="vm", state="absent", force=True)
    assert (
        result["rc"] == 0
        and connection.listAllDomains(0) == []
        and "Device or resource busy" in str(result["warnings"][-1])
    )


def test_a_build_that_fails_leaves_none(run_module, fake_host, gpus, xml, monkeypatch):
    uri, connection = fake_host()
    gpus.add(FOREIGN, PARENT, KIND)

    def refuse(domain, timeout):
        raise error(
            libvirt.VIR_ERR_INTERNAL_ERROR, "internal error: qemu unexpectedly closed the monitor"
        )

    monkeypatch.setattr(power, "start", refuse)
    result = run_module("domain", uri=uri, xml=xml(FOREIGN, OURS), mdevs=wanted(FOREIGN, OURS))
    assert (result["rc"], result["begun"], result["domain_left"]) == (1, False, False)
    assert connection.listAllDomains(0) == [] and list(gpus.there()) == [FOREIGN]


def test_a_driver_that_makes_none_leaves_none_defined(run_module, fake_host, gpus, xml):
    uri, connection = fake_host()
    gpus.refuses = "No such file or directory"
    result = run_module("domain", uri=uri, xml=xml(OURS), mdevs=wanted(OURS))
    assert (result["rc"], result["begun"]) == (1, False) and "No such file or directory" in result[
        "msg"
    ]
    assert gpus.there() == {} and connection.listAllDomains(0) == []


def test_what_a_failed_build_cannot_remove_is_named(run_module, fake_host, gpus, xml, monkeypatch):
    uri, dummy = fake_host()
    gpus.busy.add(OURS)
    monkeypatch.setattr(
        power,
        "start",
        lambda domain, timeout: (each for each in ()).throw(
            error(libvirt.VIR_ERR_INTERNAL_ERROR, "no")
        ),
    )
    result = run_module("domain", uri=uri, xml=xml(OURS), mdevs=wanted(OURS))
    assert result["begun"] is True and f"the mediated device {OURS} (" in result["msg"]


@pytest.mark.parametrize(
    ("there", "mdevs", "words"),
    [
        (
            {},
            wanted(OURS, parent="pci_0000_85_00_0"),
            (
                "The device pci_0000_85_00_0, of which a mediated device is to be made, is not"
                " there on"
            ),
        ),
        (
            {},
            wanted(OURS, kind="nvidia-99"),
            (
                "cannot make 1 more of the type nvidia-99; it can make: 2 of nvidia-35, 4 of"
                " nvidia-36."
            ),
        ),
        (
            {FOREIGN: KIND},
            wanted(OURS, MORE),
            "cannot make 2 more of the type nvidia-35; it can make: 1 of nvidia-35",
        ),
        (
            {OURS: "nvidia-36"},
            wanted(OURS),
            "is a nvidia-36 of pci_0000_84_00_0, not a nvidia-35 of pci_0000_84_00_0. Run",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_begun(
    run_module, fake_host, gpus, xml, there, mdevs, words
):
    uri, connection = fake_host()
    for uuid, kind in there.items():
        gpus.add(uuid, PARENT, kind)
    before = gpus.there()
    result = run_module("domain", uri=uri, xml=xml(OURS), mdevs=mdevs)
    assert (result["rc"], result["begun"]) == (1, False) and words in result["msg"]
    assert gpus.there() == before and connection.listAllDomains(0) == []


def test_one_that_another_domain_has_is_refused(run_module, fake_host, gpus, xml):
    uri, connection = fake_host(xml(FOREIGN, name="other", number=8))
    gpus.add(FOREIGN, PARENT, KIND)
    result = run_module("domain", uri=uri, xml=xml(FOREIGN), mdevs=wanted(FOREIGN))
    assert (
        f"The mediated device {FOREIGN} is in use by other on" in result["msg"]
        and result["begun"] is False
    )
    assert list(gpus.there()) == [FOREIGN] and len(connection.listAllDomains(0)) == 1


def test_an_old_libvirt_is_named(run_module, fake_host, xml, monkeypatch):
    gpus = node_devices.NodeDevices(monkeypatch, {PARENT: {KIND: 2}}, version=7002000)
    uri, dummy = fake_host()
    result = run_module("domain", uri=uri, xml=xml(OURS), mdevs=wanted(OURS))
    assert (
        "cannot make mediated devices, which came with libvirt 7.3. Make them by hand, or"
        " update it." in result["msg"]
    )
    gpus.add(FOREIGN, PARENT, KIND)
    assert run_module("domain", uri=uri, xml=xml(FOREIGN), mdevs=wanted(FOREIGN))["rc"] == 0


def test_what_others_made_is_never_removed():
    """Remove mediated devices by the one function that removes them."""
    with pytest.raises(
        binding.LibvirtProblem, match="was not made by this collection, so it stays"
    ):
        ownership.remove_mdev(None, FOREIGN, True)
