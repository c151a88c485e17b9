# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``domain`` on libvirt's test driver, with real image files."""

from __future__ import annotations

import base64
import json
import os
import stat
import subprocess

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import definition
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding, calls
from ansible_collections.drover.compute.plugins.module_utils._orders import orders

UUID = "00000000-0000-4000-8000-000000000007"


@pytest.fixture
def image(tmp_path):
    """A disk of 1 GiB that does not exist yet, and its entry in ``disks``."""
    path = str(tmp_path / "vm.qcow2")
    return path, {"path": path, "size_gb": 1}


@pytest.fixture
def vm_xml(domain_xml, image):
    """The XML of ``vm`` with that disk."""
    path = image[0]
    devices = (
        "<disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source"
        f" file='{path}'/><target dev='vda'/></disk>"
    )
    return domain_xml("vm", 7, devices=devices)


def info(path):
    """Return the output of qemu-img info about an image."""
    return json.loads(subprocess.check_output(["qemu-img", "info", "--output=json", path]))


def names(connection):
    """The names of the domains that are defined or running."""
    return sorted(domain.name() for domain in connection.listAllDomains(0))


def test_one_call_makes_disk_and_seed_defines_and_starts(
    run_module, fake_host, vm_xml, image, tmp_path
):
    uri, connection = fake_host()
    seed = {
        "path": str(tmp_path / "vm-seed.iso"),
        "content_b64": base64.b64encode(b"seed").decode(),
    }
    result = run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]], seed=seed)
    assert result["changed"] is True
    assert result["created_disks"] == [image[0], seed["path"]]
    assert (
        result["domain"]["uuid"],
        result["domain"]["state"],
        result["domain"]["persistent"],
    ) == (UUID, "running", True)
    assert connection.lookupByName("vm").isActive()
    assert info(image[0])["virtual-size"] == 2**30
    assert open(seed["path"], "rb").read() == b"seed"
    assert stat.S_IMODE(os.stat(seed["path"]).st_mode) == 0o600
    # No temporary name is left.
    assert sorted(os.listdir(tmp_path)) == ["node0.xml", "vm-seed.iso", "vm.qcow2"]

    again = run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]], seed=seed)
    assert (again["changed"], again["created_disks"]) == (False, [])


def test_a_disk_backed_by_an_image(run_module, fake_host, vm_xml, image, tmp_path):
    uri, dummy = fake_host()
    base = str(tmp_path / "base.img")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", base, "100M"], check=True)
    result = run_module("domain", uri=uri, xml=vm_xml, disks=[{**image[1], "backing_file": base}])
    assert result["rc"] == 0
    assert info(image[0])["backing-filename"] == base
    assert info(image[0])["backing-filename-format"] == "qcow2"


@pytest.mark.parametrize(
    "state, active", [("present", False), ("stopped", False), ("running", True)]
)
def test_states_of_a_new_domain(run_module, fake_host, vm_xml, state, active):
    uri, connection = fake_host()
    assert run_module("domain", uri=uri, xml=vm_xml, state=state)["changed"] is True
    assert connection.lookupByName("vm").isActive() == int(active)
    assert run_module("domain", uri=uri, xml=vm_xml, state=state)["changed"] is False


def test_a_paused_domain_is_resumed_and_a_running_one_shut_off(run_module, fake_host, vm_xml):
    uri, connection = fake_host(vm_xml)
    connection.lookupByName("vm").suspend()
    assert run_module("domain", uri=uri, name="vm")["domain"]["state"] == "running"
    result = run_module("domain", uri=uri, name="vm", state="stopped")
    assert (result["changed"], result["domain"]["state"]) == (True, "shutoff")


def test_a_guest_that_ignores_the_power_button(run_module, fake_host, vm_xml, monkeypatch):
    uri, connection = fake_host(vm_xml)
    monkeypatch.setattr(libvirt.virDomain, "shutdown", lambda self: 0)
    result = run_module("domain", uri=uri, name="vm", state="stopped", timeout=1)
    assert result["rc"] == 1
    assert "force=true" in result["msg"]
    assert connection.lookupByName("vm").isActive()
    assert (
        run_module("domain", uri=uri, name="vm", state="stopped", timeout=0, force=True)["changed"]
        is True
    )
    assert not connection.lookupByName("vm").isActive()


def test_check_mode_tells_the_truth_and_does_nothing(run_module, fake_host, vm_xml, image):
    uri, connection = fake_host()
    arguments = {"uri": uri, "xml": vm_xml, "disks": [image[1]]}
    dry_run = run_module("domain", check_mode=True, diff_mode=True, **arguments)
    assert (names(connection), os.path.exists(image[0])) == ([], False)
    done = run_module("domain", diff_mode=True, **arguments)
    for key in ("changed", "created_disks"):
        assert dry_run[key] == done[key]
    for key in ("uuid", "name", "state", "vcpus", "memory_mb"):
        assert dry_run["domain"][key] == done["domain"][key]
    assert done["diff"]["before"] == "state: absent\n"
    assert done["diff"]["after"].startswith(f"state: running\nfile: {image[0]}\n<domain")
    assert run_module("domain", check_mode=True, **arguments)["changed"] is False
    assert (
        run_module("domain", check_mode=True, uri=uri, name="vm", state="absent")["changed"] is True
    )
    assert names(connection) == ["vm"]


def test_a_failed_start_removes_just_what_this_call_made(
    run_module, fake_host, vm_xml, image, tmp_path, monkeypatch
):
    uri, connection = fake_host()
    kept = str(tmp_path / "kept.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", kept, "2G"], check=True)

    def refuse(self, flags):
        raise libvirt.libvirtError("no memory left")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    result = run_module(
        "domain", uri=uri, xml=vm_xml, disks=[image[1], {"path": kept, "size_gb": 2}]
    )
    assert result["rc"] == 1
    assert "no memory left" in result["msg"]
    assert names(connection) == []
    assert sorted(os.listdir(tmp_path)) == ["kept.qcow2", "node0.xml"]


def test_a_domain_defined_before_stays_when_its_start_fails(
    run_module, fake_host, vm_xml, image, monkeypatch
):
    uri, connection = fake_host()
    run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]], state="present")

    def refuse(self, flags):
        raise libvirt.libvirtError("no")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    assert run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]])["rc"] == 1
    assert names(connection) == ["vm"]
    assert os.path.exists(image[0])


def test_memory_that_was_saved_gets_the_time_to_be_read(
    run_module, fake_host, vm_xml, image, monkeypatch
):
    uri, connection = fake_host()
    run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]])
    domain = connection.lookupByName("vm")
    domain.managedSave(0)
    used, create = [], libvirt.virDomain.create
    monkeypatch.setattr(
        libvirt.virDomain, "create", lambda self: used.append("create") or create(self)
    )
    assert run_module("domain", uri=uri, name="vm", state="running")["changed"] is True
    assert domain.isActive() and not domain.hasManagedSaveImage(0)
    (call,) = used
    assert calls.CALL_TIMEOUTS[call] > calls.CALL_TIMEOUTS["createWithFlags"]


def test_xml_that_libvirt_refuses_leaves_nothing(run_module, fake_host, vm_xml, image):
    uri, connection = fake_host()
    result = run_module(
        "domain",
        uri=uri,
        xml=vm_xml.replace("<devices>", "<devices><frobnicator/>"),
        disks=[image[1]],
    )
    assert result["rc"] == 1
    assert "validate against schema" in result["msg"]
    assert not os.path.exists(image[0])
    assert names(connection) == []


def test_the_disk_of_a_killed_run_is_taken_and_another_is_not(run_module, fake_host, vm_xml, image):
    uri, connection = fake_host()
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image[0], "3G"], check=True)
    result = run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]])
    assert result["rc"] == 1
    assert "its size is 3.00 GiB, not 1.00 GiB" in result["msg"]
    assert info(image[0])["virtual-size"] == 3 * 2**30
    result = run_module("domain", uri=uri, xml=vm_xml, disks=[{**image[1], "size_gb": 3}])
    assert (result["changed"], result["created_disks"]) == (True, [])


def test_the_disk_of_another_domain_is_not_taken(run_module, fake_host, vm_xml, image):
    uri, connection = fake_host(vm_xml)
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", image[0], "1G"], check=True)
    other = vm_xml.replace("<name>vm<", "<name>other<").replace(UUID, UUID[:-1] + "8")
    result = run_module("domain", uri=uri, xml=other, disks=[image[1]])
    assert result["rc"] == 1
    assert "in use by the domain vm" in result["msg"]


def test_one_uuid_one_name(run_module, fake_host, vm_xml):
    uri, connection = fake_host(vm_xml)
    other_uuid = run_module("domain", uri=uri, xml=vm_xml.replace(UUID, UUID[:-1] + "8"))
    assert "another uuid" in other_uuid["msg"]
    other_name = run_module("domain", uri=uri, xml=vm_xml.replace("<name>vm<", "<name>wm<"))
    assert "belongs to the domain 'vm'" in other_name["msg"]
    assert names(connection) == ["vm"]


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"name": "nosuch"}, "There is no domain nosuch"),
        ({"name": "x", "uuid": "123"}, "'123' is not a uuid"),
        ({"xml": "<domain"}, "not well-formed XML"),
        ({"xml": "<network/>"}, "not domain XML"),
        ({"xml": "<domain type='test'/>"}, "no <name>"),
        ({}, "one of the following is required"),
        ({"name": "x", "state": "dancing"}, "state"),
        ({"name": "x", "timeout": -1}, "timeout is -1"),
    ],
)
def test_bad_arguments_are_told_in_words(run_module, fake_host, arguments, words):
    uri, dummy = fake_host()
    result = run_module("domain", uri=uri, **arguments)
    assert result["rc"] == 1
    assert words in result["msg"]


@pytest.mark.parametrize(
    "disk, words",
    [
        ({"size_gb": 0}, "size_gb is 1 or more"),
        ({"size_gb": -5}, "size_gb is 1 or more"),
        ({}, "neither size_gb nor backing_file"),
        ({"backing_file": "/nosuch.img"}, "/nosuch.img"),
        ({"size_gb": 1, "format": "raw", "backing_file": "/nosuch.img"}, "only qcow2"),
        ({"size_gb": 1, "path": "/no/such/folder/x.qcow2"}, "/no/such/folder"),
    ],
)
def test_bad_disks_are_told_in_words(run_module, fake_host, vm_xml, tmp_path, disk, words):
    uri, connection = fake_host()
    result = run_module(
        "domain", uri=uri, xml=vm_xml, disks=[{"path": str(tmp_path / "vm.qcow2"), **disk}]
    )
    assert result["rc"] == 1
    assert words in result["msg"]
    assert names(connection) == []


def test_qemu_img_missing(run_module, fake_host, vm_xml, image, monkeypatch):
    uri, dummy = fake_host()
    from ansible.module_utils.basic import AnsibleModule

    monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name, *rest: None)
    result = run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]])
    assert "qemu-utils" in result["msg"]


def test_absent_and_its_disks(run_module, fake_host, domain_xml, tmp_path):
    own, seed, shared, library = (
        str(tmp_path / n) for n in ("vm.qcow2", f"vm-{UUID[:8]}-seed.iso", "data.img", "debian.iso")
    )
    for path in (own, seed, shared, library):
        open(path, "w", encoding="utf-8").close()

    def disk(path, target, device="disk", more=""):
        return (
            f"<disk type='file' device='{device}'><source file='{path}'/><target"
            f" dev='{target}'/>{more}</disk>"
        )

    vm = domain_xml(
        "vm",
        7,
        devices=disk(own, "vda")
        + disk(shared, "vdb")
        + disk(seed, "hdc", "cdrom", "<readonly/>")
        + disk(library, "hdd", "cdrom", "<readonly/>"),
    )
    uri, connection = fake_host(vm, domain_xml("other", 8, devices=disk(shared, "vda")))
    dry_run = run_module(
        "domain", check_mode=True, uri=uri, name="vm", state="absent", remove_disks=True
    )
    done = run_module("domain", uri=uri, name="vm", state="absent", remove_disks=True)
    assert dry_run["removed_disks"] == done["removed_disks"] == [own, seed]
    assert names(connection) == ["other"]
    assert os.path.exists(shared) and os.path.exists(library)
    again = run_module("domain", uri=uri, name="vm", state="absent", remove_disks=True)
    assert (again["changed"], again["domain"]) == (False, None)


@pytest.mark.parametrize(
    ("call", "changed", "check_mode"),
    [("info", False, True), ("info", False, False), ("undefineFlags", True, False)],
)
def test_a_domain_that_somebody_removes_meanwhile_is_absent(
    run_module, fake_host, domain_xml, monkeypatch, call, changed, check_mode
):
    """An earlier run that Ansible gave up continues with the domain, or a person removes the
    domain."""
    uri, connection = fake_host(domain_xml("vm", 7), domain_xml("other", 8))
    connection.lookupByName("vm").destroy()
    method = getattr(libvirt.virDomain, call)

    def removed_before(domain, *args):
        if domain.name() == "vm" and "vm" in names(connection):
            connection.lookupByName("vm").undefine()
        return method(domain, *args)

    monkeypatch.setattr(libvirt.virDomain, call, removed_before)
    gone = run_module(
        "domain",
        uri=uri,
        uuid=UUID,
        name="vm",
        state="absent",
        remove_disks=True,
        check_mode=check_mode,
    )
    assert gone["rc"] == 0 and (gone["changed"], gone["domain"]) == (changed, None), gone
    assert names(connection) == ["other"]


def test_names_with_odd_characters(run_module, fake_host, domain_xml, tmp_path):
    path = str(tmp_path / "a & b 'c'.qcow2")
    uri, connection = fake_host()
    escaped = path.replace("&", "&amp;").replace("'", "&apos;")
    text = domain_xml(
        "a &amp; b 'c'",
        9,
        devices=f"<disk type='file'><source file='{escaped}'/><target dev='vda'/></disk>",
    )
    result = run_module("domain", uri=uri, xml=text, disks=[{"path": path, "size_gb": 1}])
    assert result["domain"]["name"] == "a & b 'c'"
    assert result["domain"]["disks"][0]["source"] == path
    gone = run_module("domain", uri=uri, name="a & b 'c'", state="absent", remove_disks=True)
    assert gone["removed_disks"] == [path]


def test_the_missing_binding_is_named_with_its_package(run_module, no_binding):
    result = run_module("domain", name="x")
    assert result["rc"] == 1
    assert "python3-libvirt" in result["msg"]


@pytest.mark.parametrize("here", [True, False])
def test_of_an_order_that_was_withdrawn_it_is_told_whether_the_domain_is_here(
    run_module, fake_host, vm_xml, image, records, here
):
    """A move withdraws the order that it ended. The next run continues if the domain has left,
    because its move is done."""
    uri, connection = fake_host()
    if here:
        run_module("domain", uri=uri, xml=vm_xml, disks=[image[1]])
    orders.withdraw(records, UUID, ["done"])
    before = names(connection)
    result = run_module("domain", uri=uri, uuid=UUID, name="vm", state="stopped", order="done")
    assert "was withdrawn by a later run" in result["msg"]
    assert (result["begun"], result["domain_left"]) == (False, here)
    assert names(connection) == before and (not here or connection.lookupByName("vm").isActive())


def test_the_password_of_a_console_is_with_libvirt_alone(run_module, fake_host, domain_xml):
    uri, connection = fake_host()
    text = domain_xml("vm", 7, devices="<graphics type='vnc' passwd='older'/>")
    foretold = run_module(
        "domain", uri=uri, xml=text, graphics_password="Kn0ck-3x", check_mode=True, diff_mode=True
    )
    result = run_module("domain", uri=uri, xml=text, graphics_password="Kn0ck-3x", diff_mode=True)
    assert (
        result["changed"]
        and "Kn0ck-3x" not in json.dumps([foretold, result])
        and "older" not in json.dumps([foretold, result])
    )
    assert "passwd='Kn0ck-3x'" in connection.lookupByName("vm").XMLDesc(
        libvirt.VIR_DOMAIN_XML_SECURE
    )


@pytest.mark.parametrize(
    ("devices", "password", "words"),
    [
        (
            "<graphics type='vnc'/>",
            "much too long",
            "the password of a VNC console has 8 bytes at most, and this one is longer",
        ),
        ("<graphics type='vnc'/>", "", "it is empty"),
        ("", "Kn0ck-3x", "there is no graphical console (VNC or SPICE)"),
    ],
)
def test_a_password_that_cannot_be_is_refused(
    run_module, fake_host, domain_xml, devices, password, words
):
    uri, connection = fake_host()
    result = run_module(
        "domain", uri=uri, xml=domain_xml("vm", 7, devices=devices), graphics_password=password
    )
    assert result["failed"] and words in result["msg"] and "much too long" not in json.dumps(result)
    assert result["begun"] is False and "vm" not in names(connection)


def test_uefi_variables_of_an_earlier_domain_are_not_taken(
    run_module, fake_host, domain_xml, monkeypatch, tmp_path
):
    monkeypatch.setattr(binding, "is_system", lambda conn: True)
    monkeypatch.setattr(definition, "NVRAM_FOLDER", str(tmp_path))
    uri, connection = fake_host()
    text = domain_xml("vm", 7).replace("<os>", "<os firmware='efi'>")
    assert "firmware" in text
    old = tmp_path / "vm_VARS.fd"
    old.write_bytes(b"of another")
    result = run_module("domain", uri=uri, xml=text)
    assert (
        result["failed"]
        and f"{old} has the UEFI variables of an earlier domain of this name" in result["msg"]
        and result["begun"] is False
    )
    assert old.read_bytes() == b"of another" and "vm" not in names(connection)
    # The module uses an NVRAM file that the definition names.
    named = (
        text.replace("</os>", f"<nvram>{old}</nvram></os>")
        .replace("<os firmware='efi'>", "<os>")
        .replace("<nvram>", "<loader readonly='yes' type='pflash'>/usr/x</loader><nvram>")
    )
    assert run_module("domain", uri=uri, xml=named)["changed"]
