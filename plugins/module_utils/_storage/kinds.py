# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The table of storage kinds: types of pools, types of disks, protocols of disks on the network,
and network file systems.

Private to the collection. All other code compares the columns of this table, never the names of
kinds. Pure data: the controller imports it too. Sources: https://libvirt.org/formatstorage.html and
https://libvirt.org/formatdomain.html.
"""

from __future__ import annotations

import enum
import re
from typing import Any, NamedTuple


class Form(enum.Enum):
    """The form of the volumes of a pool."""

    #: Files in a folder of the host.
    FOLDER = enum.auto()
    #: Block devices of the host.
    DEVICES = enum.auto()
    #: Volumes that QEMU itself accesses over the network.
    NETWORK = enum.auto()


class Maker(enum.Enum):
    """The way in which drover makes a disk in a pool."""

    #: qemu-img makes an image file.
    FILE = enum.auto()
    #: libvirt makes a volume that is a block device.
    DEVICE = enum.auto()
    #: libvirt makes an image of Ceph, or Ceph clones one.
    CEPH = enum.auto()


class MoveMethod(enum.Enum):
    """The way of a disk when its guest moves to another host."""

    #: The disk is copied, unless the destination has the same storage.
    COPIED = enum.auto()
    #: The destination must have the same storage.
    SHARED = enum.auto()
    #: The disk stays. Its guest cannot move, and the disk is lost with its host.
    NEVER = enum.auto()


class Identity(enum.Enum):
    """The property that is the same on all hosts with the same storage, and on no other host."""

    #: The mount that contains the folder.
    MOUNT = enum.auto()
    #: The server and its folder.
    EXPORT = enum.auto()
    #: The servers, and a name.
    NAME = enum.auto()
    #: The servers, a volume of Gluster, and a folder in it.
    GLUSTER = enum.auto()
    #: The portals and the target of iSCSI.
    TARGET = enum.auto()
    #: The worldwide name of each device.
    DEVICE = enum.auto()


class Usage(enum.Enum):
    """The source of the free space of a pool."""

    #: The file system of the folder. libvirt sees the changes of others only after a refresh.
    FILE_SYSTEM = enum.auto()
    #: The last answer of libvirt.
    LIBVIRT = enum.auto()
    #: No volume can be made there, so the pool has no free space.
    NONE = enum.auto()


class Fence(enum.Enum):
    """The way to shut a host out of storage; the value is the word in drover_storage_fence."""

    CEPH = "ceph"


class PoolType(NamedTuple):
    """A type of storage pools.

    - maker: None if drover makes no disk there.
    - identity: hosts with the same identity see the same volumes. None if nothing proves that.
    - is_plain: the volumes are readable while the pool is stopped.
    - prefix: letters of libvirt before the name of each volume.
    """

    name: str
    form: Form
    maker: Maker | None
    move: MoveMethod
    identity: Identity | None
    usage: Usage
    fence: Fence | None = None
    is_plain: bool = False
    prefix: str = ""

    @property
    def makes_volumes(self) -> bool:
        """True if drover makes volumes with libvirt, and their names have the uuid of the
        instance.
        """
        return self.maker in (Maker.DEVICE, Maker.CEPH)


_FILES = (Form.FOLDER, Maker.FILE, MoveMethod.COPIED)
_NEW_DEVICES = (Form.DEVICES, Maker.DEVICE, MoveMethod.COPIED, Identity.DEVICE, Usage.LIBVIRT)
_DEVICES = (Form.DEVICES, None, MoveMethod.SHARED)

POOLS = (
    PoolType("dir", *_FILES, Identity.MOUNT, Usage.FILE_SYSTEM, is_plain=True),
    PoolType("fs", *_FILES, Identity.MOUNT, Usage.FILE_SYSTEM),
    PoolType("netfs", *_FILES, Identity.EXPORT, Usage.FILE_SYSTEM),
    PoolType(
        "rbd", Form.NETWORK, Maker.CEPH, MoveMethod.SHARED, Identity.NAME, Usage.LIBVIRT, Fence.CEPH
    ),
    PoolType("logical", *_NEW_DEVICES),
    PoolType("zfs", *_NEW_DEVICES),
    PoolType("gluster", Form.NETWORK, None, MoveMethod.SHARED, Identity.GLUSTER, Usage.LIBVIRT),
    PoolType("sheepdog", Form.NETWORK, None, MoveMethod.SHARED, None, Usage.LIBVIRT),
    PoolType(
        "iscsi-direct",
        Form.NETWORK,
        None,
        MoveMethod.SHARED,
        Identity.TARGET,
        Usage.NONE,
        # libvirt calls the units of a target so.
        prefix="unit:0:0:",
    ),
    PoolType("iscsi", *_DEVICES, Identity.TARGET, Usage.NONE),
    PoolType("disk", *_DEVICES, Identity.DEVICE, Usage.LIBVIRT),
    PoolType("scsi", *_DEVICES, Identity.DEVICE, Usage.NONE),
    PoolType("mpath", *_DEVICES, Identity.DEVICE, Usage.NONE),
)


class Source(enum.Enum):
    """The source of a disk."""

    #: An image file by its path.
    FILE = enum.auto()
    #: A block device by its path.
    DEVICE = enum.auto()
    #: A folder by its path, which the guest sees as a disk.
    FOLDER = enum.auto()
    #: A volume by the name of its pool; the pool decides.
    VOLUME = enum.auto()
    #: A server. Every host that reaches it sees the disk.
    SERVER = enum.auto()
    #: A device or a program of the host. No other host sees the disk.
    HOST = enum.auto()


class DiskType(NamedTuple):
    """A type of disks of domains.

    - key: the attribute of <source> that names the disk; None if several values name it.
    - takes_space: its size counts on the storage of the host, or of a pool of the host.
    - binds: the clause about a disk that stays with its host; ``{source}`` stands for its name.
    - why_fixed: the reason why no job copies the disk to other storage of its host.
    """

    name: str
    source: Source
    key: str | None
    move: MoveMethod
    takes_space: bool = True
    binds: str = ""
    why_fixed: str = ""

    @property
    def is_image(self) -> bool:
        """True if the source is the path of an image file or of a block device."""
        return self.source in (Source.FILE, Source.DEVICE)

    @property
    def is_path(self) -> bool:
        """True if the source is a path of the host."""
        return self.is_image or self.source is Source.FOLDER

    @property
    def has_size(self) -> bool:
        """True if the host or libvirt can read the size of the disk."""
        return self.is_image or self.source in (Source.VOLUME, Source.SERVER)

    @property
    def stays(self) -> bool:
        """True if the disk cannot move, and is lost with its host."""
        return self.move is MoveMethod.NEVER


DISKS = (
    DiskType("file", Source.FILE, "file", MoveMethod.COPIED),
    DiskType("block", Source.DEVICE, "dev", MoveMethod.COPIED),
    DiskType(
        "dir",
        Source.FOLDER,
        "dir",
        MoveMethod.NEVER,
        binds="is a folder of the host ({source}) that the guest sees as a disk",
        why_fixed="a folder",
    ),
    DiskType(
        "volume",
        Source.VOLUME,
        "volume",
        MoveMethod.COPIED,
        why_fixed="named by its pool and volume: name its file instead (virsh edit, type='file')",
    ),
    DiskType(
        "network",
        Source.SERVER,
        "name",
        MoveMethod.SHARED,
        takes_space=False,
        why_fixed="on the network, and its server moves it",
    ),
    DiskType(
        "nvme",
        Source.HOST,
        None,
        MoveMethod.NEVER,
        takes_space=False,
        binds="is an NVMe device of the host ({source})",
        why_fixed="a device of the host",
    ),
    DiskType(
        "vhostuser",
        Source.HOST,
        None,
        MoveMethod.NEVER,
        takes_space=False,
        binds="comes from a program of the host by the socket {source}",
        why_fixed="of another process",
    ),
    DiskType(
        "vhostvdpa",
        Source.HOST,
        None,
        MoveMethod.NEVER,
        takes_space=False,
        binds="is a vDPA device of the host ({source})",
        why_fixed="a device of the host",
    ),
)


class Protocol(NamedTuple):
    """A protocol by which QEMU reaches a disk on the network.

    - family: the first part of the text of such a disk; None if nothing proves that it is the same.
    - port: the default port, if the text has the port of a server.
    - names: the pattern of a name in a definition; None if no definition has such a disk.
    - example: the form of a name, for people.
    - secret: the type of libvirt's secrets for a login.
    - grows: QEMU can make the disk larger.
    - is_here: a disk without a server is on the own host.
    - is_file: the name is a file of a file server, which QEMU opens as a user and a group.
    """

    name: str
    family: str | None
    identity: Identity | None = None
    port: str | None = None
    names: re.Pattern[str] | None = None
    example: str = ""
    secret: str | None = None
    fence: Fence | None = None
    grows: bool = False
    is_here: bool = False
    is_file: bool = False


RBD = Protocol(
    "rbd",
    "rbd",
    Identity.NAME,
    "6789",
    re.compile(r"[^/@\s]+(/[^/@\s]+){1,2}"),
    "POOL/IMAGE",
    "ceph",
    Fence.CEPH,
    grows=True,
)
ISCSI = Protocol(
    "iscsi",
    "iscsi",
    Identity.TARGET,
    "3260",
    re.compile(r"[^/\s]+/[0-9]+"),
    "TARGET/UNIT, such as iqn.2026-01.com.example:vms/1",
    "iscsi",
)
NBD = Protocol(
    "nbd",
    "nbd",
    Identity.EXPORT,
    "10809",
    re.compile(r"[^\s]+"),
    "the name of an export",
    is_here=True,
)

PROTOCOLS = (
    RBD,
    ISCSI,
    NBD,
    # Hosts may have mounted the file system of these disks too.
    Protocol(
        "gluster",
        "glusterfs",
        Identity.NAME,
        names=re.compile(r"[^/\s]+/[^\s]+"),
        example="VOLUME/FILE",
        grows=True,
    ),
    Protocol(
        "nfs",
        "nfs",
        Identity.NAME,
        names=re.compile(r"/[^\s]+"),
        example="/EXPORT/FILE",
        is_file=True,
    ),
    Protocol("sheepdog", None, is_here=True),
)


class MountForm(enum.Enum):
    """The form of the source of a mount, by which hosts with the same file system are found."""

    #: SERVER:/FOLDER, with the mounted folder.
    NFS = enum.auto()
    #: NAME@FSID.FS=/FOLDER, or MONITORS:/FOLDER.
    CEPH = enum.auto()
    #: SERVER:VOLUME.
    GLUSTER = enum.auto()
    #: //SERVER/SHARE.
    CIFS = enum.auto()
    #: SERVERS:/NAME.
    LUSTRE = enum.auto()
    #: A block device. Its name may differ between hosts, so the uuid in its superblock decides.
    DEVICE = enum.auto()


class FileSystem(NamedTuple):
    """A file system that several hosts may have mounted.

    - name: the kernel's name.
    - family: the first part of the text of a file.
    - mounted: None if mounts of different file systems look the same.
    - formats: libvirt's names of the file system in pools of the type netfs.
    """

    name: str
    family: str
    mounted: MountForm | None
    formats: tuple[str, ...] = ()


FILE_SYSTEMS = (
    # libvirt tries NFS first if the format of a pool is auto.
    FileSystem("nfs", "nfs", MountForm.NFS, ("auto", "nfs")),
    FileSystem("nfs4", "nfs", MountForm.NFS),
    FileSystem("ceph", "ceph", MountForm.CEPH),
    FileSystem("fuse.glusterfs", "glusterfs", MountForm.GLUSTER),
    FileSystem("glusterfs", "glusterfs", MountForm.GLUSTER, ("glusterfs",)),
    FileSystem("cifs", "cifs", MountForm.CIFS, ("cifs",)),
    FileSystem("smb3", "cifs", MountForm.CIFS),
    FileSystem("lustre", "lustre", MountForm.LUSTRE),
    FileSystem("gfs2", "gfs2", MountForm.DEVICE),
    FileSystem("ocfs2", "ocfs2", MountForm.DEVICE),
    # Each mount of BeeGFS has the source beegfs_nodev, in every cluster. virtiofs may be a folder
    # of one machine.
    *(
        FileSystem(name, name, None)
        for name in (
            *("9p", "afs", "beegfs", "coda", "gpfs", "orangefs", "pvfs2", "virtiofs", "wekafs"),
        )
    ),
)


def pool(name: str | None) -> PoolType:
    """Return the row of a type of pools.

    In a pool of an unknown type drover makes nothing, and its volumes count as devices of the host.
    """
    unknown = PoolType(name or "", Form.DEVICES, None, MoveMethod.SHARED, None, Usage.LIBVIRT)
    return next((each for each in POOLS if each.name == name), unknown)


def disk(name: str | None) -> DiskType:
    """Return the row of a type of disks. A disk of an unknown type stays with its host."""
    unknown = DiskType(name or "", Source.HOST, None, MoveMethod.NEVER)
    return next((each for each in DISKS if each.name == name), unknown)


def of_pool(described: Any) -> PoolType:
    """Return the row of a pool by its XML or its facts."""
    return pool(described.get("type"))


def of_disk(described: Any) -> DiskType:
    """Return the row of a disk by its XML or its facts."""
    return disk(described.get("type"))


def protocol(name: str | None) -> Protocol:
    """Return the row of a protocol. Nothing is known of an unknown one."""
    return next((each for each in PROTOCOLS if each.name == name), Protocol(name or "", None))


def file_system(name: str | None) -> FileSystem | None:
    """Return the row of a file system; None for a local or unknown one."""
    return next((each for each in FILE_SYSTEMS if each.name == name), None)


def is_on_network(kind: str) -> bool:
    """Return True if other hosts may see a file system too, even if its mounts cannot be told
    apart.

    :param kind: the kernel's name of the file system.
    """
    return file_system(kind) is not None or kind.startswith("fuse.")


def made_in() -> list[str]:
    """Return the types of pools in which drover makes disks, files before volumes."""
    kinds = [each for each in POOLS if each.maker]
    return [each.name for each in sorted(kinds, key=lambda each: each.makes_volumes)]


def is_watched(text: str) -> bool:
    """Return True if storage shows the clients of a disk, by the text of the disk."""
    return any(each.fence and text.startswith(f"{each.family}:") for each in PROTOCOLS)
