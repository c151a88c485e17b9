# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``domain``: the files that it makes, takes and removes. Real image files, domains of
libvirt's test driver."""

from __future__ import annotations

import json
import os
import pathlib
import stat
import subprocess
import sys

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain import power
from ansible_collections.drover.compute.plugins.module_utils._domain.definition import SOURCE_ALIAS
from ansible_collections.drover.compute.tests import parts
from ansible_collections.drover.compute.tests.unit.module_utils.images import (
    disk,
    qcow2,
    qemu_img,
    volume,
)

UUID = "00000000-0000-4000-8000-000000000007"


def names(connection):
    return sorted(domain.name() for domain in connection.listAllDomains(0))


def remove(run_module, uri, **more):
    return run_module("domain", uri=uri, uuid=UUID, state="absent", remove_disks=True, **more)


def test_safety_04_deleting_an_instance_keeps_the_base_of_clones_on_volumes(
    run_module, fake_host, domain_xml, tmp_path
):
    base = qemu_img(tmp_path / "tb.qcow2")
    clone = qemu_img(tmp_path / "cl.qcow2", backing=base)
    uri, connection = fake_host(domain_xml("tb", 7, devices=disk(base)), domain_xml("cl", 8))
    pool = connection.storagePoolDefineXML(
        f"<pool type='dir'><name>images</name><target><path>{tmp_path}</path></target></pool>", 0
    )
    pool.create(0)
    pool.createXML("<volume><name>cl.qcow2</name><capacity>1</capacity></volume>", 0)
    connection.lookupByName("cl").destroy()
    connection.defineXML(domain_xml("cl", 8, devices=volume("images", "cl.qcow2")))
    dry_run = remove(run_module, uri, check_mode=True)
    done = remove(run_module, uri)
    assert dry_run["removed_disks"] == done["removed_disks"] == []
    assert (
        dry_run["kept_disks"]
        == done["kept_disks"]
        == [{"path": base, "reason": "the domain cl uses it"}]
    )
    assert names(connection) == ["cl"]
    subprocess.run(["qemu-img", "check", "-q", clone], check=True)


def build(run_module, uri, xml, *disks, **more):
    return run_module("domain", uri=uri, xml=xml, disks=list(disks), state="present", **more)


@pytest.mark.parametrize("behind", [False, True])
def test_an_image_that_another_domain_writes_to_is_refused(
    run_module, fake_host, domain_xml, tmp_path, behind
):
    image = own = qemu_img(tmp_path / "other.qcow2")
    if behind:
        image = qemu_img(tmp_path / "layer.qcow2", backing=own)
    uri, connection = fake_host(domain_xml("other", 8, devices=disk(own)))
    connection.lookupByName("other").destroy()
    disk_options = {"path": str(tmp_path / "vm.qcow2"), "backing_file": image}
    for check_mode in (True, False):
        result = build(run_module, uri, domain_xml("vm", 7), disk_options, check_mode=check_mode)
        assert result["rc"] == 1 and not result["begun"]
        assert (
            "a file that the domain other" in result["msg"]
            and "use a copy of that image" in result["msg"]
        )
    assert names(connection) == ["other"] and not os.path.exists(disk_options["path"])
    connection.lookupByName("other").undefine()
    assert build(run_module, uri, domain_xml("vm", 7), disk_options)["created_disks"] == [
        disk_options["path"]
    ]


def test_an_image_that_others_only_read_is_one(run_module, fake_host, domain_xml, tmp_path):
    image = qemu_img(tmp_path / "golden.qcow2")
    clone = qemu_img(tmp_path / "clone.qcow2", backing=image)
    uri, dummy = fake_host(
        domain_xml("template", 8, devices=disk(image, more="<readonly/>")),
        domain_xml("clone", 9, devices=disk(clone)),
    )
    assert (
        build(
            run_module,
            uri,
            domain_xml("vm", 7),
            {"path": str(tmp_path / "vm.qcow2"), "backing_file": image},
        )["changed"]
        is True
    )


@pytest.mark.parametrize(
    ("image_format", "backed"), [("qcow2", False), ("qcow2", True), ("raw", False)]
)
def test_a_file_that_holds_data_is_not_taken_for_a_killed_runs(
    run_module, fake_host, domain_xml, tmp_path, image_format, backed
):
    """The file can be the last copy of an instance, and would be removed with this one."""
    base = qemu_img(tmp_path / "base.qcow2", size="1G")
    path = str(tmp_path / "precious")
    behind = ["-b", base, "-F", "qcow2"] if backed else []
    subprocess.run(
        ["qemu-img", "create", "-q", "-f", image_format, *behind, path, "1G"], check=True
    )
    uri, connection = fake_host()
    disk_options = {
        "path": path,
        "size_gb": 1,
        "format": image_format,
        **({"backing_file": base} if backed else {}),
    }
    assert (
        build(run_module, uri, domain_xml("vm", 7), disk_options, check_mode=True)["changed"]
        is True
    )
    subprocess.run(
        ["qemu-io", "-f", image_format, "-c", "write -P 7 500M 64k", path],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    before = pathlib.Path(path).read_bytes() if image_format == "qcow2" else None
    result = build(run_module, uri, domain_xml("vm", 7), disk_options)
    assert (
        result["rc"] == 1
        and "it holds data, and nothing proves whose. Nothing was overwritten" in result["msg"]
    )
    assert names(connection) == [] and (before is None or pathlib.Path(path).read_bytes() == before)


def test_what_is_removed_is_decided_when_it_is_off(
    run_module, fake_host, domain_xml, tmp_path, monkeypatch
):
    """A person makes a clone of the disk while the domain shuts down."""
    path = qcow2(tmp_path / "vm.qcow2")
    uri, connection = fake_host(domain_xml("vm", 7, devices=disk(path)))
    real = power.stop

    def stop(domain, *rest, **named):
        real(domain, *rest, **named)
        qcow2(tmp_path / "clone.qcow2", path)

    monkeypatch.setattr(power, "stop", stop)
    done = remove(run_module, uri)
    assert (
        done["removed_disks"] == []
        and done["kept_disks"][0]["reason"] == f"the image {tmp_path}/clone.qcow2 is backed by it"
    )


def test_a_transient_domain_is_known_before_it_is_gone(run_module, fake_host, domain_xml, tmp_path):
    path = qcow2(tmp_path / "vm.qcow2")
    uri, connection = fake_host()
    connection.createXML(domain_xml("vm", 7, devices=disk(path)))
    done = remove(run_module, uri, force=True, timeout=5)
    assert done.get("removed_disks") == [path], done
    assert names(connection) == [] and not os.path.exists(path)


@pytest.mark.parametrize("check_mode", [True, False])
def test_what_a_removed_disk_was_backed_by_is_named(
    run_module, fake_host, domain_xml, tmp_path, check_mode
):
    """After an evacuation libvirt has no record of the snapshots, and no other output names these
    images. An image of a library is not named."""
    (tmp_path / "library").mkdir()
    image = qcow2(tmp_path / "library" / "debian.qcow2")
    first = qcow2(tmp_path / "vm.qcow2", image)
    second = qcow2(tmp_path / "vm.one.qcow2", first)
    newest = qcow2(tmp_path / "vm.two.qcow2", second)
    uri, _connection = fake_host(domain_xml("vm", 7, devices=disk(newest)))
    done = remove(run_module, uri, check_mode=check_mode)
    reason = f"the disk {newest} is backed by it, and other images may be too"
    assert done["removed_disks"] == [newest] and done["kept_disks"] == [
        {"path": path, "reason": reason} for path in (second, first)
    ]
    assert (
        all(os.path.exists(path) for path in (image, first, second))
        and os.path.exists(newest) is check_mode
    )


def test_disks_that_are_not_to_be_removed_stay(run_module, fake_host, domain_xml, tmp_path):
    path = qcow2(tmp_path / "vm.qcow2")
    uri, connection = fake_host(domain_xml("vm", 7, devices=disk(path)))
    done = run_module("domain", uri=uri, uuid=UUID, state="absent")
    assert (done["removed_disks"], done["kept_disks"], names(connection)) == (
        [],
        [],
        [],
    ) and os.path.exists(path)


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("how", ["disk", "base", "volume", "media", "link", "elsewhere"])
def test_safety_22_a_path_that_another_instance_uses_is_not_taken(
    run_module, fake_host, domain_xml, tmp_path, there, how
):
    """The other instance has the path as its disk, as a backing file, as a volume, as a medium, by
    another name or on another host. The file may exist or not."""
    (tmp_path / "folder").mkdir()
    os.symlink(tmp_path / "folder", tmp_path / "other-name")
    path = str(tmp_path / "folder" / "db.qcow2")
    devices = {
        "disk": disk(path),
        "base": disk(qcow2(tmp_path / "top.qcow2", path)),
        "volume": volume("images", "db.qcow2"),
        "media": disk(path, "hdc", device="cdrom", kind="raw", more="<readonly/>"),
        "link": disk(tmp_path / "other-name" / "db.qcow2"),
        "elsewhere": "",
    }[how]
    uri, connection = fake_host(domain_xml("db1", 8))
    connection.lookupByName("db1").destroy()
    connection.defineXML(domain_xml("db1", 8, devices=devices))
    pool = connection.storagePoolDefineXML(
        "<pool"
        f" type='dir'><name>images</name><target><path>{tmp_path}/folder</path></target></pool>",
        0,
    )
    pool.create(0)
    pool.createXML("<volume><name>db.qcow2</name><capacity>1</capacity></volume>", 0)
    if there:
        qemu_img(path, size="1G")
    arguments = {
        "uri": uri,
        "xml": domain_xml("db2", 7, devices=disk(path)),
        "used_elsewhere": [path] if how == "elsewhere" else [],
    }
    for more in (
        {"disks": [{"path": path, "size_gb": 1}]},
        {},
        {"seed": {"path": path, "content_b64": ""}},
    ):
        result = run_module("domain", **arguments, **more)
        who = "a domain of another hypervisor" if how == "elsewhere" else "the domain db1"
        assert result["rc"] == 1 and f"The file {path} is in use by {who}" in result["msg"]
    assert names(connection) == ["db1"] and os.path.exists(path) is there


def test_safety_22_an_undo_removes_the_very_file_that_was_made_and_no_other(
    run_module, fake_host, domain_xml, tmp_path, monkeypatch
):
    """While the start fails, another program puts another file in place of the disk, and locks the
    first file by its new name."""
    path, given_away = str(tmp_path / "vm.qcow2"), str(tmp_path / "taken.qcow2")
    uri, connection = fake_host()

    def refuse(self, flags):
        os.rename(path, given_away)
        qcow2(path)
        raise libvirt.libvirtError("no memory left")

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    result = run_module(
        "domain",
        uri=uri,
        xml=domain_xml("vm", 7, devices=disk(path)),
        disks=[{"path": path, "size_gb": 1}],
    )
    assert result["rc"] == 1 and "no memory left" in result["msg"]
    assert f"{path} (another file has its name by now)" in result["msg"]
    assert names(connection) == [] and os.path.exists(path) and os.path.exists(given_away)


def test_safety_22_an_undo_keeps_what_somebody_else_runs_with(
    run_module, fake_host, domain_xml, tmp_path, monkeypatch
):
    """A guest of another host took the file as its own, and its QEMU has locked the file."""
    path, holders = str(tmp_path / "vm.qcow2"), []
    uri, connection = fake_host()

    def refuse(self, flags):
        lock = (
            f"import fcntl,sys; f=open({path!r},'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print('x',"
            " flush=True); sys.stdin.read()"
        )
        holders.append(
            subprocess.Popen(
                [sys.executable, "-c", lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
        )
        holders[0].stdout.readline()
        raise libvirt.libvirtError('Failed to get "write" lock')

    monkeypatch.setattr(libvirt.virDomain, "createWithFlags", refuse)
    try:
        result = run_module(
            "domain",
            uri=uri,
            xml=domain_xml("vm", 7, devices=disk(path)),
            disks=[{"path": path, "size_gb": 1}],
        )
        assert f"{path} (a process has it locked)" in result["msg"] and os.path.exists(path)
    finally:
        holders[0].communicate()


def test_safety_20_no_password_of_a_console_in_a_difference_or_a_result(
    run_module, fake_host, domain_xml
):
    console = (
        "<graphics type='vnc' port='-1' autoport='yes' passwd='TOP&lt;S3CRT'"
        " passwdValidTo='2030-01-01T00:00:00'/>"
    )
    uri, connection = fake_host()
    text = domain_xml("vm", 7, devices=console)
    made = run_module("domain", uri=uri, xml=text, state="present", check_mode=True, diff_mode=True)
    run_module("domain", uri=uri, xml=text, state="present")
    assert "S3CRT" in connection.lookupByName("vm").XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE)
    for mode in (
        {"check_mode": True, "diff_mode": True},
        {"check_mode": True},
        {"diff_mode": True},
    ):
        changed = run_module(
            "domain",
            uri=uri,
            uuid=UUID,
            state="present",
            memory_mb=128 if "check_mode" in mode else 96,
            **mode,
        )
        assert changed["changed"] and "S3CRT" not in json.dumps(changed)
    assert (
        made["changed"]
        and "S3CRT" not in json.dumps(made)
        and "passwdValidTo" in made["domain"]["xml"]
    )
    assert "S3CRT" in connection.lookupByName("vm").XMLDesc(libvirt.VIR_DOMAIN_XML_SECURE), (
        "it is kept where it belongs"
    )


def test_b5_two_nodes_of_one_device_are_one_disk(run_module, fake_host, domain_xml, tmp_path):
    """A node can be made in any folder, and has its own inode number; only the device number
    identifies the device."""
    try:
        for name in ("one", "two"):
            os.mknod(tmp_path / name, stat.S_IFBLK | 0o600, os.makedev(7, 200))
        os.mknod(tmp_path / "three", stat.S_IFBLK | 0o600, os.makedev(7, 201))
    except PermissionError:
        parts.leave_out("The tests of device nodes", "only root makes them")

    def block(name):
        return (
            "<disk type='block' device='disk'><driver name='qemu' type='raw'/><source"
            f" dev='{tmp_path}/{name}'/><target dev='vda'/><alias name='{SOURCE_ALIAS}vda'/></disk>"
        )

    uri, connection = fake_host(domain_xml("other", 8, devices=block("one")))
    result = build(run_module, uri, domain_xml("vm", 7, devices=block("two")))
    assert (
        result["rc"] == 1
        and f"The file {tmp_path}/two is in use by the domain other" in result["msg"]
        and names(connection) == ["other"]
    )
    assert build(run_module, uri, domain_xml("vm", 7, devices=block("three")))["rc"] == 0 and names(
        connection
    ) == ["other", "vm"]


@pytest.mark.parametrize("kind", ["qcow2", "luks"])
@pytest.mark.parametrize("copied", [False, True])
def test_f1_no_disk_is_made_of_an_encrypted_image(
    run_module, fake_host, domain_xml, tmp_path, kind, copied
):
    """The new disk has no key of the library image: a guest could read it neither as a backing file
    nor as a copy."""
    image, prefix = tmp_path / "golden", "" if kind == "luks" else "encrypt."
    encrypted = ["encrypt.format=luks"] if prefix else []
    options = ",".join([*encrypted, f"{prefix}key-secret=s", f"{prefix}iter-time=10"])
    qemu_img(image, "--object", "secret,id=s,data=x", "-o", options, kind=kind)
    uri, connection = fake_host()
    disk_options = {"path": str(tmp_path / "vm.qcow2"), "backing_file": str(image)}
    if copied:
        pool = (
            "<pool"
            " type='logical'><name>vg</name><source><name>vg</name></source><target><path>/dev/vg</path></target></pool>"
        )
        connection.storagePoolDefineXML(pool, 0).create(0)
        disk_options = {
            "pool": "vg",
            "volume": f"{UUID}-vda",
            "size_gb": 1,
            "backing_file": str(image),
        }
    result = build(run_module, uri, domain_xml("vm", 7), disk_options)
    assert (
        result["rc"] == 1
        and f"The image {image}" in result["msg"]
        and "is encrypted" in result["msg"]
        and names(connection) == []
    )
    assert not result["begun"] and not (tmp_path / "vm.qcow2").exists()
