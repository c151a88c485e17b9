# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The storages of the real part of the fault matrix: the place of the disks of web and beside, and
the conditions for their volumes.

A storage that is added to STORAGES has the operations that it names, each with all the cells of its
possible faults. The key of a volume is its place, which is a host or "" for all hosts, with its
name.
"""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
import typing

from lablib.layout import LabError, run
from lablib.storage import beside, ceph, cephfs, gluster, iscsi, lvm, nbd, nfs
from test_fleet import BOOT_SECTOR, LOCAL, SHARED, Fleet

GIB = 2**30
#: The number of MiB of each volume that are written and compared.
SEEN_MB = 8
#: The shell commands for this part: the operating system of the lab's guests, and then the name of
#: the volume, repeated.
CONTENT = (
    "{{ echo {sector} | base64 -d; yes {name} | head -c 1M; }} > {file}; truncate -s {seen}M {file}"
)

#: An image that is copied into volumes; all of its data is compared.
GOLDEN, GOLDEN_MB = f"{SHARED}/golden.qcow2", 192
MAKE_GOLDEN = (
    f"qemu-img create -q -f qcow2 {GOLDEN} {GOLDEN_MB}M && qemu-io -c 'write -q -P 90 0"
    f" {GOLDEN_MB}M' {GOLDEN}"
)
#: A volume that a person has made, and that definitions attach.
SOMEBODYS = "somebodys"

#: Run on a host: move a domain to another host, as a person does.
MOVE = (
    'how=--offline; [ "$(virsh domstate {name})" = running ] && how=--live; virsh migrate $how'
    " {more} --unsafe --persistent --undefinesource {name} qemu+ssh://root@{there}/system"
)

#: Run on a host: make a folder full. It is on no file system in memory, because no disk moves to
#: one.
FULL = """
truncate -s 1M /run/full && mkfs.ext4 -q -m 0 -O ^has_journal /run/full && mount -o loop /run/full {folder} && rmdir {folder}/lost+found || exit
dd if=/dev/zero of={folder}/full bs=4k 2> /dev/null; true
"""

Place = tuple[str, str]


def content(name: str, file: str) -> str:
    """Return the shell command that writes the first part of a volume into a file."""
    return CONTENT.format(
        sector=base64.b64encode(BOOT_SECTOR).decode(), name=name, file=file, seen=SEEN_MB
    )


class Files:
    """No volumes: disks are files of a shared folder, or of a local one."""

    name = ""
    #: The variables of each playbook.
    variables: dict[str, typing.Any] = {}
    programs: tuple[str, ...] = ()
    #: All hosts have the same volumes.
    shared = False
    #: True if volumes are made for instances, and removed with them; otherwise instances only get
    #: existing ones.
    makes = False
    #: True if each host has local room, which the tests can fill.
    fillable = False
    pool = ""

    @staticmethod
    def disk(name: str, target: str) -> str:
        """Return the XML of a disk that is a volume."""
        raise NotImplementedError

    @classmethod
    def given(cls, name: str) -> dict[str, typing.Any]:
        """Return a disk of a definition that is an existing volume."""
        raise NotImplementedError

    def __init__(self, lab: typing.Any) -> None:
        self.lab, self.fleet = lab, Fleet(lab, lab.layout.folder, "")

    @classmethod
    def is_here(cls) -> bool:
        return all(shutil.which(name) for name in cls.programs)

    def ready(self) -> None:
        """Start it on all hosts, and empty it."""

    def again(self, host: str) -> None:
        """Give it back to a host that was off."""

    def forget(self) -> None:
        """Wait until it knows that the clients of a host without power are gone: an evacuation
        rightly waits for that."""

    def close(self) -> None:
        """Stop it."""
        if self.pool:
            self.fleet.everywhere(
                f"virsh pool-destroy {self.pool}; virsh pool-undefine {self.pool}; true"
            )

    def make(self, host: str, names: typing.Iterable[str]) -> None:
        """Make volumes of 1 GiB, each with different content."""

    def volumes(self, hosts: typing.Iterable[str]) -> dict[Place, int]:
        """Return the volumes that the storage itself lists, with their sizes in bytes."""
        return {}

    def digests(self, volumes: typing.Iterable[Place], mib: int = SEEN_MB) -> dict[Place, str]:
        """Return digests of the first part of volumes."""
        return {}

    def volume_of(self, host: str, source: dict[str, str]) -> Place | None:
        """Return the volume that is the source of a disk; None for another source."""
        return None

    def golden_digest(self) -> str:
        """Return the digest of the first part of a volume with a copy of GOLDEN."""
        return self.fleet.run(
            "kvm2", f"qemu-img convert -O raw {GOLDEN} /tmp/raw && sha256sum /tmp/raw; rm /tmp/raw"
        ).split()[0]

    def promised(self, fleet: Fleet) -> dict[str, int]:
        """Return the store's allocations of it, as {place: GiB}."""
        return _promised(fleet, {f"pool/{self.pool}": ""})

    def move_by_hand(self, host: str, there: str, name: str) -> None:
        """Move a domain to another host with virsh, as a person does."""
        self.fleet.run(host, MOVE.format(name=name, there=there, more=""))

    def fill(self, host: str, folder: str) -> None:
        """Fill the folder."""
        self.fleet.run(host, FULL.format(folder=folder))

    def make_room(self, host: str, folder: str) -> None:
        """Empty the folder again."""
        self.fleet.run(host, f"umount {folder}")


class Folders(Files):
    """Disks are files of an additional pool of kvm1."""

    pool, folder = "fast", f"{LOCAL}/fast"
    variables = {"drover_storage_pools": ["default", pool]}

    def ready(self):
        lines = [
            f"mkdir -p {self.folder}",
            (
                f"virsh pool-info {self.pool} > /dev/null 2>&1 || virsh pool-define-as {self.pool}"
                f" dir --target {self.folder}"
            ),
            f"virsh pool-autostart {self.pool}",
            (
                f"virsh pool-info {self.pool} | grep -q 'State: *running' || virsh pool-start"
                f" {self.pool}"
            ),
            f"virsh pool-refresh {self.pool}",
        ]
        self.fleet.run("kvm1", "set -e\n" + "\n".join(lines))

    def close(self):
        self.fleet.run(
            "kvm1", f"virsh pool-destroy {self.pool}; virsh pool-undefine {self.pool}; true"
        )


class Rbd(Files):
    """Images of a Ceph cluster, which QEMU reaches itself."""

    makes = True
    name = "rbd"
    variables = {"drover_storage_pools": ["ceph"]}
    programs = ceph.PROGRAMS
    shared = True
    pool = "ceph"

    def __init__(self, lab):
        super().__init__(lab)
        self.cluster = ceph.Cluster(lab.layout)

    def ready(self):
        ceph.up(self.lab.layout)
        # Ceph takes half a minute to notice the death of a client, and these clients are all dead.
        beside.until("all images are removed", self._empty, 90)

    def _empty(self):
        for _dummy, name in self.volumes([]):
            try:
                self.cluster.rbd("rm", "--no-progress", name)
            except LabError:
                for watcher in self._watchers(name):
                    self.cluster.ceph("osd", "blocklist", "add", watcher["address"])
        return not self.volumes([])

    def _watchers(self, name):
        return json.loads(self.cluster.rbd("status", "--format", "json", name))["watchers"]

    def forget(self):
        beside.until(
            "nobody has an image open",
            lambda: not any(self._watchers(name) for dummy, name in self.volumes([])),
            90,
        )

    def again(self, host):
        self.cluster.give_to(self.lab.layout.host(host))

    def close(self):
        super().close()
        ceph.down(self.lab.layout)

    def _sh(self, script):
        return self.cluster.call(
            "sh",
            "-ec",
            f"alias rbd='rbd --conf {self.cluster.config} --pool {ceph.POOL}'\n{script}",
        )

    def make(self, host, names):
        folder = self.cluster.folder
        for name in names:
            file = f"{folder}/{name}"
            self._sh(
                f"{content(name, file)}\nrbd import --no-progress {file} {name}\nrbd resize"
                f" --no-progress --size 1G {name}\nrm {file}"
            )
        self.fleet.everywhere(f"virsh pool-refresh {self.pool}")

    def volumes(self, hosts):
        listed = json.loads(self.cluster.rbd("ls", "--long", "--format", "json"))
        return {("", each["image"]): each["size"] for each in listed}

    def digests(self, volumes, mib=SEEN_MB):
        one = "rbd export --no-progress {} - 2>/dev/null | head -c {}M | sha256sum"
        lines = [f"(echo {name} $({one.format(name, mib)})) &" for dummy, name in volumes]
        return {
            ("", line.split()[0]): line.split()[1]
            for line in self._sh("\n".join([*lines, "wait"])).splitlines()
        }

    def volume_of(self, host, source):
        pool, dummy, name = (source.get("name") or "").partition("/")
        return ("", name) if source.get("protocol") == "rbd" and pool == ceph.POOL else None

    @staticmethod
    def disk(name, target):
        return ceph.disk_xml(name, target)

    @classmethod
    def given(cls, name):
        return {
            "source": {
                "protocol": "rbd",
                "name": f"{ceph.POOL}/{name}",
                "hosts": [{"name": ceph.SWITCH_ADDRESS, "port": 6789}],
                "auth": {"username": ceph.CLIENT, "secret": ceph.SECRET},
            },
            "pool": cls.pool,
            "size_gb": 1,
        }


class _OfServer(Files):
    """Storage on a server that QEMU reaches without the host."""

    shared = True
    #: The module of lablib.storage, and its class.
    module: typing.Any = None
    kind: typing.Any = None
    #: The server of the lab. Guests and definitions name its images.
    server: typing.Any = None

    def __init__(self, lab):
        super().__init__(lab)
        type(self).server = self.kind(lab.layout)

    def ready(self):
        self.module.up(self.lab.layout)
        for image in self.server.images():
            self.server.remove(image)

    def make(self, host, names):
        for name in names:
            self.server.make(name, 1)
            file = f"{self.server.folder}/content"
            run(
                "sh",
                "-ec",
                f"{content(name, file)}; dd if={file} of={self.server.file(name)} conv=notrunc"
                " status=none",
            )
        if self.pool:
            self.fleet.everywhere(f"virsh pool-refresh {self.pool}")

    def volumes(self, hosts):
        return {("", name): self.server.file(name).stat().st_size for name in self.server.images()}

    def digests(self, volumes, mib=SEEN_MB):
        digests = {}
        for _dummy, name in volumes:
            with open(self.server.file(name), "rb") as image:
                digests["", name] = hashlib.sha256(image.read(mib * 2**20)).hexdigest()
        return digests

    def volume_of(self, host, source):
        names = {self.server.source(name)["name"]: name for name in self.server.images()}
        return (
            ("", names[source["name"]])
            if source.get("protocol") == self.name and source["name"] in names
            else None
        )

    @classmethod
    def disk(cls, name, target):
        disk_source = cls.server.source(name)
        more = _element("host", disk_source["hosts"][0]) + (
            _element("identity", disk_source["identity"]) if "identity" in disk_source else ""
        )
        auth = disk_source.get("auth")
        login = (
            f"<auth username='{auth['username']}'><secret type='{cls.name}'"
            f" uuid='{auth['secret']}'/></auth>"
            if auth
            else ""
        )
        source = (
            f"{login}<source protocol='{cls.name}'"
            f" name='{disk_source['name']}'>{more}</source><target dev='{target}' bus='virtio'/>"
        )
        return (
            "<disk type='network' device='disk'><driver name='qemu' type='raw'"
            f" cache='none'/>{source}</disk>"
        )

    @classmethod
    def given(cls, name):
        return {
            "source": cls.server.source(name),
            **({"pool": cls.pool, "size_gb": 1} if cls.pool else {}),
        }


def _element(name: str, attributes: dict[str, typing.Any]) -> str:
    words = " ".join(f"{key}='{value}'" for key, value in attributes.items())
    return f"<{name} {words}/>"


class Iscsi(_OfServer):
    """Units of an iSCSI target with CHAP."""

    name = pool = iscsi.NAME
    variables = {"drover_storage_pools": [pool]}
    programs, module, kind = iscsi.PROGRAMS, iscsi, iscsi.Target

    def again(self, host):
        iscsi.give_to(self.lab.layout, self.lab.layout.host(host))


class Nbd(_OfServer):
    """Exports of an NBD server, which no provider counts."""

    name, programs, module, kind = nbd.NAME, nbd.PROGRAMS, nbd, nbd.Server


class Nfs(_OfServer):
    """Files of an NFS server; no host mounts it."""

    name, programs, module, kind = nfs.NAME, nfs.PROGRAMS, nfs, nfs.Server


class Mounted(Files):
    """Files of a file system that all hosts mount with FUSE."""

    makes = True
    shared = True
    #: The module of lablib.storage.
    module: typing.Any = None
    folder = ""
    #: The host that reads the files. No operation leaves it off.
    looks = "kvm3"

    def ready(self):
        self.module.up(self.lab.layout)
        self.fleet.run(self.looks, f"find {self.folder} -mindepth 1 -delete")

    def again(self, host):
        self.module.give_to(self.lab.layout, self.lab.layout.host(host))

    def make(self, host, names):
        for name in names:
            self.fleet.run(
                host,
                f"set -e\n{content(name, '/tmp/content')}\ncp /tmp/content"
                f" {self.folder}/{name}\ntruncate -s 1G {self.folder}/{name}",
            )

    def volumes(self, hosts):
        script = (
            f"cd {self.folder} && for each in $(ls -A); do qemu-img info -U --output=json $each |"
            " tr -d '\\n'; echo; done"
        )
        listed = [json.loads(line) for line in self.fleet.run(self.looks, script).splitlines()]
        return {("", each["filename"]): each["virtual-size"] for each in listed}

    def digests(self, volumes, mib=SEEN_MB):
        names = " ".join(name for dummy, name in volumes)
        one = (
            f"qemu-img dd -U -O raw bs=1M count={mib} if={self.folder}/$each of=/tmp/raw &&"
            " sha256sum < /tmp/raw; rm -f /tmp/raw"
        )
        lines = self.fleet.run(
            self.looks, f"for each in {names}; do echo $each $({one}); done"
        ).splitlines()
        return {("", line.split()[0]): line.split()[1] for line in lines}

    def volume_of(self, host, source):
        folder, dummy, name = (source.get("file") or "").rpartition("/")
        return ("", name) if folder == self.folder else None

    @classmethod
    def disk(cls, name, target):
        source = f"<source file='{cls.folder}/{name}'/><target dev='{target}' bus='virtio'/>"
        return (
            "<disk type='file' device='disk'><driver name='qemu' type='raw'"
            f" cache='none'/>{source}</disk>"
        )

    @classmethod
    def given(cls, name):
        return {"source": {"path": f"{cls.folder}/{name}"}, "pool": cls.pool, "size_gb": 1}


class Gluster(Mounted):
    """Files of a GlusterFS volume."""

    name, pool, folder, programs, module = (
        gluster.NAME,
        gluster.FILES,
        gluster.MOUNT,
        gluster.PROGRAMS,
        gluster,
    )
    variables = {"drover_storage_pools": [pool]}


class CephFs(Mounted):
    """Files of CephFS. Its mount does not name its origin, so the pool is declared."""

    name, pool, folder, programs, module = (
        cephfs.NAME,
        cephfs.NAME,
        cephfs.MOUNT,
        cephfs.PROGRAMS,
        cephfs,
    )
    variables = {"drover_storage_pools": [pool], "drover_shared_pools": ["shared", pool]}


class Lvm(Files):
    """Local logical volumes of each host, which a move copies."""

    makes = True
    name = "lvm"
    variables = {"drover_storage_pools": [lvm.GROUP]}
    programs = lvm.PROGRAMS
    fillable = True
    pool = lvm.GROUP

    def ready(self):
        lvm.up(self.lab.layout)
        self.fleet.everywhere(
            f"for each in $(ls /dev/{self.pool}); do lvremove -qf /dev/{self.pool}/$each; done;"
            f" virsh pool-refresh {self.pool}"
        )

    def again(self, host):
        lvm.give_to(self.lab.layout, self.lab.layout.host(host))

    def close(self):
        super().close()
        lvm.down(self.lab.layout)

    def make(self, host, names):
        for name in names:
            lines = [
                "set -e",
                f"virsh vol-create-as {self.pool} {name} 1G",
                content(name, "/tmp/content"),
                f"dd if=/tmp/content of=/dev/{self.pool}/{name} bs=1M oflag=direct status=none",
            ]
            self.fleet.run(host, "\n".join(lines))

    def volumes(self, hosts):
        outputs = self.fleet.everywhere(
            f"lvs --noheadings --nosuffix --units b -o lv_name,lv_size {self.pool}", hosts
        )
        listed = {host: text.split() for host, text in outputs.items()}
        return {
            (host, name): int(size)
            for host, words in listed.items()
            for name, size in zip(words[::2], words[1::2])
        }

    def digests(self, volumes, mib=SEEN_MB):
        by_volume = {}
        for host in {host for host, dummy in volumes}:
            names = " ".join(name for there, name in volumes if there == host)
            one = f"dd if=/dev/{self.pool}/$each bs=1M count={mib} iflag=direct 2>/dev/null"
            for line in self.fleet.run(
                host, f"for each in {names}; do echo $each $({one} | sha256sum); done"
            ).splitlines():
                by_volume[host, line.split()[0]] = line.split()[1]
        return by_volume

    def volume_of(self, host, source):
        folder, dummy, name = (source.get("dev") or "").rpartition("/")
        return (host, name) if folder == f"/dev/{self.pool}" else None

    @staticmethod
    def disk(name, target):
        source = f"<source dev='/dev/{lvm.GROUP}/{name}'/><target dev='{target}' bus='virtio'/>"
        return (
            "<disk type='block' device='disk'><driver name='qemu' type='raw'"
            f" cache='none'/>{source}</disk>"
        )

    def promised(self, fleet):
        return _promised(fleet, {f"{host}_pool_{self.pool}": host for host in fleet.hosts})

    def move_by_hand(self, host, there, name):
        """Move it with its volumes, and remove them at the source."""
        listed = self.fleet.run(
            host, f"virsh domblklist {name} | grep -o '/dev/{self.pool}/.*'"
        ).split()
        for volume in (path.rpartition("/")[2] for path in listed):
            self.fleet.run(there, f"virsh vol-create-as {self.pool} {volume} 1G")
        self.fleet.run(host, MOVE.format(name=name, there=there, more="--copy-storage-all"))
        for path in listed:
            self.fleet.run(host, f"lvremove -qf {path}; virsh pool-refresh {self.pool}")

    def fill(self, host, folder):
        self.fleet.run(
            host,
            f"lvcreate -qy -l $(vgs --noheadings -o vg_free_count {self.pool}) --name full"
            f" {self.pool}",
        )

    def make_room(self, host, folder):
        self.fleet.run(host, f"lvremove -qf {self.pool}/full; virsh pool-refresh {self.pool}")


def _promised(fleet: Fleet, providers: dict[str, str]) -> dict[str, int]:
    rows = fleet.query(
        "SELECT p.name, sum(a.used) FROM allocations a JOIN resource_providers p ON p.id ="
        " a.provider_id GROUP BY p.name"
    )
    return {providers[name]: int(used) for name, used in rows if name in providers}
