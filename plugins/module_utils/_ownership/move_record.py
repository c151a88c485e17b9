# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The types of a move between hosts: its order, its files, and its record on the source.

Private to the collection.
"""

from __future__ import annotations

from typing import Literal, TypedDict, final

from .._domain.facts import NumaBinding

#: The status of a move. All but ``running`` are final.
Status = Literal["running", "completed", "failed", "cancelled", "conflict", "lost"]
#: The step of a move. Up to ``waiting`` nothing has begun.
Phase = Literal["checking", "waiting", "preparing", "migrating", "verifying", "cleaning", "done"]
#: The action at the end of the time limit of a live move.
OnTimeout = Literal["abort", "post_copy", "pause", "shutdown"]
Compression = Literal["xbzrle", "zlib", "zstd"]
CopyStorage = Literal["auto", "never", "always"]
#: The state of an instance before its move.
Before = Literal["running", "paused", "shutoff"]
#: How the writable storage of an instance moves.
StorageWord = Literal["none", "shared", "copied"]
FileKind = Literal["disk", "media", "nvram", "log", "network"]
#: carried: QEMU or libvirt makes the file at the destination. present: the destination has it.
FileMode = Literal["shared", "copied", "carried", "present"]
#: The making of a file at the destination. ``intent`` is recorded before a file is made, and
#: ``leftover`` is a file of an earlier attempt.
Made = Literal["no", "intent", "yes", "leftover"]


class Options(TypedDict, total=False):
    """The options of a move. None and a missing option mean the default."""

    bandwidth_mib: int | None
    parallel_connections: int | None
    auto_converge: bool | None
    post_copy: bool | None
    tls: bool | None
    tunnelled: bool | None
    compression: Compression | None
    max_downtime_ms: int | None
    timeout_per_gib: int | None
    on_timeout: OnTimeout | None
    copy_storage: CopyStorage | None


class PciPair(TypedDict):
    """A PCI device of the domain, and the device that replaces it at the destination."""

    address: str
    address_there: str
    #: The names of both in the networks of their hosts; None for a device that is no interface.
    interface: str | None
    interface_there: str | None
    #: Both devices move while the guest runs.
    live_migratable: bool


class Mdev(TypedDict):
    """A mediated device."""

    uuid: str
    #: The name of its parent in libvirt.
    parent: str
    type: str


class MdevPair(TypedDict):
    """The uuid of a mediated device of the domain, and the device to make at the destination."""

    uuid: str
    there: Mdev


class Devices(TypedDict):
    """The devices of its host that a domain has, each with its replacement at the destination."""

    pci: list[PciPair]
    mdevs: list[MdevPair]


class KnownImage(TypedDict):
    """An image at the destination whose digest is known, with the stamp of its file."""

    path: str
    digest: str
    size: int
    modified: str
    changed: str


class _OneDomain(TypedDict):
    uuid: str


class Move(_OneDomain, Options, total=False):
    """The order of a move, as the module _domain_migration takes it."""

    name: str | None
    #: Not given to follow a move.
    destination: str
    #: The uuid of the migration in the store; None for a move that no store knows.
    migration: str | None
    destination_uri: str
    #: The uuids that the destination may have; empty if no uuid identifies the machine.
    host_uuids_there: list[str]
    migrate_uri: str | None
    #: None: as the instance is.
    live: bool | None
    autostart: bool | None
    #: The CPUs and cells that were claimed at the destination; None for no claim.
    numa: NumaBinding | None
    devices: Devices | None
    #: The instance gets another size after its arrival.
    resized: bool
    #: The instance is shut down before it moves.
    will_stop: bool
    #: False: the worker only finds out the state of the move.
    begin: bool
    #: Files that other hosts use.
    used_elsewhere: list[list[str]]
    #: Folders that the operator declares as shared.
    shared_folders: list[str]
    #: The worldwide name of each device at the destination.
    devices_there: dict[str, str]
    #: The file system of each folder at the destination.
    file_systems_there: dict[str, str]
    addresses_there: list[str]
    images_there: list[KnownImage]


class _File(TypedDict):
    target: str
    path: str
    kind: FileKind
    type: Literal["file", "block"]
    format: str
    cache: str | None
    shareable: bool
    #: Pool and name, if the definition names a volume.
    volume: list[str] | None
    #: The images behind it.
    backing: list[str]
    #: Bytes; None if unknown.
    capacity: int | None
    inode: list[int] | None
    encrypted: bool
    #: The file existed before it was attached.
    attached: bool
    #: Pool and name of a volume that is a device of this host.
    block_pool: list[str] | None
    #: The volume has a name of this instance.
    named: bool
    #: The keys that libvirt has for a volume here and at the destination.
    key: str | None
    key_there: str | None
    #: None until the storage of the move is decided.
    mode: FileMode | None
    #: Only the next start of the guest has it.
    next_start: bool
    made: Made
    #: The file was removed from the source.
    removed: bool


class FileEntry(_File, total=False):
    """A file or device of an instance, and its way to the destination."""

    made_at: float
    #: The time of a failed attempt to remove the copy.
    left_at: float


@final
class FileStat(TypedDict):
    """The sizes of a file in bytes, as libvirt reports them, and its age."""

    capacity: int
    allocation: int
    #: None if libvirt does not report it.
    physical: int | None
    format: str | None
    #: Seconds since 1970.
    modified: float | None


class KeptFile(TypedDict):
    """A file that stays, and the reason."""

    path: str
    reason: str


class Copies(TypedDict):
    """The amounts that a move copies."""

    memory_mib: int
    disk_mib: int


class _Record(TypedDict):
    version: int
    #: The boot of the host that began the move.
    boot: str
    uuid: str
    name: str | None
    move: Move
    source_uri: str
    status: Status
    phase: Phase
    pid: int
    started_at: float
    #: The start on the clock of uptime(); ``ends`` uses the same clock.
    since: float
    finished_at: float | None
    message: str
    storage: StorageWord | None
    files: list[FileEntry]
    #: Problems of the files at the source, independent of the destination.
    at_source: list[str]
    #: Folders that prove shared storage, until they are removed.
    probes: list[str]
    #: An image that is one with those behind it, until it is removed.
    temporary: str | None
    #: Files at the destination of earlier moves on the same way.
    earlier: list[FileEntry]
    #: The worker continues the work of one that died.
    took_over: bool
    #: Paths that stay.
    leftovers: list[str]
    kept: list[KeptFile]
    #: Paths of removed files.
    removed: list[str]
    was: Before | None
    autostart: bool | None
    #: The end of the time limit, the whole limit, and the action at its end.
    ends: float | None
    limit: float | None
    escalated: OnTimeout | None
    #: The move has shut the guest down.
    shut_down: bool
    #: None if the time limit does not depend on the amounts.
    copies: Copies | None
    percent: int
    total_mib: int | None
    remaining_mib: int | None
    source_state: str | None
    destination_state: str | None


class MoveRecord(_Record, total=False):
    """The record of a move on its source. A worker writes it before each step."""

    #: The instance has a definition on the source.
    persistent: bool
