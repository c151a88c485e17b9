# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All domains of a hypervisor, in a number of libvirt calls that does not grow with them.

Private to the collection. Only a domain's XML has no bulk form in libvirt: that is one call for
each domain, and one more for each that runs.

libvirt opens images to find out their sizes. On dead storage its thread blocks for ever and keeps
the domain locked. Soon all its threads are blocked. So libvirt opens an image here only after a
child of this process could open it.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .._bindings import reading
from .._domain.definition import parse_domain, state_name, without_passwords
from .._domain.facts import DomainDisk, PowerState
from .._domain.mentions import other_files
from .._domain.numa import pinned_cpus
from .._domain.texts import texts_of
from .._files import access
from .._files.image_size import image_size
from .._libvirt import binding
from .._libvirt.binding import LibvirtSilent, libvirt
from .._snapshots import snapshots as _snapshots
from .._storage import kinds
from .._storage.kinds import Form, Source
from .._storage.shared_storage import read_mounts
from .disk_facts import DiskFacts
from .facts import HostDomain, Pool
from .storage import read_addresses, read_pools

#: The statistics of a domain, as libvirt has them.
Stats = Mapping[str, Any]


def read_domains(
    conn: Any,
    local: bool,
    warn: Callable[[str], object] | None = None,
    pools: Sequence[Pool] = (),
) -> tuple[list[HostDomain], list[dict[str, str]]]:
    """Return the domains of ``conn`` as a list of dictionaries, sorted by name and uuid, and the
    domains that libvirt cannot describe (uuid and name).

    ``local`` says that this runs on the hypervisor, so that sizes of disks can be read from the
    files without a call. A domain that goes away while being read is left out. ``warn`` is called
    with a sentence about facts that could not be read. Raises libvirt.libvirtError if nothing can
    be read, or libvirt does not answer.

    :param pools: the storage pools as read_pools() returns them.
    """
    pairs = _stats(
        conn, libvirt.VIR_DOMAIN_STATS_STATE | (0 if local else libvirt.VIR_DOMAIN_STATS_BLOCK)
    )
    running = _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_ACTIVE)
    flags = {
        "persistent": _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT),
        "autostart": _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_AUTOSTART),
        "managed_save": _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE),
    }
    with_snapshots = _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT)
    triples, untold = [], []
    for domain, stats in pairs:
        try:
            uuid = domain.UUIDString()
            entry = _entry(
                domain,
                stats,
                [uuid in found_by for found_by in (running, with_snapshots, flags["managed_save"])],
                warn,
            )
        except LibvirtSilent:
            raise
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_NO_DOMAIN:
                continue
            untold.append({"uuid": domain.UUIDString(), "name": domain.name()})
            _warn(
                warn,
                f"Domain {domain.name()} was left out, libvirt does not tell about it:"
                f" {binding.text_of(exc)}.",
            )
            continue
        except ValueError as exc:
            untold.append({"uuid": domain.UUIDString(), "name": domain.name()})
            _warn(
                warn,
                f"Domain {domain.name()!r} was left out, its description cannot be read: {exc}.",
            )
            continue
        entry["persistent"] = entry["uuid"] in flags["persistent"]
        entry["autostart"] = entry["uuid"] in flags["autostart"]
        entry["managed_save"] = entry["uuid"] in flags["managed_save"]
        triples.append((entry, domain, stats))
    _add_sizes(triples, local, warn, pools, conn)
    return (
        sorted(
            (entry for entry, dummy, dummy in triples),
            key=lambda entry: (entry["name"], entry["uuid"]),
        ),
        untold,
    )


def read_domain(domain: Any, local: bool) -> HostDomain:
    """Return one domain in the same form, for a module that works on only that one."""
    stats = {"state.state": domain.info()[0]}
    entry = _entry(domain, stats, [None, None, None])
    if local:
        conn, mounts = domain.connect(), read_mounts("/")
        far = any(
            kinds.of_disk(each).source in (Source.VOLUME, Source.SERVER)
            for each in [*_disks(entry), *entry["other_files"]]
        )
        pools = read_pools(conn, mounts) if far else []
        _add_sizes([(entry, domain, stats)], local, pools=pools, conn=conn if far else None)
        DiskFacts(mounts, pools, conn).add_domains([entry])
        addresses = read_addresses(conn) if entry["interfaces"] else {}
        for interface in entry["interfaces"]:
            interface["addresses"] = addresses.get((interface["mac"] or "").lower(), [])
    else:
        _add_sizes([(entry, domain, stats)], local)
    entry["persistent"] = bool(domain.isPersistent())
    entry["autostart"] = _quietly(lambda: bool(domain.autostart()), False)
    entry["managed_save"] = _quietly(lambda: bool(domain.hasManagedSaveImage()), False)
    return entry


def domain_from_xml(text: str, state: PowerState) -> HostDomain:
    """Return the facts that :func:`read_domain` would return for a domain that is not defined yet
    (for check mode).
    """
    # libvirt leaves passwords out of the XML of a domain too.
    entry = _from_text([without_passwords(text)], None)
    entry.update(
        {
            "state": state,
            "persistent": True,
            "autostart": False,
            "managed_save": False,
            "snapshots": False,
            "fixed_snapshots": [],
        }
    )
    return entry


def _quietly(call: Callable[[], Any], default: Any) -> Any:
    try:
        return call()
    except libvirt.libvirtError:
        return default


def _warn(warn: Callable[[str], object] | None, text: str) -> None:
    if warn is not None:
        warn(text)


def _stats(conn: Any, wanted: int) -> list[tuple[Any, Stats]]:
    """Return ``[(domain, stats)]`` for all domains, in one call where the driver has it."""
    # With NOWAIT, a domain with a hanging QEMU, or under migration, does not delay all others.
    for stats, flags in (
        (wanted, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT),
        (wanted, 0),
        (0, 0),
    ):
        try:
            return [
                (domain, dict(values)) for domain, values in conn.getAllDomainStats(stats, flags)
            ]
        except libvirt.libvirtError as exc:
            if not binding.is_unsupported(exc):
                raise
    pairs: list[tuple[Any, Stats]] = []
    for domain in conn.listAllDomains(0):
        try:
            pairs.append((domain, {"state.state": domain.info()[0]}))
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) != libvirt.VIR_ERR_NO_DOMAIN:
                raise
    return pairs


def _uuids(conn: Any, flag: int) -> set[str]:
    """Return the uuids of the domains with a property; none where the driver cannot filter by
    it.
    """
    try:
        return {domain.UUIDString() for domain in conn.listAllDomains(flag)}
    except libvirt.libvirtError as exc:
        if not binding.is_unsupported(exc):
            raise
        return set()


def _entry(
    domain: Any,
    stats: Stats,
    known: Sequence[bool | None],
    warn: Callable[[str], object] | None = None,
) -> HostDomain:
    """Return the facts of a domain that its XML has.

    :param known: True if it runs, has snapshots, has saved memory, each; None to ask libvirt.
    """
    active = domain.isActive() if known[0] is None else known[0]
    fixed: list[str] | None = None
    try:
        texts = texts_of(domain, active, *known[1:])
        snapshots = [
            _snapshots.described(text)
            for text in texts
            if text.lstrip().startswith("<domainsnapshot")
        ]
        fixed = sorted(each.name for each in snapshots if each.kind != _snapshots.EXTERNAL)
    except LibvirtSilent:
        raise
    except libvirt.libvirtError as exc:
        # The domain exists, and most of its files are in its own XML.
        texts, snapshots = texts_of(domain, active, False, False), []
        _warn(
            warn,
            f"The files of the snapshots and of the saved memory of {domain.name()} are not known:"
            f" {binding.text_of(exc)}.",
        )
    entry = _from_text(texts, texts[1] if active else None)
    entry["snapshots"], entry["fixed_snapshots"] = bool(snapshots) or bool(known[1]), fixed
    entry["uuid"] = domain.UUIDString()
    entry["state"] = state_name(stats.get("state.state", 0))
    if active:
        _add_live(entry, texts[1])
    return entry


def _add_live(entry: HostDomain, text: str) -> None:
    """Add the values of the running guest: its size, its pins, its pages, and the disks and devices
    that are not in the definition.

    A pin that was changed only on the running domain, or a device that was attached only there, is
    not in the inactive form. A disk in only one form has ``only``: running (of ``running_disks``)
    or next_start.
    """
    live = parse_domain(text)
    # These values include hotplugged CPUs and memory, and the size before its definition was made
    # smaller.
    entry["running_vcpus"], entry["running_memory_mb"] = live["vcpus"], live["memory_mb"]
    entry["next_start_cpus"] = sorted(pinned_cpus(entry["numa"]) - pinned_cpus(live["numa"]))
    entry["numa"] = live["numa"]
    entry["hostdevs"] += [each for each in live["hostdevs"] if each not in entry["hostdevs"]]
    here, later = ({_identity(disk) for disk in each["disks"]} for each in (live, entry))
    for disk in entry["disks"]:
        if disk["source"] is not None and _identity(disk) not in here:
            disk["only"] = "next_start"
    entry["running_disks"] = [
        {**disk, "only": "running"}
        for disk in live["disks"]
        if disk["source"] is not None and _identity(disk) not in later
    ]


def _identity(disk: DomainDisk) -> tuple[str, str, str | None]:
    return (disk["target"], disk["type"], disk["source"])


def _from_text(texts: Sequence[str], running: str | None) -> HostDomain:
    # Another host needs the inactive form to run the domain again after this host is lost.
    parsed = parse_domain(texts[0])
    return {
        "uuid": parsed["uuid"] or "",
        "name": parsed["name"],
        "title": parsed["title"],
        "state": "nostate",
        "persistent": False,
        "autostart": False,
        "managed_save": False,
        "snapshots": False,
        "fixed_snapshots": [],
        "vcpus": parsed["vcpus"],
        "memory_mb": parsed["memory_mb"],
        "disks": parsed["disks"],
        "interfaces": parsed["interfaces"],
        "hostdevs": parsed["hostdevs"],
        "numa": parsed["numa"],
        "metadata": parsed["metadata"],
        "running_vcpus": None,
        "running_memory_mb": None,
        "next_start_cpus": [],
        "running_disks": [],
        "other_files": other_files(texts, parsed["disks"]),
        "bindings": reading.as_facts(reading.read(texts[0], running)),
        "xml": texts[0],
    }


def _add_sizes(
    found: Sequence[tuple[HostDomain, Any, Stats]],
    local: bool,
    warn: Callable[[str], object] | None = None,
    pools: Sequence[Pool] = (),
    conn: Any = None,
) -> None:
    """Add the virtual size and the taken space of all disks, in bytes: from the file, the bulk
    statistics, or one more call.

    :param conn: for bulk statistics of domains with files that do not show their sizes; None for
        one call for each domain.
    """
    silent = (
        _add_sizes_of_files([entry for entry, dummy, dummy in found], warn, pools)
        if local
        else set()
    )
    found = [
        each
        for each in found
        if each[0]["uuid"] not in silent and any(_is_unknown(disk) for disk in _disks(each[0]))
    ]
    more = (
        _block_stats(conn, [domain for dummy, domain, dummy2 in found])
        if local and conn is not None and found
        else {}
    )
    for entry, domain, reported in found:
        _add_reported_sizes(_disks(entry), domain, more.get(entry["uuid"], reported), local)
        if conn is not None:
            _add_sizes_of_volumes(_disks(entry), conn, pools)


def _disks(entry: HostDomain) -> list[DomainDisk]:
    return [*entry["disks"], *entry["running_disks"]]


def _is_unknown(disk: DomainDisk) -> bool:
    return (
        disk["capacity_bytes"] is None
        and disk["source"] is not None
        and kinds.of_disk(disk).has_size
    )


def _add_sizes_of_files(
    entries: Sequence[HostDomain],
    warn: Callable[[str], object] | None,
    pools: Sequence[Pool],
) -> set[str]:
    """Add the sizes that this machine sees by itself; return the uuids of domains with storage that
    does not answer.
    """
    folders = {
        pool["name"]: pool["path"]
        for pool in pools
        if kinds.of_pool(pool).form is Form.FOLDER and pool["path"]
    }
    seen = [
        (entry, disk, _path(disk, folders))
        for entry in entries
        for disk in _disks(entry)
        if _is_unknown(disk)
    ]
    seen = [each for each in seen if each[2] is not None]
    silent: set[str] = set()
    failed: dict[str | None, list[Exception]] = {}
    looks = access.call_each(
        _measure_image, [(path, disk["type"], disk["format"]) for dummy, disk, path in seen]
    )
    for (entry, disk, _dummy), (answered, size) in zip(seen, looks):
        if not answered:
            silent.add(entry["uuid"])
            failed.setdefault(getattr(size, "place", None), []).append(size)
        elif size is not None:
            disk["capacity_bytes"], disk["allocation_bytes"] = size
    for each in failed.values():
        _warn(warn, f"{each[0]} Disks there whose sizes are unknown: {len(each)}.")
    return silent


def _path(disk: DomainDisk, folders: Mapping[str, str]) -> str | None:
    """Return the path of a disk on this machine; None if it is not known."""
    kind = kinds.of_disk(disk).source
    if kind is Source.SERVER:
        return None
    if kind is not Source.VOLUME:
        return disk["source"]
    pool, dummy, name = (disk["source"] or "").partition("/")
    return os.path.join(folders[pool], name) if pool in folders else None


def _measure_image(path: str, kind: str, image_format: str | None) -> tuple[int, int] | None:
    """Return the size of an image file. For a device, its answer is enough."""
    if kinds.disk(kind).source is not Source.DEVICE:
        return image_size(path, image_format)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        os.read(descriptor, 512)
    except OSError:
        pass
    finally:
        os.close(descriptor)
    return None


def _block_stats(conn: Any, domains: Sequence[Any]) -> dict[str, Stats]:
    """Return dict uuid -> statistics of some domains and their disks; empty if the driver has
    none.
    """
    stats_wanted = libvirt.VIR_DOMAIN_STATS_STATE | libvirt.VIR_DOMAIN_STATS_BLOCK
    try:
        pairs = conn.domainListGetStats(
            domains, stats_wanted, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT
        )
    except LibvirtSilent:
        raise
    except libvirt.libvirtError:
        return {}
    return {domain.UUIDString(): dict(values) for domain, values in pairs}


def _add_reported_sizes(
    disks: Iterable[DomainDisk], domain: Any, stats: Stats, local: bool
) -> None:
    """Add libvirt's values for the sizes that are not known from a file."""
    by_target: dict[Any, str] = {}
    for index in range(stats.get("block.count", 0)):
        prefix = f"block.{index}."
        by_target.setdefault(stats.get(prefix + "name"), prefix)
    for disk in filter(_is_unknown, disks):
        reported = by_target.get(disk["target"])
        capacity = stats.get(f"{reported}capacity") if reported else None
        if capacity:
            disk["capacity_bytes"] = int(capacity)
            disk["allocation_bytes"] = int(stats.get(f"{reported}allocation", 0))
            continue
        # libvirt would open an image on the network, and its server may be dead.
        kind = kinds.of_disk(disk).source
        if kind is not Source.SERVER and (not local or kind is not Source.FILE):
            # Neither the file nor the statistics show the size: it is a shut-off domain on another
            # machine.
            info = _quietly(functools.partial(domain.blockInfo, disk["target"]), None)
            if info is not None:
                disk["capacity_bytes"], disk["allocation_bytes"] = int(info[0]), int(info[1])


def _add_sizes_of_volumes(disks: Iterable[DomainDisk], conn: Any, pools: Sequence[Pool]) -> None:
    """Add the sizes that are still unknown, as libvirt last read them with the pools.

    No file is opened.
    """
    for disk in filter(_is_unknown, disks):
        names = {
            pool["name"]: _volume_of(disk, pool) for pool in pools if pool["state"] == "running"
        }
        for pool, volume in names.items():
            volume_info = (
                _quietly(functools.partial(_volume_info, conn, pool, volume), None)
                if volume
                else None
            )
            if volume_info is not None:
                disk["capacity_bytes"], disk["allocation_bytes"] = (
                    int(volume_info[1]),
                    int(volume_info[2]),
                )
                break


def _volume_info(conn: Any, pool: str, volume: str) -> Sequence[int]:
    info: Sequence[int] = conn.storagePoolLookupByName(pool).storageVolLookupByName(volume).info()
    return info


def _volume_of(disk: DomainDisk, pool: Pool) -> str | None:
    """Return the name of a disk in a pool; None if it is not there."""
    if kinds.of_disk(disk).source is Source.VOLUME:
        pool_name, dummy, volume = (disk["source"] or "").partition("/")
        return volume if pool_name == pool["name"] else None
    share = f"{(pool.get('shared_id') or '').rstrip('/')}/"
    text = disk.get("origin") or ""
    name = text[len(share) :] if len(share) > 1 and text.startswith(share) else None
    return f"{kinds.of_pool(pool).prefix}{name}" if name else None
