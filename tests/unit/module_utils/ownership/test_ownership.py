# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files that belong to an instance: real files, domains and pools of libvirt's test driver."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import struct
import subprocess
import sys

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._files import access
from ansible_collections.drover.compute.plugins.module_utils._ownership import needs, ownership
from ansible_collections.drover.compute.plugins.module_utils._storage import backing
from ansible_collections.drover.compute.tests.unit.module_utils.images import (
    disk,
    domain,
    qcow2,
    qemu_img,
    volume,
)

NODE = "<node>{0}<cpu><active>4</active></cpu><memory>8388608</memory></node>"
UUID = "00000000-0000-4000-8000-000000000007"
CDROM = {"device": "cdrom", "kind": "raw", "more": "<readonly/>"}


@contextlib.contextmanager
def hypervisor(folder, *domains):
    """Open a connection to a fake host with these domains. A domain is off, or (XML, "running")."""
    path = pathlib.Path(folder) / "node.xml"
    path.write_text(NODE.format(""))
    connection = libvirt.open(f"test://{path}")
    path.unlink()
    try:
        for each in domains:
            text, state = each if isinstance(each, tuple) else (each, "shutoff")
            made = connection.defineXML(text)
            if state == "running":
                made.create()
        yield connection
    finally:
        connection.close()


def pool(connection, name, path, *volumes, kind="dir", active=True):
    """Define a storage pool; the test makes the files of its volumes."""
    made = connection.storagePoolDefineXML(
        f"<pool type='{kind}'><name>{name}</name><target><path>{path}</path></target></pool>", 0
    )
    made.create(0)
    for each in volumes:
        made.createXML(
            f"<volume><name>{each}</name><capacity>1</capacity><target><format"
            " type='qcow2'/></target></volume>",
            0,
        )
    if not active:
        made.destroy()


def disks(paths, prefix="vd", **more):
    """Return a disk for each file."""
    return "".join(
        disk(path, f"{prefix}{letter}", **more) for letter, path in zip("abcdefghijklmnop", paths)
    )


def own(connection, uuid=UUID, elsewhere=()):
    """Return the decision about the files of the instance: (paths that are removed, dict path ->
    reason of the paths that stay)."""
    vm = connection.lookupByUUIDString(uuid)
    candidates = ownership.candidates_of(connection, needs.texts_of(vm))
    found = ownership.Ownership(connection, uuid, vm.name(), candidates, elsewhere)
    return found.sort_out(), {each["path"]: each["reason"] for each in found.kept}


def test_an_unambiguous_disk_goes_and_nothing_behind_it(tmp_path):
    base, top = qemu_img(tmp_path / "base.qcow2"), None
    top = qemu_img(tmp_path / "vm.qcow2", backing=base)
    with hypervisor(tmp_path, domain("vm", 7, disk(top)), domain("other", 8)) as connection:
        assert own(connection) == ([top], {})


def test_safety_04_a_base_of_clones_on_volumes_is_kept(tmp_path):
    """Volumes are resolved to files, and the backing files of these count, for any name of the
    pool, active or not."""
    base = qemu_img(tmp_path / "tb.qcow2")
    for name in ("cl.qcow2", "cl2.qcow2"):
        qemu_img(tmp_path / name, backing=base)
    for active in (True, False):
        with hypervisor(
            tmp_path, domain("tb", 7, disk(base)), domain("cl", 8, volume("images", "cl.qcow2"))
        ) as connection:
            pool(connection, "images", tmp_path, "cl.qcow2", active=active)
            assert own(connection) == ([], {base: "the domain cl uses it"})


def test_safety_04_a_volume_that_is_no_file_is_known_keeps_everything(tmp_path):
    """Its backing file is not known."""
    mine = qcow2(tmp_path / "vm.qcow2")
    with hypervisor(
        tmp_path, domain("vm", 7, disk(mine)), domain("cl", 8, volume("nowhere", "cl.qcow2"))
    ) as connection:
        gone, kept = own(connection)
        assert (
            gone == []
            and "it is not known which file the volume nowhere/cl.qcow2 of the domain cl is"
            in kept[mine]
        )


def test_a_volume_of_its_own_goes_too(tmp_path):
    path = qcow2(tmp_path / "vm.qcow2")
    with hypervisor(tmp_path, domain("vm", 7, volume("images", "vm.qcow2"))) as connection:
        pool(connection, "images", tmp_path, "vm.qcow2")
        assert own(connection) == ([path], {})


def test_a_volume_of_its_own_whose_pool_is_not_there_is_kept(tmp_path):
    qcow2(tmp_path / "vm.qcow2")
    with hypervisor(tmp_path, domain("vm", 7, volume("images", "vm.qcow2"))) as connection:
        gone, kept = own(connection)
        assert gone == [] and "it is not known which file it is" in kept["images/vm.qcow2"]


def test_suspected_4_volumes_that_are_devices_are_no_files(tmp_path):
    """The name in a logical pool's folder is a link to a device: an unlink would remove nothing and
    report a removal."""
    os.symlink("/dev/null", tmp_path / "lv")
    logical = volume("vg", "lv", kind="raw")
    with hypervisor(tmp_path, domain("vm", 7, logical)) as connection:
        pool(connection, "vg", tmp_path, "lv", kind="logical")
        assert own(connection) == (
            [],
            {"vg/lv": "its name does not say that it is this instance's"},
        )


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_what_other_domains_are_backed_by_stays_running_or_off(tmp_path, state):
    base = qcow2(tmp_path / "base.qcow2")
    middle = qcow2(tmp_path / "middle.qcow2", "base.qcow2")
    top = qcow2(
        tmp_path / "top.qcow2",
        'json:{"driver":"qcow2","file":{"driver":"file","filename":"middle.qcow2"}}',
    )
    vm = domain("vm", 7, disk(base) + disk(middle, "vdb"))
    with hypervisor(tmp_path, vm, (domain("clone", 8, disk(top)), state)) as connection:
        assert own(connection) == ([], dict.fromkeys((base, middle), "the domain clone uses it"))


def test_one_file_by_several_names(tmp_path):
    """The other domain uses a link to the folder, a link to the file, or a second name of the
    file.
    """
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", tmp_path / "folder")
    paths = [qcow2(tmp_path / "real" / name) for name in ("a", "b", "c", "d")]
    os.symlink(paths[1], tmp_path / "link")
    os.link(paths[2], tmp_path / "hard")
    vm = domain("vm", 7, disks(paths))
    others = (
        disk(tmp_path / "folder" / "a")
        + disk(tmp_path / "link", "vdb")
        + disk(tmp_path / "hard", "vdc")
    )
    with hypervisor(tmp_path, vm, domain("other", 8, others)) as connection:
        gone, kept = own(connection)
        assert gone == [paths[3]] and set(kept) == set(paths[:3])
        # A link may lead to a file of any owner.
        mine = domain("mine", 9, disk(tmp_path / "link"))
        connection.defineXML(mine)
        gone, kept = own(connection, "00000000-0000-4000-8000-000000000009")
        assert gone == [] and "it is a link to" in kept[str(tmp_path / "link")]


@pytest.mark.parametrize(
    "name", ["vm.qcow2 ", "a, b.qcow2", 'it\'s <vm> & "co".qcow2', "json:{}", "a:b"]
)
@pytest.mark.parametrize("running", [True, False])
def test_b5_a_name_with_odd_characters_is_that_name(tmp_path, name, running):
    """Another domain has the same disk. libvirt itself turns other white space into blanks."""
    path = qemu_img(tmp_path / name)
    other = domain("other", 8, disk(path))
    with hypervisor(
        tmp_path, domain("vm", 7, disk(path)), (other, "running") if running else other
    ) as conn:
        assert own(conn) == ([], {path: "the domain other uses it"})


def test_what_an_image_nearby_is_backed_by_stays(tmp_path):
    """The image is in the same folder, in the folder of another disk, or in the folder of a pool: a
    clone with a domain on another host, or without a domain yet."""
    for folder in ("a", "b", "c"):
        (tmp_path / folder).mkdir()
    paths = [qcow2(tmp_path / "a" / f"{number}.qcow2") for number in range(4)]
    qcow2(tmp_path / "a" / "near", paths[0])
    qcow2(tmp_path / "b" / "by", paths[1])
    qcow2(tmp_path / "c" / "in-a-pool", paths[2])
    vm = domain("vm", 7, disks(paths))
    other = domain("other", 8, disk(qcow2(tmp_path / "b" / "other.qcow2")))
    with hypervisor(tmp_path, vm, other) as connection:
        pool(connection, "images", tmp_path / "c")
        gone, kept = own(connection)
    assert gone == [paths[3]]
    assert kept[paths[0]] == f"the image {tmp_path}/a/near is backed by it"
    assert set(kept) == set(paths[:3])


def test_what_snapshots_have_stays(tmp_path):
    """A snapshot records the disks of its time, with their backing files."""
    base, mine, kept = (qcow2(tmp_path / name) for name in ("base.qcow2", "vm.qcow2", "kept.qcow2"))
    other, old = qcow2(tmp_path / "other.qcow2"), qcow2(tmp_path / "old.qcow2", "base.qcow2")

    def snapshot(text):
        return f"<domainsnapshot><name>s</name><state>shutoff</state><creationTime>1</creationTime>{text}</domainsnapshot>"

    with hypervisor(
        tmp_path, domain("vm", 7, disk(base) + disk(mine, "vdb")), domain("other", 8, disk(other))
    ) as connection:
        for name, number, path in (("other", 8, old), ("vm", 7, kept)):
            text = snapshot(domain(name, number, disk(path)))
            connection.lookupByName(name).snapshotCreateXML(
                text, libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE
            )
        gone, why = own(connection)
    assert gone == [mine] and why[base] == "the domain other uses it"
    assert why[kept].startswith("it is not in the definition")


def test_everything_that_xml_names_counts(tmp_path):
    """Kernels, firmware, UEFI variables, a mirror, a shared folder, arguments for QEMU itself."""
    names = ("kernel", "initrd", "dtb", "loader", "nvram", "mirror", "argument", "free")
    paths = {name: qcow2(tmp_path / name) for name in names}
    (tmp_path / "given").mkdir()
    paths["inside"] = qcow2(tmp_path / "given" / "inside")
    for name in ("tpm", "guest"):
        (tmp_path / name).mkdir()
        paths[f"in-{name}"] = qcow2(tmp_path / name / "inside")
    vm = domain("vm", 7, disks(paths.values()))
    boot = "".join(
        f"<{name}>{paths[name]}</{name}>" for name in ("loader", "kernel", "initrd", "dtb", "nvram")
    )
    folder = (
        f"<filesystem type='mount'><source dir='{tmp_path}/given'/><target"
        f" dir='{tmp_path}/guest'/></filesystem>"
    )
    text = domain("other", 8, folder, boot)
    # The test driver drops these two; the driver for QEMU has them.
    argument = (
        f"<qemu:arg value='file={paths['argument']},if=virtio'"
        " xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'/>"
    )
    mirror = disk(
        "/nowhere/x",
        kind="raw",
        more=(
            f"<mirror type='file'><format type='qcow2'/><source file='{paths['mirror']}'/></mirror>"
        ),
    )
    with hypervisor(tmp_path, vm, text) as connection:
        real = needs.texts_of
        more = f"<x>{argument}{mirror}<source type='dir' path='{tmp_path}/tpm'/></x>"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                needs,
                "texts_of",
                lambda each: real(each) + ([more] if each.name() == "other" else []),
            )
            gone, kept = own(connection)
    assert gone == [paths["free"], paths["in-guest"]] and set(kept) == set(paths.values()) - set(
        gone
    )
    assert kept[paths["in-tpm"]] == f"the domain other uses its folder {tmp_path}/tpm"
    assert kept[paths["inside"]] == f"the domain other is given its folder {tmp_path}/given"


def test_other_hosts_instances(tmp_path):
    """The files of another host's domain, with their backing files, do not belong to this host
    alone."""
    mine, base, far = (str(tmp_path / name) for name in ("mine", "base", "far"))
    qcow2(mine), qcow2(base), qcow2(far, base)
    with hypervisor(
        tmp_path, domain("vm", 7, disk(mine) + disk(base, "vdb") + disk(far, "vdc"))
    ) as connection:
        gone, kept = own(connection, elsewhere=[far])
    assert gone == [mine] and kept == dict.fromkeys(
        (base, far), "a domain of another hypervisor uses it"
    )


def test_what_cannot_be_read_is_a_doubt_about_everything(tmp_path, monkeypatch):
    mine = qcow2(tmp_path / "mine")
    for name in ("damaged", "meant", "slow"):
        (tmp_path / name).mkdir()
    cases = {
        "missing": str(tmp_path / "unmounted" / "clone"),
        "damaged": str(tmp_path / "damaged" / "clone"),
        "meant": qcow2(tmp_path / "meant" / "clone", "blkdebug::/somewhere/mine"),
        "slow": qcow2(tmp_path / "slow" / "clone"),
    }
    (tmp_path / "damaged" / "clone").write_bytes(struct.pack(">4sIQI", b"QFI\xfb", 3, 200, 5000))
    real = access.call

    def call(function, *args, limit=None):
        if args[:1] == (cases["slow"],):
            raise access.Unresponsive(f"{args[0]} does not answer")
        return real(function, *args, limit=limit)

    monkeypatch.setattr(access, "call", call)
    for case, path in cases.items():
        (tmp_path / f"of-{case}").mkdir()
        other = tmp_path / f"of-{case}" / "other"
        with hypervisor(
            tmp_path, domain("vm", 7, disk(qcow2(other))), domain("clone", 8, disk(path))
        ) as connection:
            gone, kept = own(connection)
        expected = [str(other)] if case == "meant" else []
        assert gone == expected, f"{case}: {kept}"
    # A name that is not understood keeps all files that it may mean.
    with hypervisor(
        tmp_path, domain("vm", 7, disk(mine)), domain("clone", 8, disk(cases["meant"]))
    ) as connection:
        assert own(connection)[0] == []


def test_safety_17_media_by_their_whole_name_only(tmp_path):
    """An instance with a short name does not empty a library. Media that place made, and media with
    the uuid in the name, are removed."""
    library = [
        qcow2(tmp_path / name)
        for name in (
            "debian-12.iso",
            "deb.iso",
            "deb-seed.iso",
            f"x-{UUID[:8]}-seed.iso",
            "deb-12345678-seed.iso",
        )
    ]
    mine = [qcow2(tmp_path / name) for name in (f"deb-{UUID[:8]}-seed.iso", f"config-{UUID}.iso")]
    devices = disks(library + mine, "sd", **CDROM)
    with hypervisor(tmp_path, domain("deb", 7, devices)) as connection:
        gone, kept = own(connection)
    assert gone == mine
    assert kept == dict.fromkeys(
        library, "it is read-only and its name does not say that it is this instance's"
    )


def test_a_seed_of_a_name_that_place_spells_otherwise(tmp_path):
    seed = qcow2(tmp_path / f"a_b-{UUID[:8]}-seed.iso")
    with hypervisor(tmp_path, domain("a b", 7, disk(seed, "sda", **CDROM))) as connection:
        assert own(connection) == ([seed], {})


def test_uefi_variables_by_the_name_that_libvirt_gives_them(tmp_path):
    (tmp_path / "qemu" / "nvram").mkdir(parents=True)
    mine, template = (
        qcow2(tmp_path / "qemu" / "nvram" / "vm_VARS.fd"),
        qcow2(tmp_path / "vm_VARS.fd"),
    )
    loader = "<loader readonly='yes' type='pflash'>/usr/x</loader>"
    for path, gone in ((mine, [mine]), (template, [])):
        with hypervisor(
            tmp_path, domain("vm", 7, "", f"{loader}<nvram>{path}</nvram>")
        ) as connection:
            assert own(connection)[0] == gone


def test_the_log_of_its_console(tmp_path):
    mine, foreign = str(tmp_path / f"{UUID}-console.log"), str(tmp_path / "console.log")
    for path in (mine, foreign):
        pathlib.Path(path).write_text("login:")
    with hypervisor(
        tmp_path,
        domain(
            "vm",
            7,
            "".join(
                f"<serial type='pty'><log file='{path}'/></serial>" for path in (mine, foreign)
            ),
        ),
    ) as connection:
        assert own(connection) == ([mine], {})


def test_a_file_that_somebody_has_locked_is_kept(tmp_path):
    """QEMU does this on any host of the guest."""
    path = qcow2(tmp_path / "vm.qcow2")
    lock = (
        f"import fcntl,sys; f=open({path!r},'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print('locked',"
        " flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"locked\n"
        with hypervisor(tmp_path, domain("vm", 7, disk(path))) as connection:
            assert own(connection) == ([], {path: "a process has it locked"})
    finally:
        holder.communicate()


def test_what_it_was_when_it_was_looked_at(tmp_path):
    """A file that got the name before the removal belongs to another owner; a file that is locked
    by then stays too."""
    first, second = qcow2(tmp_path / "1"), qcow2(tmp_path / "2")
    with hypervisor(tmp_path, domain("vm", 7, disk(first) + disk(second, "vdb"))) as connection:
        candidates = ownership.candidates_of(
            connection, needs.texts_of(connection.lookupByName("vm"))
        )
        own_files = ownership.Ownership(connection, UUID, "vm", candidates)
        assert own_files.sort_out() == [first, second]
        os.rename(first, tmp_path / "old")
        qcow2(first)
        own_files.remove()
    assert (own_files.removed, own_files.kept) == (
        [second],
        [{"path": first, "reason": "another file has its name by now"}],
    )
    assert sorted(os.listdir(tmp_path)) == ["1", "old"]


def test_what_was_made_here_is_undone_as_it_was_made(tmp_path):
    path, part = str(tmp_path / "disk"), qcow2(tmp_path / ".drover-x.part")
    made = ownership.made(part, path)
    os.link(part, path)
    ownership.drop_temporary(part)
    with hypervisor(tmp_path) as connection:
        undone = ownership.Ownership(connection, UUID, "vm", [made])
        os.rename(path, tmp_path / "mine")
        qcow2(path)
        assert undone.sort_out() == []
        os.rename(tmp_path / "mine", path)
        assert undone.sort_out() == [path]
    with pytest.raises(ValueError):
        ownership.drop_temporary(path)
    with pytest.raises(ValueError):
        ownership.drop_probe(str(tmp_path))


def test_the_lock_that_is_looked_for_is_the_one_that_qemu_takes(tmp_path):
    """Hold an open file description lock on one byte, in another process."""
    path = qcow2(tmp_path / "vm.qcow2")
    script = (
        f"import fcntl,struct,sys\nf=open({path!r},'r+b')\nfcntl.fcntl(f, 37, struct.pack('hhqqi',"
        " fcntl.F_WRLCK, 0, 201, 1, 0))\nprint('locked', flush=True)\nsys.stdin.read()"
    )
    assert fcntl.F_OFD_SETLK == 37
    holder = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"locked\n"
        with hypervisor(tmp_path, domain("vm", 7, disk(path))) as connection:
            assert own(connection)[0] == []
    finally:
        holder.communicate()


@pytest.mark.parametrize("by", ["disk", "stray image"])
def test_what_this_user_must_not_read_libvirt_has_read(tmp_path, monkeypatch, by):
    """The module runs as a user in the group libvirt, and the images belong to root."""
    (tmp_path / "mine").mkdir()
    base, mine = qcow2(tmp_path / "base.qcow2"), qcow2(tmp_path / "mine" / "vm.qcow2")
    clone = qcow2(tmp_path / "clone.qcow2", base)
    real = backing.references_of

    def read(path):
        if path == clone:
            raise PermissionError(13, "Permission denied", path)
        return real(path)

    monkeypatch.setattr(backing, "references_of", read)
    others = [domain("clone", 8, disk(clone))] if by == "disk" else []
    with hypervisor(
        tmp_path, domain("vm", 7, disk(base) + disk(mine, "vdb")), *others
    ) as connection:
        gone, kept = own(connection)
        assert (
            gone == []
            and f"what {clone} is backed by cannot be read (Permission denied)" in kept[mine]
        )
        pool(connection, "images", tmp_path)
        connection.storagePoolLookupByName("images").createXML(
            "<volume><name>clone.qcow2</name><capacity>1</capacity><target><format"
            f" type='qcow2'/></target><backingStore><path>{base}</path><format"
            " type='qcow2'/></backingStore></volume>",
            0,
        )
        gone, kept = own(connection)
        assert gone == [mine] and set(kept) == {base}


RBD_POOL = (
    "<pool type='rbd'><name>ceph</name><source><host name='mon1'/><name>vms</name></source></pool>"
)


def rbd(image, target="vda"):
    source = f"<source protocol='rbd' name='vms/{image}'><host name='mon1'/></source>"
    return (
        f"<disk type='network' device='disk'><driver name='qemu' type='raw'/>{source}<target"
        f" dev='{target}' bus='virtio'/></disk>"
    )


def test_a_volume_that_a_domain_of_another_host_has_stays(tmp_path):
    """A domain that is off does not open the image, so Ceph would remove it."""
    image = f"{UUID}-vda"
    with hypervisor(tmp_path, domain("vm", 7, rbd(image)), domain("other", 8)) as connection:
        connection.storagePoolDefineXML(RBD_POOL, 0)
        assert own(connection) == ([f"rbd:vms/{image}"], {})
        assert own(connection, elsewhere=[f"rbd:vms/{image}"]) == (
            [],
            {f"rbd:vms/{image}": "a domain of another hypervisor uses it"},
        )


@pytest.mark.parametrize(
    "name",
    [
        f"rbd:vms/{UUID}-vda",
        f"rbd:vms/{UUID}-vda:mon_host=mon1\\:3300;mon2:id=libvirt:key=AQ==",
        f"rbd:vms/ns/{UUID}-vda@before",
        (
            'json:{"driver": "raw", "file": {"driver": "rbd", "pool": "vms", "image":'
            f' "{UUID}-vda"}}}}'
        ),
        (
            'json:{"file.driver": "rbd", "file.pool": "vms", "file.image":'
            f' "{UUID[:-1]}\\u0037-vda"}}'
        ),
        (
            f'json:{{"driver": "qcow2", "file": {{"driver": "unheard-of", "volume": "{UUID}-vda"}},'
            ' "backing": "node"}'
        ),
    ],
)
@pytest.mark.parametrize("lies_around", [False, True])
def test_a_volume_behind_an_image_file_stays(tmp_path, name, lies_around):
    """A clone that does not run has no lock and no watcher, so the storage would remove the
    image.
    """
    image, top = f"{UUID}-vda", qcow2(tmp_path / "clone.qcow2", name)
    other = domain("clone", 8) if lies_around else domain("clone", 8, disk(top))
    with hypervisor(tmp_path, domain("vm", 7, rbd(image)), other) as connection:
        connection.storagePoolDefineXML(RBD_POOL, 0)
        if lies_around:
            pool(connection, "images", tmp_path)
        gone, kept = own(connection)
        who = f"the image {top} is backed by it" if lies_around else "the domain clone uses it"
        assert gone == [] and kept[f"rbd:vms/{image}"] in (
            who,
            f"the image {top} may be backed by it",
        )


def test_a_volume_stays_while_it_is_not_known_what_other_domains_need(tmp_path):
    image = f"{UUID}-vda"
    with hypervisor(
        tmp_path, domain("vm", 7, rbd(image)), domain("lost", 8, disk(tmp_path / "gone.qcow2"))
    ) as connection:
        connection.storagePoolDefineXML(RBD_POOL, 0)
        gone, kept = own(connection)
        assert (
            gone == []
            and "gone.qcow2 is not there, so what it is backed by is not known"
            in kept[f"rbd:vms/{image}"]
        )


def test_a_checkpoint_of_another_program_is_not_removed():
    class Domain:
        def checkpointLookupByName(self, *dummy):
            raise AssertionError("it was looked for")

    with pytest.raises(ValueError, match="virtnbdbackup.0"):
        ownership.drop_checkpoint(Domain(), "virtnbdbackup.0")
