# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Domain XML as people and other tools write it."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    backing_files,
    console_logs,
    is_locked_out,
    networks_of,
    nvram_path,
    parse_domain,
    state_name,
    with_password,
    without_passwords,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse

FULL = """<domain type='kvm'>
  <name>db</name><uuid>5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01</uuid><title>Data  base</title>
  <memory unit='GB'>2</memory><vcpu current='1'>4</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><nvram>/var/lib/libvirt/qemu/nvram/db_VARS.fd</nvram></os>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/><source file='/a/db.qcow2'/>
      <backingStore type='file'><format type='qcow2'/><source file='/b/base.qcow2'/><backingStore type='file'><source file='/b/root.img'/>
      <backingStore/></backingStore></backingStore><target dev='vda' bus='virtio'/></disk>
    <disk type='network' device='disk'><driver name='qemu' type='raw'/>
      <source protocol='rbd' name='pool/image'/><target dev='vdb' bus='virtio'/><shareable/></disk>
    <disk type='volume' device='disk'><source pool='default' volume='v'/><target dev='vdc'/></disk>
    <disk type='block' device='lun'><source dev='/dev/sdx'/><target dev='sdb' bus='scsi'/></disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/><readonly/></disk>
    <interface type='bridge'><mac address='52:54:00:00:00:01'/><source bridge='br0'/><model type='virtio'/></interface>
    <interface type='direct'><source dev='eth1' mode='bridge'/></interface>
    <interface type='network'><source network='default'/></interface>
    <hostdev mode='subsystem' type='pci'><source><address domain='0x0000' bus='0x3b' slot='0x00' function='0x1'/></source></hostdev>
    <hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>
    <hostdev mode='subsystem' type='usb'><source><vendor id='0x1234'/><product id='0xbeef'/></source></hostdev>
    <tpm model='tpm-crb'><backend type='emulator' version='2.0'/></tpm>
    <filesystem type='mount'><source dir='/srv/x'/><target dir='x'/></filesystem>
  </devices>
</domain>"""


def test_everything_at_once():
    domain = parse_domain(FULL)
    assert (domain["vcpus"], domain["memory_mb"], domain["title"]) == (
        4,
        2 * 10**9 // 2**20,
        "Data  base",
    )
    assert [disk["source"] for disk in domain["disks"]] == [
        "/a/db.qcow2",
        "rbd:pool/image",
        "default/v",
        "/dev/sdx",
        None,
    ]
    assert [disk["type"] for disk in domain["disks"]] == [
        "file",
        "network",
        "volume",
        "block",
        "file",
    ]
    assert [disk["shareable"] for disk in domain["disks"]] == [False, True, False, False, False]
    assert domain["disks"][4]["readonly"] is True
    assert [nic["source"] for nic in domain["interfaces"]] == ["br0", "eth1", "default"]
    assert domain["hostdevs"] == [
        {"type": "pci", "address": "0000:3b:00.1"},
        {"type": "mdev", "address": "c2177883-f1bb-47f0-914d-32a22e3a8804"},
        {"type": "usb", "address": "0x1234:0xbeef"},
    ]


def test_what_a_move_must_know():
    assert backing_files(parse(FULL).find("devices/disk")) == ["/b/base.qcow2", "/b/root.img"]
    assert nvram_path(FULL) == "/var/lib/libvirt/qemu/nvram/db_VARS.fd"
    assert networks_of(FULL) == {"network": ["default"], "bridge": ["br0"], "dev": ["eth1"]}
    reasons = "; ".join(each.what for each in reading.in_the_way(reading.read(FULL), live=True))
    assert "0000:3b:00.1" in reasons
    assert "/srv/x" in reasons


AUTOSELECTED = "<domain><name>web 1</name><os firmware='efi'><type>hvm</type>{}</os></domain>"


def test_uefi_variables_of_a_definition_without_a_path():
    """libvirt 9.0 chooses the firmware at each start; only the folder of its system daemon is
    known."""
    assert nvram_path(AUTOSELECTED.format("")) is None
    assert (
        nvram_path(AUTOSELECTED.format(""), system=True)
        == "/var/lib/libvirt/qemu/nvram/web 1_VARS.fd"
    )
    assert (
        nvram_path(AUTOSELECTED.format("<nvram>/srv/x_VARS.fd</nvram>"), system=True)
        == "/srv/x_VARS.fd"
    )
    # Firmware without variables; firmware that a person chose by its path; a BIOS.
    assert nvram_path(AUTOSELECTED.format("<loader stateless='yes'/>"), system=True) is None
    assert nvram_path(AUTOSELECTED.format("").replace(" firmware='efi'", ""), system=True) is None
    assert nvram_path(FULL, system=True) == nvram_path(FULL)


def test_logs_of_consoles_by_the_uuid_in_their_names():
    uuid = "5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01"
    logs = "".join(
        f"<{kind} type='pty'><log file='{path}'/></{kind}>"
        for kind, path in (
            ("serial", f"/a/{uuid}-console.log"),
            ("console", f"/a/{uuid}-console.log"),
            ("serial", "/var/log/vm.log"),
            ("serial", f"/{uuid}/log"),
        )
    )
    assert console_logs(f"<domain><uuid>{uuid}</uuid><devices>{logs}</devices></domain>") == [
        f"/a/{uuid}-console.log"
    ]
    assert (
        console_logs("<domain><devices><serial><log file='/a'/></serial></devices></domain>") == []
    )


CONSOLES = (
    "<domain><name>web</name><metadata>"
    "<drover:instance xmlns:drover='https://drover.compute/instance/1'>"
    "<drover:graphics_password_variable>secret</drover:graphics_password_variable>"
    "</drover:instance></metadata>"
    "<devices><graphics type='{}' port='-1'/></devices></domain>"
)


def test_the_password_of_a_console():
    vnc = CONSOLES.format("vnc")
    assert is_locked_out(vnc)
    with_one = with_password(vnc, "a\"<&'")
    assert parse(with_one).find("devices/graphics").get("passwd") == "a\"<&'" and not is_locked_out(
        with_one
    )
    assert "passwd" not in without_passwords(with_one) and "xmlns:drover" in with_one
    assert not is_locked_out(vnc.replace("graphics_password_variable", "project"))
    with pytest.raises(ValueError, match="8 bytes at most"):
        with_password(vnc, "ninechars")
    with pytest.raises(ValueError, match="8 bytes at most"):
        with_password(vnc, "ééééé")
    assert 'passwd="ninechars"' in with_password(CONSOLES.format("spice"), "ninechars")
    with pytest.raises(ValueError, match="no graphical console"):
        with_password(CONSOLES.format("sdl"), "a")
    with pytest.raises(ValueError, match="it is empty"):
        with_password(vnc, "")


@pytest.mark.parametrize("reference", ["&#1;", "\x1b", "&#x0b;", "&#31;"])
def test_what_xml_forbids_does_not_stop_the_reading(reference):
    assert parse_domain(f"<domain><name>a{reference}b</name></domain>")["name"] == "a?b"


def test_what_xml_allows_is_kept():
    assert (
        parse_domain("<domain><name>a&#9;b&#13;c&#x1F40E;</name></domain>")["name"]
        == "a\tb\rc\U0001f40e"
    )


def test_other_documents_are_refused():
    with pytest.raises(ValueError, match="<network>"):
        parse_domain("<network/>")


def test_states():
    assert [state_name(number) for number in (0, 1, 3, 5, 7, 42)] == [
        "nostate",
        "running",
        "paused",
        "shutoff",
        "pmsuspended",
        "nostate",
    ]


def test_a_running_guest_on_a_network_that_is_a_bridge_needs_the_network():
    """The XML is libvirt 9.0's view of the running guest; the definition has <interface
    type='network'>."""
    text = (
        "<domain><devices><interface type='bridge'><source network='lan'"
        " portid='5d0e0b1c-6f2e-4b0e-9d56-0d4c6c1d8a01' bridge='br0'/></interface><interface"
        " type='bridge'><source bridge='br1'/></interface></devices></domain>"
    )
    assert networks_of(text) == {"network": ["lan"], "bridge": ["br1"], "dev": []}
