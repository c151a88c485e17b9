# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``_pool_contents``: the files of a storage pool, and their users. Real image files, pools
and domains of libvirt's test driver."""

from __future__ import annotations

import os

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, qemu_img

CDROM = (
    "<disk type='file' device='cdrom'><source file='{}'/><target dev='sda'"
    " bus='sata'/><readonly/></disk>"
)


@pytest.fixture
def listed(run_module, fake_host, domain_xml, tmp_path):
    """Make the pool fast and domains with these devices, and list the pool."""
    folder = tmp_path / "fast"
    folder.mkdir()

    def look(*devices, pool="fast"):
        uri, connection = fake_host(
            *(
                domain_xml(f"vm{number}", number, devices=each)
                for number, each in enumerate(devices, 1)
            )
        )
        connection.storagePoolDefineXML(
            f"<pool type='dir'><name>fast</name><target><path>{folder}</path></target></pool>"
        ).create()
        return run_module("_pool_contents", uri=uri, pool=pool)

    look.folder = folder
    return look


def paths(found):
    return sorted(os.path.basename(each["path"]) for each in found)


def test_all_that_a_domain_needs_is_listed(listed, tmp_path):
    """The list has disks, images behind them, media and missing files, also through links and
    folders."""
    folder = listed.folder
    base = qemu_img(folder / "base.qcow2")
    own = qemu_img(folder / "own.qcow2", backing=base)
    outside = qemu_img(tmp_path / "outside.qcow2", backing=qemu_img(folder / "behind.qcow2"))
    (folder / "below").mkdir()
    (folder / "below" / "medium.iso").write_bytes(b"iso")
    os.symlink(own, folder / "link")
    os.link(own, folder / "same")
    (folder / "notes.txt").write_text("mine")
    os.symlink(folder, tmp_path / "elsewhere")
    answer = listed(
        disk(tmp_path / "elsewhere" / "own.qcow2") + CDROM.format(folder / "below" / "medium.iso"),
        disk(outside),
        "<disk type='file'><driver type='raw'/><source file='{}'/><target dev='vda'"
        " bus='virtio'/></disk>".format(folder / "gone.img"),
    )
    assert answer["rc"] == 0 and answer["changed"] is False, answer
    assert paths(answer["needed"]) == [
        "base.qcow2",
        "behind.qcow2",
        "gone.img",
        "link",
        "medium.iso",
        "own.qcow2",
        "same",
    ]
    assert {each["reason"] for each in answer["needed"] if each["path"] == own} == {
        "the domain vm1 uses it"
    }
    assert [(os.path.basename(each["path"]), each["reason"]) for each in answer["others"]] == [
        ("notes.txt", None)
    ]
    assert answer["doubts"] == []


def test_an_empty_pool_lists_nothing(listed, tmp_path):
    found = listed(disk(qemu_img(tmp_path / "own.qcow2")))
    assert (found["needed"], found["others"], found["doubts"]) == ([], [], [])


def test_an_image_of_nobody_is_no_domains(listed):
    """The list says so if only such an image is backed by a base."""
    base = qemu_img(listed.folder / "base.qcow2")
    top = qemu_img(listed.folder / "top.qcow2", backing=base)
    found = listed()
    assert found["needed"] == []
    assert {each["path"]: each["reason"] for each in found["others"]} == {
        base: f"the image {top} is backed by it",
        top: None,
    }


def test_what_is_behind_a_disk_and_cannot_be_read_is_a_doubt(listed, tmp_path):
    gone = qemu_img(tmp_path / "gone.qcow2")
    os.remove(gone)
    answer = listed(disk(gone))
    assert answer["needed"] == [] and any(
        "gone.qcow2 is not there" in each for each in answer["doubts"]
    ), answer


def test_a_pool_that_is_not_there_is_a_failure(listed):
    answer = listed(pool="slow")
    assert (
        answer["rc"] == 1
        and "There is no storage pool slow on" in answer["msg"]
        and "not known what is in it" in answer["msg"]
    )


def test_a_folder_that_cannot_be_read_is_a_failure(listed):
    os.rmdir(listed.folder)
    answer = listed()
    assert (
        answer["rc"] == 1
        and f"The folder {listed.folder} of" in answer["msg"]
        and "cannot be read" in answer["msg"]
    )


def test_a_mount_that_is_not_there_is_not_an_empty_pool(run_module, fake_host, tmp_path):
    uri, connection = fake_host()
    source = "<source><host name='filer'/><dir path='/export'/></source>"
    connection.storagePoolDefineXML(
        "<pool"
        f" type='netfs'><name>nfs</name>{source}<target><path>{tmp_path}</path></target></pool>"
    )
    answer = run_module("_pool_contents", uri=uri, pool="nfs")
    assert (
        answer["rc"] == 1
        and "does not run" in answer["msg"]
        and "virsh pool-start nfs" in answer["msg"]
    )


def test_volumes_that_are_no_files_are_listed_by_libvirt(
    run_module, fake_host, domain_xml, tmp_path
):
    """Volumes of LVM, as the test driver has them: one belongs to a domain, one belongs to none."""
    pool = (
        "<pool"
        " type='logical'><name>vg</name><source><name>vg</name></source><target><path>/dev/vg</path></target></pool>"
    )
    uri, connection = fake_host(
        domain_xml(
            "vm",
            1,
            devices=disk("/dev/vg/mine", kind="raw")
            .replace("type='file'", "type='block'")
            .replace("file=", "dev="),
        )
    )
    made = connection.storagePoolDefineXML(pool)
    made.create()
    for name in ("mine", "spare"):
        made.createXML(f"<volume><name>{name}</name><capacity unit='MiB'>1</capacity></volume>", 0)
    found = run_module("_pool_contents", uri=uri, pool="vg")
    assert paths(found["needed"]) == ["mine"] and paths(found["others"]) == ["spare"], found
