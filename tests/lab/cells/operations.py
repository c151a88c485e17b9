# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the real part of the fault matrix: their initial fleet, their action, and the
fleet at the end.

An operation that is added to OPERATIONS has all the cells of the possible faults.
"""

from __future__ import annotations

import dataclasses
import json
import typing
import uuid

from cells import storages
from test_drain_plan import policy
from test_evacuate import AT_ONCE, OFF, SHARED_POOL, extra
from test_fleet import DOMAIN, IMAGE, LOCAL, PLAYBOOKS, SHARED, Domain
from test_lifecycle import FLAVORS
from test_sharing import holdings
from test_storage_fence import CUT_OFF, Inside, administrator

#: The files of guests besides their disks: the backing image that other guests use too, and a
#: medium.
BASE, ISO = f"{SHARED}/base.qcow2", f"{SHARED}/tools.iso"
#: A disk that comes and goes.
DATA = f"{SHARED}/data.qcow2"
NEEDED = (
    f"cp {IMAGE} {BASE} && truncate -s 1M {ISO} && printf 'what guests read' | dd of={ISO}"
    " conv=notrunc status=none"
)
CDROM = (
    "<disk type='file' device='cdrom'><driver name='qemu' type='raw'/><source"
    " file='{path}'/><target dev='sda' bus='sata'/><readonly/></disk>"
)
NEW = "qemu-img create -q -f qcow2 {path} {size}"
OVER = "qemu-img create -q -f qcow2 -F qcow2 -b {base} {path}"


@dataclasses.dataclass
class Guest(Domain):
    """A guest that obeys the power button; other guests share the backing image of its disk, and it
    has a medium."""

    boots: bool = True
    based: bool = True

    def __post_init__(self) -> None:
        # The uuid is the same in each cell, and in the prepared store.
        self.uuid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.matrix.invalid"))

    def script(self) -> str:
        script = super().script().replace("</devices>", f"{CDROM.format(path=ISO)}</devices>")
        if self.based:
            (path,) = self.paths
            script = script.replace(
                NEW.format(path=path, size=self.size), OVER.format(base=BASE, path=path)
            )
        return script


@dataclasses.dataclass
class WithData(Guest):
    """The same with a second disk, which QEMU removes without the guest's help."""

    def script(self) -> str:
        data = (
            "<disk type='file' device='disk'><driver name='qemu' type='qcow2'"
            f" cache='none'/><source file='{DATA}'/><target dev='sdb' bus='usb'/></disk>"
        )
        return f"{NEW.format(path=DATA, size='1G')}\n" + super().script().replace(
            "</devices>", f"{data}</devices>"
        )


@dataclasses.dataclass
class OnVolumes(Guest):
    """The same with its disk on a new volume; on shared storage, also with another volume that
    existed before."""

    storage: type[storages.Files] = storages.Files

    @property
    def own(self) -> str:
        return f"{self.uuid}-vda"

    @property
    def given(self) -> str | None:
        """Return the name of the second volume; the name proves nothing."""
        return f"{self.uuid}-vdb" if self.storage.shared else None

    def script(self) -> str:
        disks = self.storage.disk(self.own, "vda")
        if self.given:
            alias = "<alias name='ua-drover-attached-source-vdb'/></disk>"
            disks += self.storage.disk(self.given, "vdb").replace("</disk>", alias)
        disks += CDROM.format(path=ISO)
        xml = DOMAIN.format(
            disks=disks,
            **{
                field: getattr(self, field)
                for field in ("name", "uuid", "memory_mb", "vcpus", "metadata")
            },
        )
        start = "" if self.state == "shutoff" else f"\nvirsh start {self.name}"
        return f"set -e\nvirsh define /dev/stdin <<'END'\n{xml}\nEND{start}"


@dataclasses.dataclass
class OnVolumesWithData(WithData, OnVolumes):
    """The same with a second disk that is a file."""


class WithFolder(Guest):
    """The same, on a host with a folder for the move of its disk."""

    def script(self) -> str:
        return f"mkdir -p {LOCAL}/fast\n{super().script()}"


def beside() -> Guest:
    """Return a second instance that is off."""
    return Guest("beside", state="shutoff")


class Operation:
    """One operation.

    kind: group of similar operations. what: the playbook. variables: variables of the playbook.
    task: its work on a hypervisor, on the host ``at`` (see stops.Stop). destination: host of the
    instance web after a move or a build; None if it stays on its host.
    """

    kind = what = ""
    variables: dict[str, typing.Any] = {}
    task = ""
    at = "kvm1"
    destination: str | None = None
    #: The state of web at the end, None if it is removed; its host, None for any.
    state: str | None = "running"
    host: str | None = "kvm1"
    #: The place of new files, with a folder that may be full: (host, folder).
    fills: tuple[str, str] | None = None
    #: True if kvm1 is off from the beginning.
    dead = False
    #: True if it has the cells that take minutes, and a kill at each moment.
    thorough = False
    #: A shell test on ``at`` for the middle of the work; empty for a fixed time after its start.
    midst = ""
    #: More moments of a kill.
    moments: tuple[str, ...] = ()
    #: The storage of the disks.
    storage: type[storages.Files] = storages.Files
    #: The only faults of its cells; None for all possible faults.
    faults: tuple[str, ...] | None = None
    #: New files, for disks of guests on volumes.
    new_files: frozenset[str] = frozenset()

    def web(self) -> list[Guest]:
        return [Guest("web")]

    def guests(self) -> list[Guest]:
        """Return the guests on kvm1 at the beginning."""
        return [*self.web(), beside()]

    def settings(self, fleet) -> None:
        """Make the settings of each store that a person makes after a discovery."""

    def prepare(self, fleet) -> None:
        """Do the earlier operations, once."""

    def begin(self, world) -> None:
        """Make the changes right before the operation."""
        if self.dead:
            world.power_off("kvm1")
            world.storage.forget()

    def intrude(self, world, running: set[str]) -> None:
        """Do something that must not harm the guests on hosts that the controller reaches."""

    def back(self, world) -> None:
        """Check the dead host after its return and discovery."""

    def check(self, fleet) -> None:
        """Check the end, beyond the host of web."""

    def words(self) -> list[str]:
        return [
            "-e",
            json.dumps(
                {
                    "drover_instance_timeout": 30,
                    **SHARED_POOL,
                    **self.storage.variables,
                    **self.variables,
                }
            ),
        ]


class Place(Operation):
    kind = "build"
    what, task, at, destination = "place", "Build the instance on its hypervisor", "kvm3", "kvm3"
    variables = {
        "drover_instance_definitions": [
            {"name": "web", "memory_mb": 64, "disks": [{"size_gb": 1, "image": IMAGE}]}
        ]
    }
    host, fills, thorough = None, ("kvm3", SHARED), True

    def web(self):
        return []


class _Power(Operation):
    kind = "power"
    variables = {"drover_instance": "web"}


class Start(_Power):
    what, task = "instance_start", "domain_power running at kvm1"

    def web(self):
        return [Guest("web", state="shutoff")]


class Stop(_Power):
    what, task, state = "instance_stop", "domain_power stopped at kvm1", "shutoff"


class Delete(_Power):
    what, task, state = "instance_delete", "domain absent at kvm1", None


class AttachDisk(Operation):
    """The disk is on the bus usb, because the guests of the lab have no operating system that
    releases another disk."""

    kind = "device"
    what, task, attached = "instance_disk.yml", "_domain_device present at kvm1", 1
    #: The number of its other disks that are files.
    files = 1
    device = {"name": "web", "path": DATA, "bus": "usb", "size": "1GiB", "state": "present"}

    def words(self):
        return ["-e", json.dumps({"device": self.device})]

    def check(self, fleet):
        """Check that the running domain and its definition have the same disks, and that the store
        counts them."""
        for words in ("", "--inactive"):
            shown = fleet.run("kvm1", f"virsh domblklist --details {words} web")
            assert (
                len([line for line in shown.splitlines() if line.split()[:2] == ["file", "disk"]])
                == self.files + self.attached
            ), shown
        by_provider = holdings(fleet)["web"]
        assert (
            sum(amounts.get("DISK_GB", 0) for amounts in by_provider.values())
            == self.files + self.attached
        ), by_provider
        assert DATA.rpartition("/")[2] in fleet.files(SHARED)


class DetachDisk(AttachDisk):
    task, attached = "_domain_device absent at kvm1", 0
    device = {"name": "web", "path": DATA, "state": "absent"}

    def web(self):
        return [WithData("web")]


class Grow(Operation):
    """The disk of a running guest grows."""

    kind = "growth"
    what, task = "instance_disk", "_domain_device present at kvm1"
    variables = {
        "drover_instance": "web",
        "drover_disk": "vda",
        "drover_disk_gb": 2,
        "drover_disk_state": "resized",
    }

    def check(self, fleet):
        """QEMU shows the guest the new size."""
        shown = fleet.run("kvm1", "virsh domblkinfo web vda")
        assert f"{2 * storages.GIB}" in next(
            line for line in shown.splitlines() if line.startswith("Capacity")
        ), shown


class MoveDisk(Operation):
    """The disk moves to another folder of its host."""

    kind = "disk"
    what, task = "instance_disk_move", "_domain_disk_move at kvm1"
    old, new = f"{LOCAL}/web-0.qcow2", f"{LOCAL}/fast/web-0.qcow2"
    variables = {
        "drover_instance": "web",
        "drover_disk": "vda",
        "drover_pool": f"{LOCAL}/fast",
        "drover_migration": {"bandwidth_mib": 4},
    }
    fills, thorough = ("kvm1", f"{LOCAL}/fast"), True

    def web(self):
        return [WithFolder("web", folder=LOCAL, size="40M", written_mb=8, based=False)]

    def check(self, fleet):
        """Check that it runs with the new file and has it in its definition, and that nothing is
        left of the old file or of the move."""
        for words in ("", "--inactive"):
            shown = fleet.run("kvm1", f"virsh dumpxml {words} web")
            assert self.new in shown and self.old not in shown and "disk_move" not in shown, shown
        assert fleet.files(f"{LOCAL}/fast") == ["web-0.qcow2"] and "web-0.qcow2" not in fleet.files(
            LOCAL
        )


class MoveDiskCold(MoveDisk):
    """The same for an instance that is off."""

    state, thorough = "shutoff", False

    def web(self):
        return [
            WithFolder("web", state="shutoff", folder=LOCAL, size="40M", written_mb=8, based=False)
        ]


class DrainPool(Operation):
    """The disk of web moves from its pool to another pool of its host, and the pool is proven
    empty."""

    kind = "pool"
    what, task, destination = "drain", "_domain_disk_move at kvm1", "kvm1"
    storage = storages.Folders
    midst = f"ls {LOCAL}/.drover-* > /dev/null 2>&1"
    old, new = f"{storages.Folders.folder}/web-0.qcow2", f"{LOCAL}/web-0.qcow2"
    variables = {
        "drover_pool": storage.pool,
        "drover_destination_pool": "default",
        "drover_migration": {"bandwidth_mib": 4},
    }

    def web(self):
        return [Guest("web", folder=self.storage.folder, size="40M", written_mb=8, based=False)]

    def check(self, fleet):
        """Check that it is defined with the new file, that nothing is left of the old one, and that
        no new disk gets space in the pool."""
        shown = fleet.run("kvm1", "virsh dumpxml --inactive web")
        assert self.new in shown and self.old not in shown, shown
        assert fleet.files(self.storage.folder) == [] and "web-0.qcow2" in fleet.files(LOCAL)
        query = (
            "SELECT i.reserved, i.total FROM inventories i JOIN resource_providers p ON p.id ="
            " i.provider_id WHERE p.name = 'kvm1_pool_fast'"
        )
        ((reserved, total),) = fleet.query(query)
        assert reserved == total > 0


class DrainPoolCold(DrainPool):
    """The same for an instance that is off."""

    state = "shutoff"

    def web(self):
        return [
            Guest(
                "web",
                state="shutoff",
                folder=self.storage.folder,
                size="40M",
                written_mb=8,
                based=False,
            )
        ]


@dataclasses.dataclass
class WithSnapshot(Guest):
    """The same with a snapshot of its disk."""

    def script(self) -> str:
        path = f"{SHARED}/{self.uuid}-one.qcow2"
        lines = [
            super().script(),
            (
                f"virsh snapshot-create-as {self.name} one --disk-only --diskspec vda,file={path}"
                " --diskspec sda,snapshot=no"
            ),
        ]
        if self.state == "shutoff":
            # The later writes of the guest.
            lines.append(f"qemu-io -f qcow2 -c 'write -q -P 9 512k 64k' {path}")
        return "\n".join(lines)


class Snapshot(Operation):
    """A snapshot of a running guest."""

    kind = "snapshot"
    what, task, wanted = "instance_snapshot", "_domain_snapshot present at kvm1", "present"
    snapshots, layers = ["one"], 2

    def words(self):
        variables = {
            "drover_instance": "web",
            "drover_snapshot_state": self.wanted,
            "drover_snapshot_name": "one",
            **SHARED_POOL,
        }
        return ["-e", json.dumps(variables)]

    def check(self, fleet):
        """Check that the running domain and its definition have the same image, with the right
        number of layers above the shared image."""
        assert fleet.run("kvm1", "virsh snapshot-list web --name").split() == self.snapshots
        shown = [
            fleet.run("kvm1", f"virsh domblklist --details {words} web")
            for words in ("", "--inactive")
        ]
        assert shown[0] == shown[1]
        (path,) = [
            line.split()[3] for line in shown[0].splitlines() if line.split()[1:2] == ["disk"]
        ]
        chain = json.loads(
            fleet.run("kvm1", f"qemu-img info -U --backing-chain --output=json {path}")
        )
        assert [each["filename"] for each in chain][self.layers :] == [BASE], chain
        assert path in {found for (found,) in fleet.query("SELECT path FROM domain_files")}


class DeleteSnapshot(Snapshot):
    """The snapshot is merged while the guest runs."""

    task, wanted = "_domain_snapshot absent at kvm1", "absent"
    snapshots, layers = [], 1

    def web(self):
        return [WithSnapshot("web")]


class RevertSnapshot(Snapshot):
    task, wanted, state = "_domain_snapshot reverted at kvm1", "reverted", "shutoff"

    def web(self):
        return [WithSnapshot("web", state="shutoff")]


class ResizeAndConfirm(Operation):
    """A resize to another host."""

    kind = "resize"
    what, task, destination, host = "instance_resize", "domain stopped at kvm1", "kvm2", "kvm2"
    variables = {
        "drover_instance": "web",
        "drover_flavor": "big",
        "drover_destination": "kvm2",
        "drover_resize": "confirm",
    }

    def settings(self, fleet):
        for flavor in FLAVORS:
            fleet.playbook("flavor.yml", "-e", json.dumps({"flavor": flavor}))


class ResizeAndRevert(ResizeAndConfirm):
    """A resize there and back; the fault happens after the move there, before the move back."""

    task, at, host, destination = "domain stopped at kvm2", "kvm2", "kvm1", "kvm1"
    variables = {**ResizeAndConfirm.variables, "drover_resize": "revert"}


class LiveMove(Operation):
    kind = "move"
    what, task, destination, host, thorough = (
        "instance_migrate",
        "_domain_migration at kvm1",
        "kvm2",
        "kvm2",
        True,
    )
    variables = {"drover_instance": "web", "drover_destination": "kvm2"}


class ColdMove(LiveMove):
    state, thorough = "shutoff", False

    def web(self):
        return [Guest("web", state="shutoff")]


class MoveWithSnapshot(LiveMove):
    """The guest moves with libvirt's record of a snapshot."""

    thorough = False
    variables = {**LiveMove.variables, **SHARED_POOL}

    def web(self):
        return [WithSnapshot("web")]

    def check(self, fleet):
        assert fleet.run("kvm2", "virsh snapshot-list web --name").split() == ["one"]
        assert "drover-snapshots" not in fleet.run(
            "kvm2", "virsh dumpxml web && virsh dumpxml --inactive web"
        )


class CopiedMove(LiveMove):
    """Its disk is on local storage of the host."""

    variables = {**LiveMove.variables, "drover_migration": {"bandwidth_mib": 20}}
    fills, thorough = ("kvm2", LOCAL), False

    def web(self):
        return [Guest("web", folder=LOCAL, size="40M", written_mb=8, based=False)]


class _OfHost(Operation):
    """Its instances go to kvm2, because kvm3 takes none."""

    kind = "host"
    destination, host = "kvm2", "kvm2"
    variables: dict[str, typing.Any] = {"drover_host": "kvm1"}

    def settings(self, fleet):
        fleet.playbook(
            "host_state.yml",
            "-e",
            json.dumps({"service_host": "kvm3", "state": "disabled", "reason": "for others"}),
        )


class Drain(_OfHost):
    what, task = "drain", "_domain_migration at kvm1"


class DrainAfterCopies(Drain):
    """A drain with a copy of the disks before any change; the fault happens during the copy."""

    kind = "copies"
    task, thorough = "Copy the disks of the running guests", True
    folder = f"{SHARED}/copies"
    midst = f"ls {folder}/.drover-backup-* > /dev/null 2>&1"
    variables = {
        **Drain.variables,
        "drover_before_drain": str(PLAYBOOKS / "tasks/before_drain.yml"),
        "drover_backup_folder": folder,
    }

    def web(self):
        return [Guest("web", size="256M", written_mb=128, based=False)]

    def prepare(self, fleet):
        fleet.run("kvm1", f"mkdir -p {self.folder}")

    def begin(self, world):
        self.prepare(world.fleet)

    def copies(self, fleet) -> list[str]:
        """Return the files that look like copies."""
        return [
            f"{self.folder}/{each}"
            for each in fleet.files(self.folder, "kvm3")
            if not each.startswith(".")
        ]

    def intrude(self, world, running):
        """Check that every file that looks like a copy is one."""
        for copy in self.copies(world.fleet):
            assert "identical" in world.fleet.run(
                "kvm3", f"qemu-img compare -U {self.web()[0].paths[0]} {copy}"
            ), copy

    def check(self, fleet):
        """Check that there is a whole copy, and that nothing is left of others."""
        assert self.copies(fleet)
        assert len(fleet.files(self.folder, "kvm3")) == len(self.copies(fleet))


class Evacuate(_OfHost):
    kind = "restart"
    what, task, at, dead = "evacuate", "Restart the instances of the host elsewhere", "kvm2", True
    variables = {**_OfHost.variables, **AT_ONCE, **OFF}

    def prepare(self, fleet):
        fleet.lab.command("kill", "kvm1")
        fleet.playbook(
            "discover", *extra(**self.storage.variables), "--limit", "kvm1,localhost", check=False
        )


class Rolling(_OfHost):
    """A rolling maintenance of kvm1, with its instances back on it at the end."""

    what, task, host = "rolling_maintenance", "_domain_migration at kvm1", "kvm1"
    variables = {"drover_rolling_reboot": "never", "drover_rolling_bring_back": True}

    def words(self):
        return [*super().words(), "--limit", "kvm1,localhost"]


class Undrain(Operation):
    """The instances that the drain has shut down are started."""

    kind = "host"
    what, task = "undrain", "domain_power running at kvm1"
    variables = {"drover_host": "kvm1"}

    def web(self):
        return [Guest("web", state="shutoff", metadata=policy(on_drain="shutdown"))]

    def guests(self):
        return self.web()

    def prepare(self, fleet):
        fleet.run("kvm1", "virsh start web")
        fleet.playbook("discover", *extra())
        fleet.drain("kvm1", drover_unmovable="shutdown")


OPERATIONS = {
    "place": Place,
    "start": Start,
    "stop": Stop,
    "delete": Delete,
    "attach disk": AttachDisk,
    "detach disk": DetachDisk,
    "grow disk": Grow,
    "move disk": MoveDisk,
    "move disk of one that is off": MoveDiskCold,
    "drain pool": DrainPool,
    "drain pool of one that is off": DrainPoolCold,
    "snapshot": Snapshot,
    "delete a snapshot": DeleteSnapshot,
    "revert to a snapshot": RevertSnapshot,
    "resize and confirm": ResizeAndConfirm,
    "resize and revert": ResizeAndRevert,
    "live move": LiveMove,
    "cold move": ColdMove,
    "move with a snapshot": MoveWithSnapshot,
    "copied move": CopiedMove,
    "drain": Drain,
    "drain after copies": DrainAfterCopies,
    "evacuate": Evacuate,
    "rolling": Rolling,
    "undrain": Undrain,
}


class OnStorage(Operation):
    """An operation with the disks of its guests on volumes of a storage."""

    fills = None

    def guests(self):
        fields = ("name", "state", "metadata")
        kinds = {WithData: OnVolumesWithData}
        return [
            kinds.get(type(each), OnVolumes)(
                **{field: getattr(each, field) for field in fields},
                disks=0,
                boots=False,
                based=False,
                storage=self.storage,
            )
            for each in super().guests()
        ]


class PlaceOnStorage(OnStorage):
    """Builds a disk on storage that makes volumes; on shared storage it also gets a volume that
    existed before."""

    def __init__(self):
        copies = self.storage.makes and not issubclass(self.storage, storages.Mounted)
        self.midst = "grep -qsz ^convert$ /proc/[0-9]*/cmdline" if copies else ""

    def words(self):
        built = (
            [{"size_gb": 1, "image": storages.GOLDEN, "pool": self.storage.pool}]
            if self.storage.makes
            else []
        )
        disks = built + ([self.storage.given(storages.SOMEBODYS)] if self.storage.shared else [])
        self.variables = {
            "drover_instance_definitions": [{"name": "web", "memory_mb": 64, "disks": disks}]
        }
        return super().words()


class DeviceOnStorage(OnStorage):
    """The disk that is attached and detached is a file, which counts on its host; disks on the
    storage count there."""

    files = 0

    def __init__(self):
        self.new_files = frozenset({DATA}) if self.attached else frozenset()


class MoveDiskOnStorage(OnStorage):
    """The disk moves from the storage to a folder of its host; a volume that web only got stays."""

    fills = None
    new_files = frozenset({f"{LOCAL}/fast/{OnVolumes('web').own}"})
    # A whole volume is copied.
    variables = {**MoveDisk.variables, "drover_migration": {"bandwidth_mib": 64}}

    def prepare(self, fleet):
        fleet.run("kvm1", f"mkdir -p {LOCAL}/fast")

    def begin(self, world):
        self.prepare(world.fleet)

    def check(self, fleet):
        """Check that it runs with the new file and has it in its definition, and that the file has
        the data of the volume."""
        own, (new,) = OnVolumes("web").own, self.new_files
        for words in ("", "--inactive"):
            shown = fleet.run("kvm1", f"virsh dumpxml {words} web")
            assert (
                shown.count(new) == 1
                and f"/{own}'" not in shown.replace(new, "")
                and "disk_move" not in shown
            ), shown
        seen = f"qemu-img dd -U -O raw bs=1M count={storages.SEEN_MB} if={new} of=/tmp/seen"
        reference_command = storages.content(own, "/tmp/wanted")
        assert "identical" in fleet.run(
            "kvm1",
            f"{seen} && {{ {reference_command}; }} && qemu-img compare -f raw -F raw /tmp/seen"
            " /tmp/wanted; rm /tmp/seen /tmp/wanted",
        )


class EvacuateBehindFence(OnStorage, Evacuate):
    """An evacuation of a host that the controller does not reach, with running guests: the
    blocklist of Ceph cuts it off."""

    kind, storage = "fence", storages.Rbd
    variables = {
        **_OfHost.variables,
        **AT_ONCE,
        "drover_storage_fence": "ceph",
        "drover_ceph_admin": "kvm3",
    }
    moments = (
        "before Record the intended storage fence",
        "after Record the intended storage fence",
        "after Use the blocklist of Ceph",
        "before Record the verified storage fence",
        "after Record the verified storage fence",
        "after",
    )

    def begin(self, world):
        self.variables = {
            **self.variables,
            "drover_ceph_arguments": administrator(world.storage, "kvm3"),
        }
        inside = Inside(world.fleet, "kvm1")
        for rule in CUT_OFF:
            inside.run("ip", *rule.split())
        world.cut.add("kvm1")

    def intrude(self, world, running):
        """Write on the host that was cut off, in the guests that run on other hosts: the contents
        of all volumes are compared after that."""
        for name in running if "kvm1" in world.cut else ():
            Inside(world.fleet, "kvm1").write(name, 3)

    def back(self, world):
        """Check the host after its new start. It gets its storage back with an undrain; a store
        that was made again knows nothing of the fence."""
        fences = world.fleet.query("SELECT host FROM storage_fences")
        run, ceph = world.playbook("undrain", *self.words()), world.storage.cluster.ceph
        assert run.finish() == 0 and bool(fences) == ("kvm1 has its storage again" in run.said)
        for line in [] if fences else ceph("osd", "blocklist", "ls").splitlines():
            if ":0/0 " in line:
                ceph("osd", "blocklist", "rm", line.split()[0])
        assert ":0/0" not in world.storage.cluster.ceph("osd", "blocklist", "ls")
        world.storage.again("kvm1")


#: The operations of each storage.
STORAGES = {
    storages.Rbd: [
        "place",
        "delete",
        "grow disk",
        "live move",
        "cold move",
        "drain",
        "evacuate",
        "resize and confirm",
    ],
    storages.Lvm: ["place", "delete", "live move", "cold move", "drain"],
}

#: The faults that differ between storages, and the operations that have only their cells.
FEW = ("controller killed", "libvirtd dies", "destination dies", "network cut")
WITH_FEW = {
    **dict.fromkeys(
        (storages.Iscsi, storages.Nbd, storages.Nfs, storages.Gluster, storages.CephFs),
        ["place", "delete", "live move", "drain", "evacuate"],
    ),
    storages.Rbd: ["attach disk", "detach disk", "move disk", "resize and revert"],
}
#: The differences of an operation with its disks on volumes.
DIFFERENT = {
    "place": PlaceOnStorage,
    "attach disk": DeviceOnStorage,
    "detach disk": DeviceOnStorage,
    "move disk": MoveDiskOnStorage,
}

OPERATIONS["evacuate behind a fence on rbd"] = EvacuateBehindFence

for _faults, _table in ((None, STORAGES), (FEW, WITH_FEW)):
    for _storage, _names in _table.items():
        for _name in _names:
            _base = OPERATIONS[_name]
            _own = {
                "storage": _storage,
                "fills": (
                    (_base.destination, _storage.pool)
                    if _storage.fillable and _base.destination
                    else None
                ),
            }
            if _faults:
                _own |= {"faults": _faults, "thorough": False}
            _bases = (DIFFERENT.get(_name, OnStorage), _base)
            OPERATIONS[f"{_name} on {_storage.name}"] = type(
                f"{_base.__name__}On{_storage.__name__}", _bases, _own
            )
