# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes by people and failures to disks in the middle of their moves, on real hypervisors: no
data are lost, and no pool with data is called empty."""

from __future__ import annotations

import json

import pytest
from test_devices import disks
from test_disk_move import OLD, move, nothing_left, start, web
from test_fleet import LOCAL, SHARED, eventually, said
from test_pool_drain import FAST, VARIABLES, drain, given, guest, intact, reserved
from test_sharing import discover, holdings

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

NEW, ALIAS = f"{FAST}/web-0.qcow2", "/srv/alias"
SLOWLY = {"drover_migration": {"bandwidth_mib": 1}, "drover_destination_pool": "default"}
LATE = 77


@pytest.fixture
def storage(fleet):
    """Return the fleet with a third pool on kvm1."""
    fleet.run(
        "kvm1",
        f"mkdir -p {FAST} && virsh pool-define-as fast dir --target {FAST} && virsh pool-start"
        " fast",
    )
    yield fleet
    fleet.run("kvm1", f"umount {ALIAS}; virsh pool-destroy fast; virsh pool-undefine fast; true")


def write(fleet, byte=LATE):
    """Write 1 MiB at 20 MiB as the guest."""
    order = f'qemu-io -d /machine/peripheral/virtio-disk0/virtio-backend "write -P {byte} 20M 1M"'
    assert "rror" not in fleet.run("kvm1", f"virsh qemu-monitor-command web --hmp '{order}'")


def written(fleet, path, byte=LATE):
    """Return True if a disk has the guest's last write."""
    shown = fleet.run("kvm1", f"qemu-io -r -U -f qcow2 -c 'read -P {byte} 20M 1M' {path}")
    return "read 1048576/" in shown and "verification failed" not in shown


def copying(fleet):
    return "job='copy'" in fleet.run("kvm1", "virsh dumpxml web")


# -- a pool that is drained ------------------------------------------------------------------------


def test_what_the_pool_has_is_needed_under_many_names(storage):
    """The path alone makes none of these a disk of the pool, and each keeps the pool from counting
    as empty."""
    fleet = storage
    fleet.run("kvm1", f"mkdir -p {ALIAS} && mount --bind {FAST} {ALIAS}")
    fleet.make("kvm1", guest("alias", folder=ALIAS, state="shutoff"), guest("runs", folder=ALIAS))
    create = "qemu-img create -q -f qcow2"
    backing = json.dumps(
        {"driver": "qcow2", "file": {"driver": "file", "filename": f"{FAST}/base.qcow2"}}
    )
    fleet.run(
        "kvm1",
        f"{create} {FAST}/base.qcow2 8M && {create} -F qcow2 -b 'json:{backing}'"
        f" {LOCAL}/behind-0.qcow2 && {create} -o data_file={FAST}/outside.data"
        f" {LOCAL}/outside-0.qcow2 8M",
    )
    for name in ("behind", "outside"):
        made = f"{create} {LOCAL}/{name}-0.qcow2 8M"
        script = guest(
            name, folder=LOCAL, state="shutoff", written_mb=0, boots=False, size="8M"
        ).script()
        fleet.run("kvm1", script.replace(made, "true"))
    discover(fleet, **VARIABLES)
    done = drain(fleet, check=False, drover_unmovable="skip")
    text = said(done)
    assert done.returncode and "is not empty" in text and "is empty of disks" not in text, text
    for name in ("alias-0.qcow2", "runs-0.qcow2", "base.qcow2", "outside.data"):
        assert f"{FAST}/{name}" in text and name in fleet.files(FAST), text


@pytest.mark.parametrize("attached", ["--live", "--live --config"])
def test_a_disk_that_comes_while_another_one_is_copied(storage, attached):
    """The disk keeps the pool from counting as empty, or moves in the next round."""
    fleet = storage
    fleet.make("kvm1", guest())
    discover(fleet, **VARIABLES)
    run = fleet.start("drain", *given(**SLOWLY))
    eventually(lambda: copying(fleet))
    late = f"{FAST}/late.qcow2"
    fleet.run(
        "kvm1",
        f"qemu-img create -q -f qcow2 {late} 8M && virsh attach-disk web {late} sda --targetbus usb"
        f" --subdriver qcow2 {attached}",
    )
    text = " ".join(run.finish().split())
    assert disks(fleet)[0]["vda"] == f"{LOCAL}/web-0.qcow2" and intact(fleet, LOCAL), text
    if disks(fleet)[0]["sda"] == late:
        assert (
            run.process.returncode
            and "is not empty" in text
            and late in text
            and "late.qcow2" in fleet.files(FAST)
        ), text
    else:
        assert (
            not run.process.returncode and "is empty of disks" in text and fleet.files(FAST) == []
        ), text


def test_its_guest_is_undefined_while_its_disk_is_copied(storage):
    """Only the file has the data: it stays, and the pool is not empty."""
    fleet = storage
    fleet.make("kvm1", guest())
    discover(fleet, **VARIABLES)
    run = fleet.start("drain", *given(**SLOWLY))
    eventually(lambda: copying(fleet))
    fleet.run("kvm1", "virsh destroy web && virsh undefine web")
    text = " ".join(run.finish().split())
    assert run.process.returncode and "is empty of disks" not in text and intact(fleet, FAST), text
    again = drain(fleet, check=False)
    assert again.returncode and "It is not proven that the storage pool fast" in said(again), said(
        again
    )
    assert fleet.files(FAST) == ["web-0.qcow2"] and reserved(fleet)[0] == reserved(fleet)[2]


def test_a_guest_that_is_off_is_renamed_while_its_disk_is_copied(storage):
    fleet = storage
    fleet.make("kvm1", guest(state="shutoff"))
    discover(fleet, **VARIABLES)
    run = fleet.start("drain", *given(**SLOWLY))
    eventually(lambda: any(".drover" in name for name in fleet.files(LOCAL)))
    fleet.run("kvm1", "virsh domrename web other")
    run.finish()
    (path,) = disks(fleet, name="other")[1].values()
    assert intact(fleet, path.rpartition("/")[0])


# -- a disk that is moved --------------------------------------------------------------------------


def test_the_copy_of_a_killed_run_is_switched_over_by_hand_and_then_the_guest_goes_off(storage):
    """The guest wrote last to the copy: the copy is the disk, and not a leftover of a killed
    run.
    """
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    start(fleet).kill()
    eventually(lambda: "ready='yes'" in fleet.run("kvm1", "virsh dumpxml web"))
    # The abandoned module on the host may be about to do the same.
    eventually(
        lambda: (
            not copying(fleet)
            or fleet.lab.host("kvm1").run("virsh blockjob web vda --pivot").rc == 0
        ),
    )
    write(fleet)
    fleet.run("kvm1", "virsh destroy web")
    move(fleet)
    assert disks(fleet) == (None, {"vda": NEW}) and written(fleet, NEW)
    nothing_left(fleet)


def test_a_guest_is_started_after_a_run_was_killed_that_copied_its_disk(storage):
    """Its later writes are on the disk that it has at the end."""
    fleet = storage
    fleet.make("kvm1", web(state="shutoff"))
    fleet.playbook("discover")
    words = {
        "drover_instance": "web",
        "drover_disk": "vda",
        "drover_pool": "fast",
        "drover_migration": {"bandwidth_mib": 1},
    }
    run = fleet.start("instance_disk_move", "-e", json.dumps(words))
    eventually(lambda: any(".drover" in name for name in fleet.files(FAST)))
    run.kill()
    eventually(lambda: fleet.lab.host("kvm1").run("virsh start web").rc == 0)
    write(fleet)
    fleet.run("kvm1", "virsh destroy web")
    move(fleet)
    assert disks(fleet) == (None, {"vda": NEW}) and written(fleet, NEW)
    nothing_left(fleet)


@pytest.mark.parametrize(
    "command", ["kill -9 $(cat /run/libvirt/qemu/web.pid)", "virsh blockjob web vda --abort"]
)
def test_the_copy_ends_in_the_middle(storage, command):
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    run = start(fleet)
    fleet.run("kvm1", command)
    text = run.finish()
    assert run.process.returncode and "before its disk vda was copied" in text, text
    assert disks(fleet)[1] == {"vda": OLD} and fleet.files(FAST) == [] and intact(fleet, SHARED)
    assert fleet.query("SELECT name FROM instances WHERE order_uuid IS NOT NULL") == []


def test_a_disk_that_is_taken_out_of_the_definition_while_it_is_copied(storage):
    """The guest is not switched, and the move ends. When the definition has the disk again, the
    move begins from the start."""
    fleet = storage
    fleet.make("kvm1", web())
    fleet.playbook("discover")
    run = start(fleet)
    fleet.run(
        "kvm1",
        "virsh dumpxml --inactive web | sed -n '/<disk/,/<.disk>/p' > /tmp/disk.xml; virsh"
        " detach-disk web vda --config",
    )
    text = run.finish()
    assert (
        run.process.returncode
        and "was detached from the definition while it was moved, so the move was given up" in text
    ), text
    assert disks(fleet) == ({"vda": OLD}, {}) and intact(fleet, SHARED) and fleet.files(FAST) == []
    fleet.run("kvm1", "virsh attach-device web /tmp/disk.xml --config")
    move(fleet)
    assert disks(fleet) == ({"vda": NEW},) * 2 and intact(fleet, FAST)
    nothing_left(fleet)


# -- two runs that drain one pool ------------------------------------------------------------------


def second(fleet):
    """Return a second controller with a separate store, which has discovered the hosts."""
    folder = fleet.folder / "second"
    folder.mkdir()
    other = type(fleet)(fleet.lab, folder, f"sqlite:///{folder / 'store.db'}")
    discover(other, **VARIABLES)
    return other


def sentences(*texts):
    for text in texts:
        assert "Traceback" not in text and "Unexpected" not in text, text


def one_copy(fleets, *texts, pid):
    """Check that each disk exists once, is whole and counts at its place, that the guest never went
    off, and that a message names other files."""
    fleet, names = fleets[0], ("web", "db")
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    sentences(*texts)
    running, defined = disks(fleet)
    assert running == defined
    paths = {"web": defined["vda"], "db": disks(fleet, name="db")[1]["vda"]}
    for name, path in paths.items():
        assert path.endswith(f"/{name}-0.qcow2") and intact(fleet, path.rpartition("/")[0], name), (
            path
        )
        assert "No errors" in fleet.run("kvm1", f"qemu-img check -U {path}")
    leftovers = set(
        fleet.run("kvm1", f"find {SHARED} {LOCAL} {FAST} -maxdepth 1 -type f").split()
    ) - set(paths.values())
    assert [path for path in leftovers if not any(path in text for text in texts)] == [], texts
    assert not copying(fleet) and "disk_move" not in fleet.run(
        "kvm1", "virsh dumpxml --inactive web; virsh dumpxml --inactive db"
    )
    provider_lists = []
    for one_fleet in fleets:
        discover(one_fleet, **VARIABLES)
        assert one_fleet.query("SELECT name FROM leases") == []
        assert (
            one_fleet.query(
                "SELECT name, task_state FROM instances WHERE order_uuid IS NOT NULL OR task_state"
                " IS NOT NULL"
            )
            == []
        )
        one_fleet.settled()
        provider_lists.append(
            {
                name: sorted(key for key in holdings(one_fleet)[name] if "pool" in key)
                for name in names
            }
        )
    assert all(each == provider_lists[0] for each in provider_lists), provider_lists
    for name, path in paths.items():
        provider = {FAST: "kvm1_pool_fast", LOCAL: "kvm1_pool_default", SHARED: "pool/shared"}[
            path.rpartition("/")[0]
        ]
        assert provider_lists[0][name] == [provider], provider_lists
    return paths


def begun(fleet, name):
    if name == "web":
        return copying(fleet)
    return any(".drover" in each for each in fleet.files(LOCAL))


@pytest.mark.parametrize(
    ("stores", "moment", "pool"),
    [
        (1, "together", "default"),
        (1, "web", "default"),
        (2, "together", "shared"),
        (2, "web", "default"),
        (2, "web", "shared"),
        (2, "db", "default"),
    ],
)
def test_two_runs_drain_one_pool(storage, stores, moment, pool):
    """Both runs start together, or the second one while the first copies a disk; the second may
    have another store, and another destination."""
    fleet = storage
    fleet.make("kvm1", guest(), guest("db", state="shutoff"))
    discover(fleet, **VARIABLES)
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    other = second(fleet) if stores == 2 else fleet
    fleets = [fleet, other][:stores]
    one = fleet.start("drain", *given(**SLOWLY))
    if moment != "together":
        eventually(lambda: begun(fleet, moment))
    two = other.start("drain", *given(**{**SLOWLY, "drover_destination_pool": pool}))
    texts = [one.finish(), two.finish()]
    codes = [one.process.returncode, two.process.returncode]
    assert 0 in codes, texts
    if stores == 1:
        (refused,) = [text for text, code in zip(texts, codes) if code]
        assert (
            "is being worked on by" in refused and "Nothing was done. Wait for its end" in refused
        ), refused
    elif pool == "shared" and any(codes):
        (refused,) = [text for text, code in zip(texts, codes) if code]
        assert (
            "is being moved to" in refused
            and "run the playbook for that disk and destination again" in refused
        ), refused
    one_copy(fleets, *texts, pid=pid)

    done = [drain(each) for each in fleets]
    assert all("is empty of disks" in said(each) for each in done) and fleet.files(FAST) == []
    found = one_copy(fleets, *texts, *map(said, done), pid=pid)
    assert not any(path.startswith(FAST) for path in found.values()), found


# -- a destination that gets full ------------------------------------------------------------------

SMALL = f"{LOCAL}/small"
WITH_SMALL = {**VARIABLES, "drover_storage_pools": [*VARIABLES["drover_storage_pools"], "small"]}


@pytest.fixture
def small(storage):
    """Return the fleet with a fourth pool, on a separate file system that is nearly full: 60 MiB
    are left."""
    fleet = storage
    fleet.run(
        "kvm1",
        f"mkdir -p {SMALL} && truncate -s 3200M /run/small && mkfs.ext4 -q -m 0 -O ^has_journal"
        f" /run/small && mount -o loop /run/small {SMALL} && rmdir {SMALL}/lost+found && left=$(df"
        f" --output=avail --block-size=1M {SMALL} | tail -1) && fallocate -l $((left - 60))M"
        f" {SMALL}/filler && virsh pool-define-as small dir --target {SMALL} && virsh pool-start"
        " small",
    )
    yield fleet
    destroy = "for each in $(virsh list --name); do virsh destroy $each; done"
    fleet.run(
        "kvm1",
        f"{destroy}; umount {SMALL}; virsh pool-destroy small; virsh pool-undefine small; rm -f"
        " /run/small; true",
    )


def fill(fleet):
    fleet.run("kvm1", f"cat /dev/zero > {SMALL}/other; true")


def small_given(**more):
    return given(**{**WITH_SMALL, "drover_destination_pool": "small", **more})


@pytest.mark.parametrize("state", ["running", "shutoff"])
@pytest.mark.parametrize("killed", [False, True])
def test_the_pool_that_disks_go_to_gets_full(small, state, killed):
    fleet = small
    fleet.make("kvm1", guest(written_mb=40, state=state))
    discover(fleet, **WITH_SMALL)
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid; true")
    run = fleet.start("drain", *small_given(drover_migration={"bandwidth_mib": 2}))
    if state == "running":
        eventually(lambda: copying(fleet))
    else:
        eventually(lambda: any(".drover" in name for name in fleet.files(SMALL)))
    if killed:
        run.kill()
    fill(fleet)
    if killed:
        done = fleet.playbook("drain", *small_given(), check=False)
        code, text = done.returncode, said(done)
        assert "make room there" in text, text
    else:
        text = run.finish()
        code = run.process.returncode
        assert "is not empty" in text and "torage" in text, text
    assert code and "is empty of disks" not in text, text
    sentences(text)
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid; true") == pid
    old = {"vda": f"{FAST}/web-0.qcow2"}
    assert disks(fleet) == ((old if state == "running" else None), old) and intact(fleet, FAST)
    assert sorted(fleet.files(SMALL)) == ["filler", "other"]
    assert not copying(fleet) and "disk_move" not in fleet.run(
        "kvm1", "virsh dumpxml --inactive web"
    )
    assert fleet.query("SELECT name FROM leases") == []
    assert (
        fleet.query(
            "SELECT name FROM instances WHERE order_uuid IS NOT NULL OR task_state IS NOT NULL"
        )
        == []
    )
    before = holdings(fleet)
    assert sorted(key for key in before["web"] if "pool" in key) == ["kvm1_pool_fast"], before
    discover(fleet, **WITH_SMALL)
    assert holdings(fleet) == before
    fleet.settled()
    fleet.run("kvm1", f"rm {SMALL}/other")
    done = fleet.playbook("drain", *small_given())
    assert "is empty of disks" in said(done) and intact(fleet, SMALL) and fleet.files(FAST) == []
    assert sorted(key for key in holdings(fleet)["web"] if "pool" in key) == ["kvm1_pool_small"]


def test_two_disks_of_which_one_has_room(small):
    """Each disk fits alone: one cannot move, so nothing is changed. With skip, the other one
    moves.
    """
    fleet = small
    fleet.make("kvm1", guest(written_mb=40), guest("db", written_mb=40, state="shutoff"))
    discover(fleet, **WITH_SMALL)
    pid = fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid")
    done = fleet.playbook("drain", *small_given(), check=False)
    assert (
        done.returncode
        and "nothing was changed" in said(done)
        and "MiB are free on the storage" in said(done)
    ), said(done)
    assert fleet.files(SMALL) == ["filler"]
    done = fleet.playbook("drain", *small_given(drover_unmovable="skip"), check=False)
    text = said(done)
    sentences(text)
    assert done.returncode and "is not empty" in text and "make room there" in text, text
    assert fleet.run("kvm1", "cat /run/libvirt/qemu/web.pid") == pid
    paths = {name: disks(fleet, name=name)[1]["vda"] for name in ("web", "db")}
    assert all(intact(fleet, path.rpartition("/")[0], name) for name, path in paths.items())
    assert disks(fleet)[0] == disks(fleet)[1]
    assert sorted(
        f"{f}/{n}" for f in (FAST, SMALL) for n in fleet.files(f) if n != "filler"
    ) == sorted(paths.values()), paths
    discover(fleet, **WITH_SMALL)
    fleet.settled()
    providers_by_name = {
        name: [key for key in found if "pool" in key] for name, found in holdings(fleet).items()
    }
    assert providers_by_name == {
        name: ["kvm1_pool_fast" if path.startswith(FAST) else "kvm1_pool_small"]
        for name, path in paths.items()
    }
    assert {path.rpartition("/")[0] for path in paths.values()} == {FAST, SMALL}
