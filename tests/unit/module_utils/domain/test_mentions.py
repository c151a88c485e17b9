# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every file that the XML of a domain names, and its mode: read only, or written too."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.module_utils._domain import (
    definition as _domain_xml,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.mentions import (
    Mentions,
    other_files,
)

EVERYTHING = """
<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>all</name><title>/srv/title</title><description>/srv/description</description>
  <metadata><x:x xmlns:x='urn:x'>/srv/metadata</x:x></metadata>
  <resource><partition>/machine</partition></resource>
  <os>
    <type>hvm</type><loader readonly='yes' type='pflash'>/srv/loader</loader>
    <nvram template='/srv/template'>/srv/nvram</nvram>
    <kernel>/srv/kernel</kernel><initrd>/srv/initrd</initrd><dtb>/srv/dtb</dtb><acpi><table type='slic'>/srv/table</table></acpi>
  </os>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/srv/disk'/>
      <backingStore type='file'><format type='qcow2'/><source file='/srv/base'/></backingStore>
      <mirror type='file' job='copy'><format type='qcow2'/><source file='/srv/mirror'/></mirror><target dev='vda'/></disk>
    <disk type='file' device='floppy'><driver name='qemu' type='raw'/><source file='/srv/floppy'/><target dev='fda'/></disk>
    <disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source file='/srv/medium'/><target dev='sda'/></disk>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2'/><source file='/srv/read'/><target dev='vdb'/><readonly/></disk>
    <disk type='network' device='cdrom'><source protocol='https' name='/server/iso'/><target dev='sdb'/></disk>
    <disk type='volume' device='disk'><driver name='qemu' type='qcow2'/><source pool='p' volume='v'/><target dev='vdc'/></disk>
    <filesystem type='mount'><source dir='/srv/shared'/><target dir='/guest'/></filesystem>
    <filesystem type='mount'><source dir='/srv/library'/><target dir='tag'/><readonly/></filesystem>
    <serial type='file'><source path='/srv/serial'/><log file='/srv/log' append='on'/></serial>
    <tpm model='tpm-tis'><backend type='emulator'><source type='dir' path='/srv/tpm'/></backend></tpm>
    <memory model='nvdimm'><source><path>/srv/nvdimm</path></source></memory>
    <hostdev mode='capabilities' type='storage'><source><block>/dev/vg/lv</block></source></hostdev>
  </devices>
  <qemu:commandline><qemu:arg value='if=none,file=/srv/argued,format=raw'/><qemu:arg value='{"driver":"file","filename":"/srv/json"}'/>
    <qemu:arg value='/srv/whole'/></qemu:commandline>
</domain>"""
WRITTEN = {
    "/srv/nvram",
    "/srv/disk",
    "/srv/mirror",
    "/srv/floppy",
    "/srv/shared",
    "/srv/serial",
    "/srv/log",
    "/srv/tpm",
    "/srv/nvdimm",
    "/dev/vg/lv",
    "/srv/argued",
    "/srv/json",
    "/srv/whole",
    "p/v",
}
READ = {
    "/srv/loader",
    "/srv/template",
    "/srv/kernel",
    "/srv/initrd",
    "/srv/dtb",
    "/srv/table",
    "/srv/base",
    "/srv/medium",
    "/srv/read",
    "/srv/library",
}


def found(*texts, disks=()):
    return {each["source"]: each for each in other_files(texts, disks)}


def test_every_file_is_found_and_whether_it_is_written():
    files = found(EVERYTHING)
    assert {path for path, each in files.items() if each["written"]} == WRITTEN
    assert {path for path, each in files.items() if not each["written"]} == READ
    assert {path for path, each in files.items() if each["type"] == "dir"} == {
        "/srv/shared",
        "/srv/library",
    }
    assert files["p/v"]["type"] == "volume"
    # Only images may have backing files.
    assert {path for path, each in files.items() if each["format"] is None} == {
        "/srv/disk",
        "/srv/base",
        "/srv/mirror",
        "/srv/read",
        "p/v",
    }


def test_the_disks_of_the_definition_are_not_named_twice():
    """A disk that only the running guest has, or may write to, is named."""
    definition = (
        "<domain><devices><disk type='file'><source"
        " file='/a'/><readonly/></disk></devices></domain>"
    )
    disks = _domain_xml.parse_domain(definition)["disks"]
    assert found(definition, disks=disks) == {}
    live = (
        "<domain><devices><disk type='file'><source file='/a'/></disk><disk type='file'><source"
        " file='/b'/></disk></devices></domain>"
    )
    assert {
        path: each["written"] for path, each in found(definition, live, disks=disks).items()
    } == {"/a": True, "/b": True}


def test_a_snapshot_writes_to_nothing():
    text = (
        "<domainsnapshot><domain><devices><disk type='file'><source"
        " file='/a'/></disk></devices></domain></domainsnapshot>"
    )
    assert {path: each["written"] for path, each in found(text).items()} == {"/a": False}


def test_no_text_gives_all_of_a_host_away():
    mentions = Mentions()
    mentions.add(f"<domain><os><cmdline>/</cmdline></os><x>/{'y' * 5000}</x></domain>")
    assert mentions.files() == []
    mentions.add(
        "<domain><devices><filesystem><source dir='/'/><target"
        " dir='x'/></filesystem></devices></domain>"
    )
    assert [each["source"] for each in mentions.files()] == ["/"]
