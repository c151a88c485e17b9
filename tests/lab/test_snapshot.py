# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Snapshots of real guests: their writes before and after, merges while they run and while they are
off, and a revert that drops writes."""

from __future__ import annotations

import json
import re

import pytest
from test_fleet import LOCAL, SHARED, said
from test_storage_safety import act, cdrom, checked, define, disk, images

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

PIECE = 64 << 10


def snapshot(fleet, state, name="one", *words, instance="web", **variables):
    extra_vars = {
        "drover_instance": instance,
        "drover_snapshot_state": state,
        "drover_snapshot_name": name,
    }
    extra_vars.update({f"drover_snapshot_{key}": value for key, value in variables.items()})
    return fleet.playbook("instance_snapshot", "-e", json.dumps(extra_vars), *words)


def refused(fleet, state, name="one", instance="web", **variables):
    extra_vars = {
        "drover_instance": instance,
        "drover_snapshot_state": state,
        "drover_snapshot_name": name,
        **variables,
    }
    return " ".join(fleet.refused("instance_snapshot", "-e", json.dumps(extra_vars)).split())


def write(fleet, byte, piece, name="web", target="vda", host="kvm1"):
    """Let the QEMU of a running guest write to its disk and flush it, as the guest does."""
    device = f"/machine/peripheral/virtio-disk{ord(target[-1]) - ord('a')}/virtio-backend"
    for order in (f"write -P {byte} {piece * PIECE} {PIECE}", "flush"):
        # The message is in QEMU's own output.
        assert "rror" not in fleet.run(
            host, f"virsh qemu-monitor-command {name} --hmp 'qemu-io -d {device} \"{order}\"'"
        )


def active(fleet, name="web", target="vda", host="kvm1", where="--inactive"):
    sources = re.findall(
        rf"^ *file +disk +{target} +(\S+)$",
        fleet.run(host, f"virsh domblklist {name} --details {where}"),
        re.MULTILINE,
    )
    return sources[0]


def has(fleet, path, host="kvm1", kind="qcow2", **pieces):
    """Return True if a disk, with its backing files, has these bytes: p0=1, p1=2, ..."""
    for piece, byte in pieces.items():
        text = fleet.run(
            host,
            f"qemu-io -U -r -f {kind} -c 'read -P {byte} {int(piece[1:]) * PIECE} {PIECE}' {path}",
        )
        if "read 65536/65536" not in text or "verification failed" in text:
            return False
    return True


def shown(fleet, name="web", host="kvm1"):
    return fleet.run(host, f"virsh snapshot-list {name} --name").split()


@pytest.fixture
def web(fleet):
    """Make a running guest with two disks, one of them raw, and a drive."""
    base, data = f"{SHARED}/web.qcow2", f"{SHARED}/web-data.raw"
    images(
        fleet,
        "kvm1",
        f"qemu-img create -q -f qcow2 {base} 8M",
        f"qemu-img create -q -f raw {data} 8M",
        f"echo medium > {SHARED}/medium.iso",
    )
    define(
        fleet,
        "kvm1",
        "web",
        disk(base) + disk(data, "vdb", "raw") + cdrom(f"{SHARED}/medium.iso"),
        start=True,
    )
    fleet.playbook("discover")
    return base, data


def test_made_and_merged_while_the_guest_writes(fleet, web):
    base, data = web
    write(fleet, 1, 0)
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    before = fleet.dump()
    text = said(snapshot(fleet, "present", "one", "--check", "--diff"))
    assert (
        "+snapshot one (external)" in text
        and "would be made" in text
        and fleet.dump() == before
        and shown(fleet) == []
    )
    text = said(snapshot(fleet, "present", "one", description="before the upgrade"))
    assert (
        "the snapshot one was made" in text
        and "crash-consistent, as after a loss of power: the guest has no agent" in text
    )
    assert "changed=0" in said(snapshot(fleet, "present", "one")) and shown(fleet) == ["one"]
    write(fleet, 2, 1)
    write(fleet, 7, 0, target="vdb")
    snapshot(fleet, "present", "two")
    write(fleet, 3, 2)
    text = said(fleet.playbook("instance_snapshot", "-e", "drover_instance=web"))
    assert re.search(
        r"web +one +external +\S+ \S+ UTC +- +no +before the upgrade", text
    ) and re.search(r"web +two +external .* one +yes", text)
    # The content at each of the snapshots.
    assert has(fleet, base, p0=1, p1=0, p2=0) and has(fleet, data, kind="raw", p0=0)
    top = active(fleet)
    assert (
        active(fleet, where="") == top
        and has(fleet, top, p0=1, p1=2, p2=3)
        and len(fleet.files(SHARED)) == 7
    )

    # The older one first; its image is not the one that the guest writes to.
    text = said(snapshot(fleet, "absent", "one"))
    assert shown(fleet) == ["two"] and active(fleet) == top and len(fleet.files(SHARED)) == 5, text
    assert (
        has(fleet, base, p0=1, p1=2, p2=0)
        and has(fleet, data, kind="raw", p0=7)
        and has(fleet, top, p0=1, p1=2, p2=3)
    )
    write(fleet, 4, 3)
    snapshot(fleet, "absent", "two")
    assert (
        shown(fleet) == []
        and active(fleet) == active(fleet, where="") == base
        and active(fleet, target="vdb") == data
    )
    write(fleet, 5, 4)
    assert has(fleet, base, p0=1, p1=2, p2=3, p3=4, p4=5) and sorted(fleet.files(SHARED)) == [
        "medium.iso",
        "web-data.raw",
        "web.qcow2",
    ]
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    assert "changed=0" in said(snapshot(fleet, "absent", "two"))
    assert fleet.query("SELECT task_state, order_uuid FROM instances") == [(None, None)]
    recorded = fleet.dump()
    fleet.playbook("discover")
    assert [len(each) for each in fleet.dump()] == [len(each) for each in recorded]


def test_reverted_and_merged_while_it_is_off(fleet, web):
    base, data = web
    write(fleet, 1, 0)
    snapshot(fleet, "present")
    write(fleet, 2, 0)
    write(fleet, 9, 0, target="vdb")
    text = refused(fleet, "reverted")
    assert (
        "web on kvm1 is running, and its disks can be changed only while it is off" in text
        and "drover.compute.instance_stop" in text
    )
    act(fleet, "stop", "web")
    old = active(fleet)
    before = fleet.run("kvm1", "virsh dumpxml --inactive web")
    text = said(snapshot(fleet, "reverted", "one", "--check"))
    assert (
        "would be as of the snapshot one" in text
        and fleet.run("kvm1", "virsh dumpxml --inactive web") == before
    )
    text = said(snapshot(fleet, "reverted"))
    assert f"Kept {old}: the guest wrote to it until the revert" in text and active(fleet) != old
    assert (
        has(fleet, active(fleet), p0=1)
        and has(fleet, old, p0=2)
        and has(fleet, active(fleet, target="vdb"), p0=0)
    )
    assert "changed=0" in said(snapshot(fleet, "reverted")), "nothing was written since"
    act(fleet, "start", "web")
    write(fleet, 6, 1)
    assert has(fleet, active(fleet), p0=1, p1=6)
    # The kept image is backed by the image that a merge would change.
    text = refused(fleet, "absent")
    assert f"would change {base}: the image {old} is backed by it" in text and shown(fleet) == [
        "one"
    ]
    fleet.run(
        "kvm1",
        f"rm $(ls {SHARED}/*-one-*.qcow2 | grep -v -e {active(fleet)} -e"
        f" {active(fleet, target='vdb')})",
    )
    act(fleet, "stop", "web")
    snapshot(fleet, "present", "two")
    fleet.run("kvm1", "virsh start web")
    write(fleet, 8, 2)
    act(fleet, "stop", "web")
    assert "two was made after it" in refused(fleet, "reverted")
    snapshot(fleet, "reverted", "two", discard=True)
    assert has(fleet, active(fleet), p0=1, p1=6, p2=0)
    # The guest is off; the older one first.
    snapshot(fleet, "absent", "one")
    assert (
        shown(fleet) == ["two"]
        and has(fleet, base, p0=1, p1=6)
        and has(fleet, active(fleet), p0=1, p1=6, p2=0)
    )
    snapshot(fleet, "absent", "two")
    assert active(fleet) == base and active(fleet, target="vdb") == data and shown(fleet) == []
    assert sorted(fleet.files(SHARED)) == ["medium.iso", "web-data.raw", "web.qcow2"]
    fleet.run("kvm1", "virsh start web && virsh destroy web")


def test_deleted_with_its_snapshots(fleet, web):
    """The images that it writes to are removed; their backing files stay, and are named."""
    for name in ("one", "two"):
        snapshot(fleet, "present", name)
    newest = {active(fleet), active(fleet, target="vdb")}
    others = {f"{SHARED}/{name}" for name in fleet.files(SHARED)} - newest
    assert len(newest) == 2 and len(others) == 5
    done = fleet.delete("web")
    assert fleet.where() == {} and {f"{SHARED}/{name}" for name in fleet.files(SHARED)} == others, (
        said(done)
    )
    assert [path for path in others if path not in said(done)] == [], said(done)


def test_internal_ones_and_moves(fleet):
    """Snapshots inside the image are listed, reverted to and deleted; a guest with a snapshot does
    not move, and the way out is named."""
    path = f"{SHARED}/old.qcow2"
    images(
        fleet,
        "kvm1",
        f"qemu-img create -q -f qcow2 {path} 8M",
        f"qemu-io -f qcow2 -c 'write -q -P 1 0 64k' {path}",
    )
    define(fleet, "kvm1", "old", disk(path))
    fleet.run(
        "kvm1",
        f"virsh snapshot-create-as old inside && qemu-io -f qcow2 -c 'write -q -P 2 0 64k' {path}",
    )
    fleet.playbook("discover")
    text = checked(fleet, "old")
    assert (
        "it has the snapshot inside" in text
        and "drover.compute.instance_snapshot" in text
        and "drover_snapshot_state=absent" in text
    )
    text = fleet.refused("drain", "-e", "drover_host=kvm1")
    assert (
        "old: it has snapshots" in text
        and "drover.compute.instance_snapshot -e drover_instance=old" in text
    )
    assert re.search(
        r"old +inside +internal",
        said(fleet.playbook("instance_snapshot", "-e", "drover_instance=old")),
    )
    snapshot(fleet, "reverted", "inside", instance="old")
    assert has(fleet, path, p0=1)
    snapshot(fleet, "absent", "inside", instance="old")
    assert shown(fleet, "old") == [] and "inside" not in fleet.run(
        "kvm1", f"qemu-img snapshot -l {path}"
    )
    fleet.playbook(
        "instance_migrate",
        "-e",
        json.dumps({"drover_instances": ["old"], "drover_destination": "kvm2"}),
    )
    assert fleet.where() == {"old": ("kvm2", "shutoff")}


def test_killed_and_gone_on_with(fleet, web):
    """The merge of an earlier run continues; the file of a merge that was killed after it is named;
    a clone delays the merge."""
    base, data = web
    write(fleet, 1, 0)
    snapshot(fleet, "present")
    write(fleet, 2, 1)
    clone = f"{LOCAL}/clone.qcow2"
    images(fleet, "kvm1", f"qemu-img create -q -f qcow2 -F qcow2 -b {base} {clone}")
    define(fleet, "kvm1", "clone", disk(clone))
    text = refused(fleet, "absent")
    assert f"would change {base}: the domain clone" in text
    fleet.run("kvm1", f"virsh undefine clone && rm {clone}")
    overlays = active(fleet), active(fleet, target="vdb")
    # The state after a run that was killed between the merges of its two disks.
    fleet.run(
        "kvm1",
        "virsh blockcommit web vda --shallow --active --pivot --wait && virsh blockcommit web vdb"
        " --shallow --active --wait",
    )
    assert "deleted in part" in refused_off(fleet)
    text = said(snapshot(fleet, "absent"))
    assert (
        f"Removed {overlays[1]}" in text
        and f"Kept {overlays[0]}: no disk has it any more" in text
        and shown(fleet) == []
    )
    assert (
        active(fleet) == base
        and active(fleet, target="vdb") == data
        and has(fleet, base, p0=1, p1=2)
    )


def refused_off(fleet):
    """The reason why a half deleted snapshot is not reverted to; the test calls the module itself,
    because the guest runs."""
    text = refused(fleet, "reverted")
    return text if "is running" not in text else "deleted in part"
