# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that QEMU itself reaches by NFS: the server and the file behind each, and their
definition.
"""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import LibvirtProblem
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._storage import shared_storage

libvirt = pytest.importorskip("libvirt")

SOURCE = "<source protocol='nfs' name='{name}'><host name='{host}'/>{more}</source>"
DOMAIN = (
    "<domain type='test'"
    " xmlns:other='https://example.com/1'><name>{name}</name><metadata><other:x/></metadata><memory>65536</memory><os><type>hvm</type></os><devices><disk"
    " type='network' device='disk'><driver name='qemu' type='raw'/>{source}<target dev='vda'"
    " bus='virtio'/></disk></devices></domain>"
)
POOL = (
    "<pool type='netfs'><source><host name='filer'/><dir path='/export/vms'/><format"
    " type='nfs'/></source></pool>"
)


def source(name="/export/vms/db.raw", host="filer", more=""):
    return SOURCE.format(name=name, host=host, more=more)


def test_it_is_the_file_that_hosts_have_mounted_too():
    text = shared_storage.disk_id(parse(source(host="Filer.")))
    assert text == "nfs:filer:/export/vms/db.raw"
    assert text == shared_storage.path_id(
        "/srv/vms/db.raw",
        [("/", "/", "ext4", "/dev/vda1"), ("/srv/vms", "/", "nfs4", "filer:/export/vms")],
    )
    assert text == shared_storage.volume_id(parse(POOL), "db.raw")
    assert text == shared_storage.disk_id(parse(source(more="<identity user='+7' group='+7'/>"))), (
        "as whom it is opened makes no other file of it"
    )
    assert text != shared_storage.disk_id(parse(source(host="filer2")))
    assert text != shared_storage.disk_id(parse(source(name="/export/vms/db2.raw")))


@pytest.mark.parametrize(
    "xml",
    [
        "<source protocol='nfs' name='/export/a'/>",
        "<source protocol='nfs'><host name='filer'/></source>",
    ],
)
def test_what_does_not_say_where_it_is_has_no_text(xml):
    assert shared_storage.disk_id(parse(xml)) is None


@pytest.mark.parametrize(
    "identity", ["", "<identity/>", "<identity user='+7'/>", "<identity user='+7' group='+8'/>"]
)
def test_libvirt_takes_it_with_an_identity_and_without_one(identity):
    """The test also reads libvirt's form of the disk, as an evacuation does: it has no identity,
    which libvirt's own schema demands."""
    connection = libvirt.open("test:///default")
    try:
        domain = power.define(connection, DOMAIN.format(name="db", source=source(more=identity)))
        text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        assert power.define(connection, text).UUIDString() == domain.UUIDString()
        assert domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE) == text and "other:x" in text
        assert parse(text).find(".//source").get("name") == "/export/vms/db.raw"
        domain.undefine()
    finally:
        connection.close()


def test_a_mistake_is_still_found_by_the_schema():
    connection = libvirt.open("test:///default")
    try:
        with pytest.raises(
            LibvirtProblem,
            match=r"of db has something that libvirt \d+\.\d+\.\d+ of \S+ does not know",
        ):
            power.define(connection, DOMAIN.format(name="db", source=source() + "<mistake/>"))
    finally:
        connection.close()
