# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Module ``_domain_backup``: the files that it leaves if a copy fails. The test driver copies
nothing, so the test replaces libvirt's part. tests/lab/test_before_drain.py tests the real one."""

from __future__ import annotations

import os
import subprocess
import xml.etree.ElementTree as ET

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._snapshots import backup
from ansible_collections.drover.compute.tests.unit.module_utils.images import disk, domain, qemu_img

BACKUP, NONE, RUNS = (
    libvirt.VIR_DOMAIN_JOB_OPERATION_BACKUP,
    libvirt.VIR_DOMAIN_JOB_NONE,
    libvirt.VIR_DOMAIN_JOB_UNBOUNDED,
)
UUID = "00000000-0000-4000-8000-000000000001"


class Job:
    """libvirt's job on the domain that is copied."""

    def __init__(self):
        self.state, self.ends, self.stops, self.end = (
            NONE,
            True,
            True,
            libvirt.VIR_DOMAIN_JOB_COMPLETED,
        )
        self.aborted, self.files = 0, []

    def begin(self, instance, text, checkpoint=None, flags=0):
        assert checkpoint is None
        disks = ET.fromstring(text).findall("disks/disk")
        assert {each.get("name"): each.get("backup") for each in disks} == {
            "vda": "yes",
            "vdb": "yes",
            "sda": "no",
        }
        for each in disks:
            if each.get("backup") == "yes":
                self.files.append(each.find("target").get("file"))
                with open(self.files[-1], "w", encoding="ascii") as file:
                    file.write("copy")
        self.state = NONE if self.ends else RUNS

    def abort(self, instance):
        self.aborted += 1
        self.state = NONE if self.stops else RUNS


@pytest.fixture
def job(monkeypatch):
    backup_job = Job()

    def begin(*arguments):
        return backup_job.begin(*arguments)

    def abort(instance):
        return backup_job.abort(instance)

    monkeypatch.setattr(libvirt.virDomain, "backupBegin", begin)
    monkeypatch.setattr(libvirt.virDomain, "abortJob", abort)
    monkeypatch.setattr(libvirt.virDomain, "jobInfo", lambda instance: [backup_job.state])
    monkeypatch.setattr(
        libvirt.virDomain,
        "jobStats",
        lambda instance, flags=0: {"operation": BACKUP, "type": backup_job.end},
    )
    monkeypatch.setattr(backup, "POLL", 0.01)
    monkeypatch.setattr(backup, "CANCELLED", 0.1)
    monkeypatch.setattr(backup.layers, "job_of", lambda instance, target: None)
    return backup_job


@pytest.fixture
def run(run_module, fake_host, tmp_path):
    devices = (
        disk("/v/a", "vda")
        + disk("/v/b", "vdb")
        + disk("/v/c.iso", "sda", "cdrom", "raw", "<readonly/>")
    )
    uri, connection = fake_host(
        domain("web", 1, devices), domain("off", 2, disk("/v/off")), domain("none", 3)
    )
    connection.lookupByName("off").destroy()
    folder = tmp_path / "copies"
    folder.mkdir()

    def call(**more):
        result = run_module("_domain_backup", **{"uri": uri, "folder": str(folder), **more})
        return result, sorted(os.listdir(folder))

    call.folder = folder
    return call


def test_each_disk_that_a_guest_writes_to_has_a_copy(run, job):
    result, files = run()
    assert result["changed"] and files == sorted(
        os.path.basename(each["path"]) for each in result["copies"]
    )
    assert [(each["name"], each["target"]) for each in result["copies"]] == [
        ("web", "vda"),
        ("web", "vdb"),
    ]
    assert all(name.startswith(f"{UUID}-vd") and name.endswith("Z.qcow2") for name in files)
    assert {each["name"]: each["reason"][:30] for each in result["left_out"]} == {
        "off": "it is shutoff, and libvirt cop",
        "none": "it has no disk that it writes ",
    }


def test_check_mode_copies_nothing(run, job):
    result, files = run(check_mode=True)
    assert result["changed"] and len(result["copies"]) == 2 and files == [] and job.files == []
    assert "would be copied" in result["lines"][-1]


def test_a_copy_that_fails_leaves_nothing_of_its_own(run, job):
    (run.folder / "theirs.qcow2").write_text("theirs")
    job.end = libvirt.VIR_DOMAIN_JOB_FAILED
    result, files = run()
    assert (
        result["failed"]
        and "the disks of web on" in result["msg"].replace("The", "the")
        and files == ["theirs.qcow2"]
    )


def test_one_that_takes_too_long_is_cancelled(run, job):
    job.ends = False
    result, files = run(timeout=0)
    assert (
        result["failed"]
        and "was not done within 0 s and was cancelled" in result["msg"]
        and (files, job.aborted) == ([], 1)
    )


def test_a_job_that_does_not_end_keeps_its_files_until_the_next_run(run, job):
    job.ends = job.stops = False
    result, files = run(timeout=0)
    assert result["failed"] and all(path in result["msg"] for path in job.files) and len(files) == 2
    result, dummy = run()
    assert (
        result["failed"]
        and "has a job under way" in result["msg"]
        and len(os.listdir(run.folder)) == 2
    )
    job.state, job.ends = NONE, True
    result, files = run()
    assert len(files) == 2 and not any(name.startswith(".") for name in files)


def test_no_file_is_overwritten(run, job, monkeypatch):
    monkeypatch.setattr(backup.time, "strftime", lambda *dummy: "T")
    theirs = run.folder / f"{UUID}-vdb-T.qcow2"
    theirs.write_text("theirs")
    result, files = run()
    assert (
        result["failed"]
        and "no file is overwritten" in result["msg"]
        and files == [theirs.name]
        and job.files == []
    )
    theirs.unlink()

    def begin(*arguments):
        job.begin(*arguments)
        theirs.write_text("theirs")

    monkeypatch.setattr(libvirt.virDomain, "backupBegin", begin)
    result, files = run()
    assert (
        result["failed"]
        and theirs.read_text() == "theirs"
        and not any(name.startswith(".") for name in files)
    )


@pytest.mark.parametrize("folder", ["/nowhere/at/all", "relative"])
def test_a_folder_that_is_not_there(run, job, folder):
    result, dummy = run(folder=folder)
    assert result["failed"] and "does not exist on" in result["msg"] and job.files == []


@pytest.fixture
def copied(run_module, fake_host, job, monkeypatch, tmp_path):
    """``copied(devices, next_start)`` -> the result for a running guest with these devices.

    ``next_start`` are more devices that only its definition has.
    """
    begun = []
    monkeypatch.setattr(
        libvirt.virDomain, "backupBegin", lambda instance, text, *more: begun.append(text)
    )
    monkeypatch.setattr(backup, "_rename", lambda part, path: None)

    def call(devices, next_start=None):
        uri, connection = fake_host(domain("web", 1, devices))
        if next_start is not None:
            connection.defineXML(domain("web", 1, devices + next_start))
        return run_module("_domain_backup", uri=uri, folder=str(tmp_path)), begun

    return call


@pytest.mark.parametrize("place", ["disk", "source", "an image behind it"])
def test_f1_an_encrypted_disk_has_no_copy_that_is_not(copied, tmp_path, place):
    encryption = (
        "<encryption format='luks'><secret type='passphrase'"
        " uuid='00000000-0000-4000-8000-00000000000a'/></encryption>"
    )
    text = disk(tmp_path / "a", more=encryption if place == "disk" else "")
    if place != "disk":
        behind = (
            "<backingStore type='file'><format type='qcow2'/><source"
            f" file='/v/b'>{encryption}</source></backingStore>"
        )
        text = text.replace(
            "/><target",
            f">{encryption}</source><target" if place == "source" else f"/>{behind}<target",
        )
    result, begun = copied(text)
    assert result["copies"] == [] and begun == []
    (omission,) = result["left_out"]
    assert (
        "its disk vda is encrypted, and a copy of it by libvirt would not be" in omission["reason"]
        and omission["reason"] in result["lines"][0]
    )


def test_f1_what_no_copy_has_is_named(copied, tmp_path):
    path = qemu_img(tmp_path / "a")
    subprocess.run(["qemu-img", "snapshot", "-c", "before the upgrade", path], check=True)
    result, begun = copied(disk(path))
    assert len(result["copies"]) == 1 and len(begun) == 1 and result["left_out"] == []
    assert any(
        "its disk vda has snapshots inside (before the upgrade), which no copy has" in line
        for line in result["lines"]
    )


def test_f3_a_disk_of_the_next_start_alone_is_named(copied, tmp_path):
    result, _begun = copied(disk(qemu_img(tmp_path / "a")), disk("/v/later", "vdb"))
    assert [each["target"] for each in result["copies"]] == ["vda"]
    assert any(
        "its disk vdb (/v/later), which it has from its next start on, is not copied" in line
        for line in result["lines"]
    )
