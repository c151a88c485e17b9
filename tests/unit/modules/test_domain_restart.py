# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``domain_restart`` on libvirt's test driver."""

from __future__ import annotations

import os
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records

UUID = "00000000-0000-4000-8000-000000000007"


@pytest.fixture
def order(domain_xml, tmp_path):
    """Return the order for a domain ``vm`` with a disk that exists."""
    path = tmp_path / "vm.qcow2"
    path.touch()
    devices = f"<disk type='file' device='disk'><source file='{path}'/><target dev='vda'/></disk>"
    return {
        "uuid": UUID,
        "name": "vm",
        "xml": domain_xml("vm", 7, devices=devices),
        "files": [str(path)],
    }


def names(connection):
    return sorted(domain.name() for domain in connection.listAllDomains(0))


def test_defined_and_started_once(run_module, fake_host, order):
    uri, connection = fake_host()
    result = run_module(
        "_domain_restart", uri=uri, instances=[{**order, "autostart": True}], check_mode=True
    )
    assert result["changed"] and names(connection) == []
    result = run_module("_domain_restart", uri=uri, instances=[{**order, "autostart": True}])
    assert result["changed"] and result["instances"] == [
        {"uuid": UUID, "name": "vm", "status": "restarted", "state": "running", "message": ""}
    ]
    domain = connection.lookupByName("vm")
    assert domain.isActive() and domain.isPersistent() and domain.autostart()
    result = run_module("_domain_restart", uri=uri, instances=[{**order, "autostart": True}])
    assert not result["changed"] and result["instances"][0]["status"] == "there"


def test_defined_and_left_off_and_started_later(run_module, fake_host, order):
    uri, connection = fake_host()
    result = run_module("_domain_restart", uri=uri, instances=[{**order, "running": False}])
    assert (
        result["instances"][0]["state"] == "shutoff"
        and not connection.lookupByName("vm").isActive()
    )
    assert not run_module("_domain_restart", uri=uri, instances=[{**order, "running": False}])[
        "changed"
    ]
    # A dry run predicts the same result, also for a changed definition.
    xml = connection.lookupByName("vm").XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    for text, changed in (
        (xml, False),
        (xml.replace("</domain>", "<description>newer</description></domain>"), True),
    ):
        given = [{**order, "running": False, "xml": text}]
        results = [
            run_module("_domain_restart", uri=uri, instances=given, check_mode=check_mode)
            for check_mode in (True, False)
        ]
        assert [result["changed"] for result in results] == [changed, changed], text
        assert len({result["instances"][0]["status"] for result in results}) == 1
    # A run that was killed between defining and starting.
    assert (
        run_module("_domain_restart", uri=uri, instances=[order])["instances"][0]["status"]
        == "restarted"
    )
    assert connection.lookupByName("vm").isActive()


def test_suspected_3_what_was_withdrawn_begins_nothing(run_module, fake_host, order, domain_xml):
    """The controller is dead, and its call still works on other domains. The call leaves out the
    orders that a later run withdrew."""
    uri, connection = fake_host()
    other = {
        **order,
        "uuid": "00000000-0000-4000-8000-000000000008",
        "name": "vm2",
        "xml": domain_xml("vm2", 8),
        "files": [],
    }
    call = [{**other, "order": "first"}, {**order, "order": "first"}]
    looked = run_module("_domain_order", uri=uri, domains=[{"uuid": UUID, "withdraw": ["first"]}])
    assert looked["domains"] == [{"uuid": UUID, "busy": False, "domain": None, "kept_disks": []}]
    answers = run_module("_domain_restart", uri=uri, instances=call)["instances"]
    assert [each["status"] for each in answers] == [
        "restarted",
        "uncertain",
    ] and "was withdrawn by a later run" in answers[1]["message"]
    assert names(connection) == ["vm2"]
    # The next order is another one, and the first stays withdrawn.
    answers = run_module("_domain_restart", uri=uri, instances=[{**order, "order": "second"}])[
        "instances"
    ]
    assert answers[0]["status"] == "restarted"
    connection.lookupByName("vm").destroy()
    run_module("_domain_restart", uri=uri, instances=call)
    assert not connection.lookupByName("vm").isActive()


def test_suspected_3_nothing_is_withdrawn_from_a_call_that_is_at_work(run_module, fake_host, order):
    """The result of the look is "busy"; the domain does not count as absent."""
    uri, connection = fake_host()
    lock = Records().lock(UUID)
    try:
        looked = run_module(
            "_domain_order", uri=uri, domains=[{"uuid": UUID, "withdraw": ["first"]}], patience=0
        )
    finally:
        os.close(lock)
    assert looked["domains"] == [{"uuid": UUID, "busy": True, "domain": None, "kept_disks": []}]
    assert (
        run_module("_domain_restart", uri=uri, instances=[{**order, "order": "first"}])[
            "instances"
        ][0]["status"]
        == "restarted"
    )
    looked = run_module("_domain_order", uri=uri, domains=[{"uuid": UUID, "withdraw": ["first"]}])
    assert looked["domains"][0]["domain"]["state"] == "running" and names(connection) == ["vm"]


def test_what_cannot_start_here_leaves_nothing(
    run_module, fake_host, order, domain_xml, monkeypatch
):
    uri, connection = fake_host(domain_xml("vm2", 8))
    answer = run_module(
        "_domain_restart", uri=uri, instances=[{**order, "files": ["/nowhere/vm.qcow2"]}]
    )["instances"][0]
    assert answer["status"] == "failed" and "does not have /nowhere/vm.qcow2" in answer["message"]
    twin = {**order, "name": "vm2", "xml": domain_xml("vm2", 7)}
    answer = run_module("_domain_restart", uri=uri, instances=[twin])["instances"][0]
    assert answer["status"] == "failed" and "another domain named vm2" in answer["message"]
    tpm = {
        **order,
        "xml": domain_xml("vm", 7, devices="<tpm model='tpm-crb'><backend type='emulator'/></tpm>"),
    }
    answer = run_module("_domain_restart", uri=uri, instances=[tpm])["instances"][0]
    assert answer["status"] == "failed" and "TPM" in answer["message"]

    def refuse(self, flags):
        raise libvirt.libvirtError("it does not")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    answer = run_module("_domain_restart", uri=uri, instances=[order])["instances"][0]
    assert answer["status"] == "failed" and names(connection) == ["vm2"]


def test_forget(run_module, fake_host, order, domain_xml, tmp_path):
    uri, connection = fake_host(domain_xml("on", 8))
    run_module(
        "_domain_restart", uri=uri, instances=[{**order, "running": False, "autostart": True}]
    )
    on, gone = "00000000-0000-4000-8000-000000000008", "00000000-0000-4000-8000-000000000009"
    result = run_module("_domain_restart", uri=uri, forget=[UUID, on, gone], check_mode=True)
    assert result["changed"] and names(connection) == ["on", "vm"]
    result = run_module("_domain_restart", uri=uri, forget=[UUID, on, gone])
    assert [each["status"] for each in result["forgotten"]] == ["forgotten", "running", "absent"]
    assert names(connection) == ["on"] and (tmp_path / "vm.qcow2").exists()
    assert not run_module("_domain_restart", uri=uri, forget=[UUID, on])["changed"]


def test_f1_forget_names_the_records_of_snapshots_that_go(run_module, fake_host, order):
    """Internal snapshots are in the images, which the instance has at its new host; libvirt's
    record of them is here alone.
    """
    uri, connection = fake_host()
    run_module("_domain_restart", uri=uri, instances=[{**order, "running": False}])
    domain = connection.lookupByUUIDString(UUID)
    for name in ("before", "after"):
        domain.snapshotCreateXML(
            f"<domainsnapshot><name>{name}</name><state>shutoff</state><creationTime>1</creationTime>{domain.XMLDesc(0)}</domainsnapshot>",
            libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE,
        )
    for check in (True, False):
        (answer,) = run_module("_domain_restart", uri=uri, forget=[UUID], check_mode=check)[
            "forgotten"
        ]
        assert answer["status"] == "forgotten"
        assert "after, before" in answer["message"] and "qemu-img snapshot -l" in answer["message"]
    assert not names(connection)


def test_mistakes(run_module, fake_host):
    uri, dummy = fake_host()
    assert "at_once must be at least 1" in run_module("_domain_restart", uri=uri, at_once=0)["msg"]


def test_a_console_whose_password_no_store_has_is_locked(run_module, fake_host, order, domain_xml):
    uri, connection = fake_host()
    marked = (
        "<metadata><drover:instance"
        " xmlns:drover='https://drover.compute/instance/1'><drover:graphics_password_variable>secret"
    )
    marked += "</drover:graphics_password_variable></drover:instance></metadata><devices>"
    for number, (before, passwd) in enumerate((("<devices>", False), (marked, True)), 7):
        text = domain_xml(
            f"vm{number}", number, devices="<graphics type='vnc' listen='0.0.0.0'/>"
        ).replace("<devices>", before)
        restart_order = {
            "uuid": f"00000000-0000-4000-8000-00000000000{number}",
            "name": f"vm{number}",
            "xml": text,
            "files": [],
        }
        assert (
            run_module("_domain_restart", uri=uri, instances=[restart_order])["instances"][0][
                "status"
            ]
            == "restarted"
        )
        console = ET.fromstring(
            connection.lookupByName(f"vm{number}").XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE)
        ).find("devices/graphics")
        assert bool(console.get("passwd")) is passwd
