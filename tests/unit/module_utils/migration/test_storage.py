# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a move: the files that are the same at the destination, the files that are copied,
and the files that are removed at the source.

The source's files are real; the destination has its own files, and only libvirt reaches them.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
import types

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._files import block_devices, digests
from ansible_collections.drover.compute.plugins.module_utils._migration import control, following
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    storage as migration_storage,
)
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    worker as worker_module,
)
from ansible_collections.drover.compute.plugins.module_utils._orders import (
    records as migration_record,
)
from ansible_collections.drover.compute.plugins.module_utils._ownership import ownership, sameness
from ansible_collections.drover.compute.tests.unit.module_utils.faraway import Faraway, Pool
from ansible_collections.drover.compute.tests.unit.module_utils.images import (
    disk,
    domain,
    qcow2,
    qemu_img,
    volume,
)
from ansible_collections.drover.compute.tests.unit.module_utils.migration.test_worker import (
    UUID,
    Fleet,
)


def no_size(domain_, target, flags=0):
    """Fail as a libvirt that reports nothing."""
    raise libvirt.libvirtError("no size")


class Place(Fleet):
    """Two hosts with storage: ``local`` belongs to each host alone, ``shared`` is the same on
    both.
    """

    def __init__(self, tmp_path, monkeypatch):
        super().__init__(tmp_path, monkeypatch)
        self.local, self.shared = tmp_path / "local", tmp_path / "shared"
        self.local.mkdir()
        self.shared.mkdir()
        self.far = Faraway(self.destination, tmp_path / "kvm2", [self.shared])
        os.makedirs(self.far.real(str(self.local)))
        self.destination = self.connections["test:///kvm2"] = self.far
        monkeypatch.setattr(digests, "SETTLED", -5)
        monkeypatch.setattr(sameness, "AGAIN", 0)
        # The test driver invents sizes.
        monkeypatch.setattr(libvirt.virDomain, "blockInfo", no_size)

    def close(self):
        """Close the connections to the hosts."""
        self.connections["test:///kvm2"] = self.far._domains
        super().close()

    def define(self, devices, extra="", running=False, name="vm"):
        """Define the instance with these devices."""
        self.domain().destroy()
        self.domain().undefine()
        self.source.defineXML(domain(name, 1, devices, extra, uuid=UUID))
        if running:
            self.domain().create()

    def pool(self, connection, name, path, *volumes, kind="dir", source=""):
        """Define a storage pool of the source."""
        text = (
            "<pool"
            f" type='{kind}'><name>{name}</name>{source}<target><path>{path}</path></target></pool>"
        )
        made = connection.storagePoolDefineXML(text, 0)
        made.create(0)
        for each in volumes:
            made.createXML(f"<volume><name>{each}</name><capacity>1</capacity></volume>", 0)

    def refused(self, **more):
        """Return the reason why the instance is not moved; check that nothing was changed."""
        before = self._picture()
        record, dummy = self.move(**more)
        assert record["status"] == "failed" and self._picture() == before, record["message"]
        return record["message"]

    def _picture(self):
        listing = sorted(
            (where, tuple(sorted(names))) for where, _folders, names in os.walk(self.far.root)
        )
        return (
            sorted(os.listdir(self.local)),
            sorted(os.listdir(self.shared)),
            listing,
            len(self.calls),
        )

    def moved(self, **more):
        """Move it; return the record."""
        record, dummy = self.move(**more)
        assert record["status"] == "completed", record["message"]
        return record


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Return two hosts with storage, with the instance on the first."""
    made = Place(tmp_path, monkeypatch)
    yield made
    made.close()


def test_a_cold_move_copies_a_local_disk_and_removes_it_here(place):
    path = qemu_img(place.local / "vm.qcow2")
    content = open(path, "rb").read()
    place.define(disk(path))
    record = place.moved()
    assert place.far.read(path) == content and os.listdir(place.local) == []
    assert (record["storage"], record["removed"], record["leftovers"], record["kept"]) == (
        "copied",
        [path],
        [],
        [],
    )


def test_a_raw_disk_moves_whatever_its_guest_writes_into_it(place):
    """libvirt reads the header of another format and its size; the disk is raw, and the copy has
    each of its bytes.
    """
    path = place.local / "vm.raw"
    content = open(qemu_img(place.shared / "inner.qcow2", size="64M"), "rb").read() + bytes(1 << 20)
    path.write_bytes(content)
    place.define(disk(path, kind="raw"))
    place.moved()
    assert place.far.read(str(path)) == content and os.listdir(place.local) == []


def test_a_file_that_was_there_before_it_was_attached_stays_at_the_source(place):
    """A move copies it. A guest that wrote to it does not prove that the guest owns it."""
    path = qemu_img(place.local / "golden.qcow2")
    place.define(disk(path, more="<alias name='ua-drover-attached-vda'/>"))
    record = place.moved()
    assert os.listdir(place.local) == ["golden.qcow2"] and place.far.read(path) is not None
    assert (
        record["leftovers"] == [path]
        and "was there before it was attached" in record["kept"][0]["reason"]
    )


@pytest.mark.parametrize("local", [True, False])
def test_the_check_says_how_much_is_copied(place, local):
    path = place.local / "vm.raw" if local else place.shared / "vm.raw"
    with open(path, "wb") as file:
        file.write(b"1" * (3 << 20))
        file.truncate(64 << 20)
    place.define(disk(path, kind="raw"))
    request = {"uuid": UUID, "destination": "kvm2", "destination_uri": "test:///kvm2"}
    (answer,) = control.check([request], "test:///kvm1", place.records)
    assert (answer["ok"], answer["storage"]) == (True, "copied" if local else "shared")
    assert answer["copies_disk_mib"] == (3 if local else 0)
    # The size of the copies stays known after the move: its rate is used for later moves.
    place.moved()
    (answer,) = following.follow([request], "test:///kvm1", place.records, 0)
    assert answer["status"] == "completed" and answer["copies"] == {
        "memory_mib": 0,
        "disk_mib": 3 if local else 0,
    }


def test_the_check_counts_the_images_behind_a_disk(place):
    """A copy has no backing file."""
    base = qemu_img(place.local / "base.qcow2", size="64M")
    subprocess.run(["qemu-io", "-c", "write 0 8M", base], check=True, stdout=subprocess.DEVNULL)
    path = qemu_img(place.local / "vm.qcow2", backing=base)
    place.define(disk(path))
    request = {"uuid": UUID, "destination": "kvm2", "destination_uri": "test:///kvm2"}
    (answer,) = control.check([request], "test:///kvm1", place.records)
    assert answer["ok"] and 8 <= answer["copies_disk_mib"] <= 10


def test_a_shared_disk_stays_where_it_is(place):
    path = qemu_img(place.shared / "vm.qcow2")
    place.define(disk(path))
    record = place.moved()
    assert (record["storage"], record["removed"]) == ("shared", []) and os.listdir(
        place.shared
    ) == ["vm.qcow2"]


def test_a_link_on_shared_storage_to_a_local_file_is_not_shared(place):
    path = qemu_img(place.local / "vm.qcow2")
    os.symlink(path, place.shared / "vm.qcow2")
    place.define(disk(place.shared / "vm.qcow2"))
    assert "is on kvm2 already" in place.refused()


# -- files that others need ----------------------------------------------------------------------


@pytest.mark.parametrize("by", ["disk", "volume", "snapshot", "stray image"])
def test_safety_02_a_disk_that_others_are_backed_by_is_not_copied_away(place, by):
    """The clones are off, and libvirt does not know their backing files."""
    base = qemu_img(place.local / "base.qcow2")
    clone = qemu_img(place.local / "clone.qcow2", backing=base)
    place.define(disk(base), name="tmpl")
    uses = {"disk": disk(clone), "volume": volume("images", "clone.qcow2"), "snapshot": ""}
    if by in uses:
        place.source.defineXML(domain("clone", 2, uses[by]))
    if by == "snapshot":
        text = f"<domainsnapshot><name>s</name><state>shutoff</state><creationTime>1</creationTime>{domain('clone', 2, disk(clone))}</domainsnapshot>"
        place.source.lookupByName("clone").snapshotCreateXML(
            text, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
        )
    place.pool(place.source, "images", place.local, "clone.qcow2")
    reason = place.refused()
    assert (
        f"its disk {base} is on storage of this host only, and " in reason
        and "first move what needs it" in reason
    )
    # The clone itself can move: its backing data goes with it, and the base stays.
    if by == "disk":
        for name in ("tmpl", "clone"):
            place.source.lookupByName(name).undefine()
        place.source.defineXML(domain("clone", 1, disk(clone), uuid=UUID))
        record = place.moved()
        assert record["removed"] == [clone] and os.listdir(place.local) == ["base.qcow2"]


def test_safety_02_what_somebody_came_to_need_meanwhile_stays_and_is_named(place):
    """A clone is made while the instance moves."""
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))

    def clone_it(domain_, flags):
        qemu_img(place.local / "clone.qcow2", backing=path)
        return place.succeed(domain_)

    place.behave = clone_it
    record = place.moved()
    reason = f"the image {place.local}/clone.qcow2 is backed by it"
    assert (record["removed"], record["leftovers"], record["kept"]) == (
        [],
        [path],
        [{"path": path, "reason": reason}],
    )
    assert f"left at the source: {path} ({reason})" in record["message"] and os.path.exists(path)


def test_storage_a_disk_that_another_hosts_guest_is_backed_by_is_kept(place):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    record = place.moved(used_elsewhere=[path])
    assert record["kept"] == [
        {"path": path, "reason": "a domain of another hypervisor uses it"}
    ] and os.path.exists(path)


def test_another_file_that_has_its_name_after_the_move_is_another_ones(place):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))

    def replace(domain_, flags):
        os.rename(path, f"{path}.old")
        qcow2(path)
        return place.succeed(domain_)

    place.behave = replace
    record = place.moved()
    assert record["removed"] == [] and record["kept"] == [
        {"path": path, "reason": "another file has its name by now"}
    ]


@pytest.mark.parametrize("name", ["deb", "debian"])
def test_safety_17_media_of_a_library_stay(place, name):
    """The name of the instance is a part of the names of the media. The move copies the media; at
    the source it removes only the file with the whole name."""
    library, seed = (
        qemu_img(place.local / "debian-12.iso", kind="raw"),
        qemu_img(place.local / f"{name}-{UUID[:8]}-seed.iso", kind="raw"),
    )
    cdrom = {"device": "cdrom", "kind": "raw", "more": "<readonly/>"}
    place.define(disk(library, "sda", **cdrom) + disk(seed, "sdb", **cdrom), name=name)
    record = place.moved()
    assert os.listdir(place.local) == ["debian-12.iso"] and record["removed"] == [seed]
    assert record["leftovers"] == [] and [each["path"] for each in record["kept"]] == [library]
    assert place.far.read(library) is not None and place.far.read(seed) is not None


# -- the same base, the same medium ------------------------------------------------------------


@pytest.mark.parametrize(
    "theirs, words",
    [
        (b"b", "is another one on kvm2 (its content differs)"),
        (None, "is missing on kvm2"),
        (b"a", None),
    ],
)
def test_safety_05_a_base_is_compared_by_its_content(place, theirs, words):
    """Make the golden image that each host has locally, behind a disk on shared storage."""
    base = str(place.local / "golden.raw")
    with open(base, "wb") as file:
        file.write(b"a" * 300000)
        file.truncate(5 << 20)
    if theirs:
        place.far.write(base, theirs * 300000 + bytes((5 << 20) - 300000))
    top = str(place.shared / "vm.qcow2")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", top], check=True
    )
    place.define(disk(top))
    if words:
        assert f"the image {base} behind its disk {top} {words}" in place.refused()
        return
    place.moved()
    assert place.far.downloads == [base]
    # The network read happens once, while the file is unchanged.
    place.source.defineXML(domain("vm", 1, disk(top), uuid=UUID))
    place.far.lookupByUUIDString(UUID).undefine()
    place.moved()
    assert place.far.downloads == [base]


def test_safety_05_what_discovery_has_recorded_of_the_other_host_needs_no_reading(place):
    base = qemu_img(place.local / "golden.raw", kind="raw")
    place.far.write(base, bytes(1 << 20))
    top = str(place.shared / "vm.qcow2")
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", "qcow2", "-b", base, "-F", "raw", top], check=True
    )
    place.define(disk(top))
    digest, stamp = digests.of_file(place.far.real(base))
    place.refused(images_there=[{"path": base, "digest": "0" * 64, **stamp}])
    # A digest of an older state of the file does not count.
    place.moved(
        images_there=[
            {"path": base, "digest": "0" * 64, **stamp, "modified": "1.0"},
            {"path": base, "digest": digest, **stamp},
        ]
    )
    assert place.far.downloads == []


@pytest.mark.parametrize("same", [True, False])
def test_suspected_5_large_media_are_compared_by_their_content(place, same):
    """Make an image of more than 64 MiB, always of one length."""
    seed = str(place.local / f"vm-{UUID}.iso")
    for path, last in ((seed, b"x"), (place.far.real(seed), b"x" if same else b"y")):
        with open(path, "wb") as file:
            file.truncate(70 << 20)
            file.seek(-1, os.SEEK_END)
            file.write(last)
    place.define(disk(seed, "sda", device="cdrom", kind="raw", more="<readonly/>"))
    if same:
        assert place.moved()["removed"] == [seed] and not os.path.exists(seed)
    else:
        assert (
            f"a file {seed} is on kvm2 already, and nothing proves that it is a leftover of ours"
            in place.refused()
        )


# -- pools -------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
def test_safety_06_a_volume_is_resolved_at_the_destination(place, shared):
    """Make pools of one name with different files."""
    folder = place.shared if shared else place.local
    path = qemu_img(folder / "vol.qcow2")
    place.define(volume("images", "vol.qcow2"))
    place.pool(place.source, "images", folder, "vol.qcow2")
    assert "the storage pool images does not exist on kvm2: define it there" in place.refused()
    other = place.local / "other"
    place.far.pool("images", other)
    os.makedirs(place.far.real(str(other)))
    if shared:
        assert "the storage pool images of kvm2 has no volume vol.qcow2" in place.refused()
        place.far.write(str(other / "vol.qcow2"), b"an old copy")
    assert (
        f"its volume images/vol.qcow2 is another file on kvm2, {other}/vol.qcow2 rather than {path}"
        in place.refused()
    )
    place.far.pool("images", folder, active=False)
    assert (
        "the storage pool images is not active on kvm2: start it there (virsh pool-start images)"
        in place.refused()
    )
    place.far.pool("images", folder)
    record = place.moved()
    assert (
        record["storage"] == ("shared" if shared else "copied") and os.path.exists(path) is shared
    )
    assert place.far.read(path) is not None


def test_storage_the_pool_of_the_destination_is_refreshed_first(place):
    """Volumes that others made in a shared pool are new to the pool."""
    place.far.pool("images", place.shared)
    place.far.pools["images"].refresh()
    qemu_img(place.shared / "vol.qcow2")
    place.define(volume("images", "vol.qcow2"))
    place.pool(place.source, "images", place.shared, "vol.qcow2")
    assert place.moved()["storage"] == "shared"


RBD = "<source><name>{}</name><host name='mon1'/></source>"


def test_storage_pools_on_the_network_are_the_same_by_where_they_come_from(place):
    place.define(volume("rbd", "vol", kind="raw"))
    place.source.storagePoolLookupByName = lambda name: place.far.pools["here"]
    place.far.pool("here", "/", kind="rbd", source=RBD.format("vms")[8:-9])
    place.far.pool("rbd", "/", kind="rbd", source=RBD.format("others")[8:-9])
    assert (
        "the storage pool rbd is not seen to be the same on kvm2 (rbd:mon1:/vms here,"
        " rbd:mon1:/others there)" in place.refused()
    )
    place.far.pool("rbd", "/", kind="rbd", source=RBD.format("vms")[8:-9])
    place.moved()


# -- devices -----------------------------------------------------------------------------------

BLOCK = (
    "<disk type='block' device='disk'><driver name='qemu' type='raw' cache='none'/><source"
    " dev='{}'/><target dev='vda'/></disk>"
)


def device(place, monkeypatch, here):
    """Give the instance a device with this identity on the source; None for no identity."""
    path = str(place.local / "device")
    open(path, "wb").close()
    place.define(BLOCK.format(path))
    monkeypatch.setattr(block_devices, "identity", lambda each: here if each == path else None)
    return path


@pytest.mark.parametrize(
    "there, here", [({}, "naa.1"), ({}, None), ("naa.2", "naa.1"), ("naa.1", None)]
)
def test_storage_a_device_that_is_not_proven_the_same_is_refused(place, monkeypatch, there, here):
    path = device(place, monkeypatch, here)
    text = place.refused(devices_there={path: there} if there else {})
    assert f"its device {path}" in text and (
        "another one on kvm2" in text or "cannot be proven that kvm2 has the same one" in text
    )


@pytest.mark.parametrize("there, here", [("naa.1", "naa.1"), ("declared", None)])
@pytest.mark.parametrize("running", [True, False])
def test_storage_devices_move_where_both_show_the_same_name_or_the_operator_declares_them(
    place, monkeypatch, there, here, running
):
    path = device(place, monkeypatch, here)
    if running:
        place.domain().create()
    record = place.moved(devices_there={path: there})
    assert (record["storage"], record["removed"], record["leftovers"]) == (
        "shared",
        [],
        [],
    ) and os.path.exists(path)
    assert bool(place.calls[0] & libvirt.VIR_MIGRATE_LIVE) is running


def test_suspected_4_a_device_that_is_called_a_file_is_a_device(place):
    path = next(
        (
            f"/dev/{name}"
            for name in ("loop0", "vda", "sda", "nvme0n1")
            if os.path.exists(f"/dev/{name}")
        ),
        None,
    )
    if path is None:
        pytest.skip("this machine shows no block device")
    place.define(disk(path, kind="raw"))
    assert f"of its device {path} cannot be proven" in place.refused(copy_storage="always")


def test_suspected_4_a_volume_of_a_logical_pool_is_a_device(place):
    place.define(volume("vg", "lv", kind="raw"))
    place.pool(place.source, "vg", "/dev/vg", "lv", kind="logical")
    place.far.pool("vg", "/dev/vg")
    assert "the size of its disk /dev/vg/lv cannot be read" in place.refused(copy_storage="always")


# -- shared here, not there --------------------------------------------------------------------


def mounted(monkeypatch, point, kind="nfs4", source="filer:/vms"):
    """Show this process a mount on a folder."""
    monkeypatch.setattr(
        migration_storage,
        "read_mounts",
        lambda path: [("/", "/", "ext4", "/dev/vda"), (str(point), "/", kind, source)],
    )


def test_storage_a_disk_on_shared_storage_is_not_moved_off_it_unless_asked_for(place, monkeypatch):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    mounted(monkeypatch, place.local)
    assert (
        f"its disk {path} is on shared storage here (nfs4, filer:/vms), which kvm2 does not see:"
        " mount it there" in place.refused()
    )
    assert place.moved(copy_storage="always")["storage"] == "copied"


def test_storage_what_the_operator_declares_is_shared_too(place):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    assert (
        "as the operator has declared), which kvm2 does not see: mount it there"
        in place.refused(shared_folders=[str(place.local)])
    )
    assert place.moved(shared_folders=[f"{place.local}x"])["storage"] == "copied"


@pytest.mark.parametrize(
    "kind", ["ceph", "fuse.glusterfs", "cifs", "gfs2", "beegfs", "fuse.sshfs", "9p"]
)
def test_storage_every_file_system_that_others_may_see_counts(place, monkeypatch, kind):
    place.define(disk(qemu_img(place.local / "vm.qcow2")))
    mounted(monkeypatch, place.local, kind, "x")
    assert "mount it there" in place.refused()


# -- the network, secrets, and files of the boot --------------------------------------------------

NBD = (
    "<disk type='network' device='disk'><driver name='qemu' type='raw'/><source protocol='nbd'"
    " name='x'>{}</source><target dev='vda'/></disk>"
)


@pytest.mark.parametrize(
    "host",
    [
        "<host name='localhost' port='10809'/>",
        "<host name='127.3.2.1'/>",
        "<host name='::1'/>",
        "<host transport='unix' socket='/run/nbd'/>",
    ],
)
def test_storage_a_server_that_is_this_host_itself_is_refused(place, host):
    place.define(NBD.format(host))
    assert "its disk vda comes from a server of this host itself" in place.refused()


def test_storage_a_server_elsewhere_is_fine(place):
    place.define(NBD.format("<host name='192.0.2.1'/><host name='filer.example.com'/>"))
    place.moved()


def test_storage_a_server_of_this_host_behind_an_image_is_refused(place):
    path = qcow2(place.shared / "vm.qcow2", "nbd+unix:///x?socket=/run/nbd")
    place.define(disk(path))
    assert "comes from a server of this host itself (unix)" in place.refused()


def test_storage_secrets_are_at_the_destination(place):
    secret = "3b2a1c5e-0000-4000-8000-000000000001"
    auth = "<auth username='x'><secret type='ceph' usage='the ceph'/></auth>"
    rbd = (
        f"<disk type='network' device='disk'><driver name='qemu' type='raw'/>{auth}<source"
        " protocol='rbd' name='p/x'><host name='mon'/></source>"
    )
    luks = f"<encryption format='luks'><secret type='passphrase' uuid='{secret}'/></encryption>"
    path = qemu_img(place.shared / "vm.qcow2")
    place.define(f"{rbd}<target dev='vdb'/></disk>" + disk(path, more=luks))
    text = place.refused()
    assert f"the secret {secret} (passphrase) of its disks does not exist on kvm2" in text
    assert "the secret the ceph (ceph) of its disks does not exist on kvm2" in text
    has_value = types.SimpleNamespace(value=lambda flags: b"x")
    place.far.secrets = {
        secret: has_value,
        (libvirt.VIR_SECRET_USAGE_TYPE_CEPH, "the ceph"): has_value,
    }
    place.moved()


@pytest.mark.parametrize("what", ["kernel", "initrd", "dtb", "loader"])
@pytest.mark.parametrize("there", [None, b"other one", b"the one."])
def test_safety_21_what_a_guest_is_started_from_is_there(place, what, there):
    path = place.local / "boot" / what
    path.parent.mkdir()
    path.write_bytes(b"the one." if there else b"")
    path.write_bytes(b"the one.")
    if there:
        place.far.write(str(path), there)
    place.define("", f"<{what}>{path}</{what}>")
    if there == b"the one.":
        place.moved()
    else:
        word = "does not exist" if there is None else "is another one"
        assert f"{path}, which it is started from, {word} on kvm2: copy it there" in place.refused()


def test_safety_21_firmware_of_the_system_only_has_to_be_there(place):
    loader = "<loader readonly='yes' type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>"
    place.define("", loader)
    assert (
        "/usr/share/OVMF/OVMF_CODE.fd, which it is started from, does not exist on kvm2"
        in place.refused()
    )
    place.far.write("/usr/share/OVMF/OVMF_CODE.fd", b"of another release")
    place.moved()


def test_an_image_that_cannot_be_followed_is_refused(place):
    path = qcow2(place.shared / "vm.qcow2", "gone.qcow2")
    place.define(disk(path))
    assert (
        f"of its disk {path}, {place.shared}/gone.qcow2 cannot be read (No such file or directory)"
        in place.refused()
    )


# -- files that a move leaves at the destination --------------------------------------------------


def break_off(place, path):
    """Run a move that fails after it made its copy, while its destination cannot be cleaned."""

    def refuse(*dummy):
        raise libvirt.libvirtError("client socket is closed")

    def fail(domain_, flags):
        place.far.storagePoolCreateXML = refuse
        raise libvirt.libvirtError("no")

    place.behave = fail
    record, dummy = place.move()
    assert record["status"] == "failed" and record["leftovers"] == [f"kvm2:{path}"], record
    del place.far.storagePoolCreateXML
    place.behave = place.succeed


def test_a_copy_that_was_left_is_taken_over_by_the_next_attempt(place):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    break_off(place, path)
    assert place.far.read(path) is not None
    assert place.moved()["storage"] == "copied"


def test_a_copy_that_was_left_when_the_source_lost_its_power_is_taken_over(place, monkeypatch):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    break_off(place, path)
    monkeypatch.setattr(migration_record, "boot_id", lambda: "another start")
    assert place.moved()["storage"] == "copied"


def test_b3_a_file_that_is_older_than_the_move_that_left_a_copy_is_not_taken_for_that_copy(place):
    """A person has moved an image of last week to the path of the copy."""
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    break_off(place, path)
    place.far.write(path, b"last week")
    last_week = time.time() - 7 * 86400
    os.utime(place.far.real(path), (last_week, last_week))
    assert (
        f"a file {path} is on kvm2 already, and it is older than the move that is said to have"
        " made it" in place.refused()
    )
    assert place.far.read(path) == b"last week"


def test_what_a_completed_move_has_made_is_no_leftover(place):
    """The instance ran on the file. A person has brought the instance back by hand and kept the
    file."""
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    place.moved()
    kept = place.far.read(path)
    text = place.domain(there=True).XMLDesc(0)
    place.domain(there=True).undefine()
    qemu_img(path)
    place.source.defineXML(text)
    assert (
        f"a file {path} is on kvm2 already, and nothing proves that it is a leftover of ours"
        in place.refused()
    )
    assert place.far.read(path) == kept


@pytest.mark.parametrize("why", ["a domain has it", "it was written to since"])
def test_what_has_become_somebodys_since_is_not_taken_over(place, why):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    break_off(place, path)
    if why == "a domain has it":
        place.far.defineXML(domain("other", 3, disk(path)))
    else:
        later = time.time() + ownership.CLOCKS + 60
        os.utime(place.far.real(path), (later, later))
    text = place.refused()
    assert f"a file {path} is on kvm2 already, and " in text
    assert (
        "the domain other there uses it"
        if why == "a domain has it"
        else "it was written to after the move"
    ) in text


def test_a_file_that_somebody_makes_at_the_same_moment_is_theirs(place, monkeypatch):
    """libvirt refuses to make our file. The empty image belongs to another person, who has not
    defined a domain yet."""
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path), running=True)
    real = worker_module.Storage.make_room

    def make_room(storage, live):
        place.far.write(path, b"")
        return real(storage, live)

    monkeypatch.setattr(worker_module.Storage, "make_room", make_room)
    record, dummy = place.move()
    assert record["status"] == "failed" and place.far.read(path) == b"", record["message"]


def test_a_disk_that_cannot_be_read_any_more_when_it_is_copied(place, monkeypatch):
    path = qemu_img(place.local / "vm.qcow2")
    place.define(disk(path))
    real = worker_module.Storage.make_room

    def make_room(storage, live):
        os.unlink(path)
        return real(storage, live)

    monkeypatch.setattr(worker_module.Storage, "make_room", make_room)
    record, dummy = place.move()
    assert record["status"] == "failed" and place.far.read(path) is None
    assert f"failed before anything was moved: {path} can no longer be read" in record["message"]


@pytest.mark.parametrize(
    ("size", "cache", "running", "is_refused"),
    [
        (200_000_000, "none", True, True),
        (200_000_000 + 512, "directsync", True, True),
        (200_000_000, "writeback", True, False),
        (200_000_000, None, True, False),
        (200_003_584, "none", True, False),
        (200_000_000, "none", False, False),
    ],
)
def test_b7_a_raw_disk_that_qemu_does_not_copy_is_refused_before(
    place, size, cache, running, is_refused
):
    """QEMU would fail at the destination with: Block node is read-only."""
    path = place.local / "vm.raw"
    with open(path, "wb") as file:
        file.truncate(size)
    way = (
        f"<driver name='qemu' type='raw' cache='{cache}'/>"
        if cache
        else "<driver name='qemu' type='raw'/>"
    )
    place.define(
        disk(path, kind="raw").replace("<driver name='qemu' type='raw'/>", way), running=running
    )
    if not is_refused:
        place.moved()
        return
    words = place.refused()
    for part in (
        f"raw image of {size} bytes",
        f"cache={cache}",
        "drover.compute.instance_disk",
        "drover_disk=vda",
        "shut off",
    ):
        assert part in words, words


#: The destination's report about the file systems of two folders (free and size, MiB), the identity
#: of the file systems, and the result for two disks of 14 MiB: True if they fit.
ROOMS = {
    "two folders of one": ((20, 40), (20, 40), {}, False),
    "two of equal size": ((20, 40), (19, 40), {}, True),
    "two that are known": ((20, 40), (20, 40), {"one": "a", "two": "b"}, True),
    "one that is known": ((20, 40), (19, 40), {"one": "a", "two": "a"}, False),
    "two exports of one server": (
        (20, 40),
        (20, 80),
        {"one": "nfs:filer", "two": "nfs:filer"},
        True,
    ),
    "one with room": ((60, 80), (60, 80), {}, True),
}


@pytest.mark.parametrize("which", ROOMS)
def test_f22_room_is_added_up_by_file_system(place, monkeypatch, which):
    *rooms, file_systems, fits = ROOMS[which]
    folders = [place.local / name for name in ("one", "two")]
    devices, sizes = "", {}
    for folder, target, room in zip(folders, ("vda", "vdb"), rooms, strict=True):
        folder.mkdir()
        os.makedirs(place.far.real(str(folder)))
        path = folder / "disk.raw"
        with open(path, "wb") as file:
            file.write(os.urandom(14 << 20))
        devices += disk(path, target, kind="raw")
        sizes[str(folder)] = room
    info = Pool.info

    def told(pool):
        free, size = sizes.get(pool.path, (None, None))
        return info(pool) if free is None else [2, size << 20, 0, free << 20]

    monkeypatch.setattr(Pool, "info", told)
    place.define(devices)
    options = {
        "file_systems_there": {
            str(place.local / name): system for name, system in file_systems.items()
        }
    }
    if fits:
        place.moved(**options)
        return
    assert (
        f"{folders[0]} and {folders[1]} are on one file system of kvm2, which has"
        f" {min(free for free, _size in rooms)} MiB free, but its disks take 28 MiB"
        in place.refused(**options)
    )


@pytest.mark.parametrize("written", [-(64 << 10), 64 << 10])
def test_f22_two_folders_are_on_one_file_system_that_is_written_to_meanwhile(
    place, monkeypatch, written
):
    """Each read has another number of free bytes: something else writes to the file system, or
    removes from it.
    """
    devices = ""
    for name, target in (("one", "vda"), ("two", "vdb")):
        folder = place.local / name
        folder.mkdir()
        os.makedirs(place.far.real(str(folder)))
        with open(folder / "disk.raw", "wb") as file:
            file.write(os.urandom(14 << 20))
        devices += disk(folder / "disk.raw", target, kind="raw")
    free = itertools.count(20 << 20, written)
    monkeypatch.setattr(Pool, "info", lambda pool: [2, 40 << 20, 0, next(free)])
    place.define(devices)
    assert "are on one file system of kvm2" in place.refused()


@pytest.mark.parametrize("missing", [("two",), ("one", "two")])
@pytest.mark.parametrize("free", [20, 60])
def test_f22_a_folder_that_the_copy_makes_has_the_room_of_the_one_above(
    place, monkeypatch, missing, free
):
    devices = ""
    for name, target in (("one", "vda"), ("two", "vdb")):
        folder = place.local / name / "deep"
        folder.mkdir(parents=True)
        if name not in missing:
            os.makedirs(place.far.real(str(folder)))
        path = folder / "disk.raw"
        with open(path, "wb") as file:
            file.write(os.urandom(14 << 20))
        devices += disk(path, target, kind="raw")
    os.makedirs(place.far.real(str(place.local)), exist_ok=True)
    monkeypatch.setattr(Pool, "info", lambda pool: [2, 80 << 20, 0, free << 20])
    place.define(devices)
    if free == 60:
        place.moved()
    else:
        assert (
            "are on one file system of kvm2, which has 20 MiB free, but its disks take 28 MiB"
            in place.refused()
        )
