# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""All domains of a hypervisor, in a number of libvirt calls that does not grow with them.

Private to the collection. Only a domain's XML has no bulk form in libvirt and is asked one by one.
"""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.module_utils import _libvirt
from ansible_collections.drover.compute.plugins.module_utils._domain_xml import parse_domain, state_name
from ansible_collections.drover.compute.plugins.module_utils._image_size import image_size
from ansible_collections.drover.compute.plugins.module_utils._libvirt import libvirt


def read_domains(conn, local, warn=None):
    """Every domain of ``conn`` as a list of dictionaries, sorted by name and uuid.

    ``local`` says that this runs on the hypervisor, so that sizes of disks can be read from the
    files without a call. A domain that goes away while being read is left out. ``warn`` is called
    with a sentence for what could not be read. Raises libvirt.libvirtError if nothing can be.
    """
    pairs = _stats(conn)
    flags = {
        "persistent": _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_PERSISTENT),
        "autostart": _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_AUTOSTART),
        "managed_save": _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_MANAGEDSAVE),
        "snapshots": _uuids(conn, libvirt.VIR_CONNECT_LIST_DOMAINS_HAS_SNAPSHOT),
    }
    found = []
    for domain, stats in pairs:
        try:
            entry = _entry(domain, stats, local)
        except libvirt.libvirtError as exc:
            if _libvirt.code_of(exc) == libvirt.VIR_ERR_NO_DOMAIN:
                continue
            _warn(
                warn, f"Domain {domain.name()} was left out, libvirt does not tell about it: {_libvirt.text_of(exc)}."
            )
            continue
        except ValueError as exc:
            _warn(warn, f"Domain {domain.name()!r} was left out, its description cannot be read: {exc}.")
            continue
        for name, uuids in flags.items():
            entry[name] = entry["uuid"] in uuids
        found.append(entry)
    return sorted(found, key=lambda entry: (entry["name"], entry["uuid"]))


def read_domain(domain, local):
    """One domain in the same form, for a module that works on just that one."""
    stats = {"state.state": domain.info()[0]}
    entry = _entry(domain, stats, local)
    entry["persistent"] = bool(domain.isPersistent())
    entry["autostart"] = _quietly(lambda: bool(domain.autostart()), False)
    entry["managed_save"] = _quietly(lambda: bool(domain.hasManagedSaveImage()), False)
    entry["snapshots"] = _quietly(lambda: bool(domain.snapshotNum()), False)
    return entry


def domain_from_xml(text, state):
    """What :func:`read_domain` would say of a domain that is not defined yet (for check mode)."""
    entry = _from_text(text)
    entry.update(state=state, persistent=True, autostart=False, managed_save=False, snapshots=False)
    return entry


def _quietly(call, default):
    try:
        return call()
    except libvirt.libvirtError:
        return default


def _warn(warn, text):
    if warn is not None:
        warn(text)


def _stats(conn):
    """``[(domain, stats)]`` for all domains, in one call where the driver has it."""
    wanted = (
        libvirt.VIR_DOMAIN_STATS_STATE
        | libvirt.VIR_DOMAIN_STATS_VCPU
        | libvirt.VIR_DOMAIN_STATS_BALLOON
        | libvirt.VIR_DOMAIN_STATS_BLOCK
    )
    # Without NOWAIT one domain whose QEMU hangs, or that is just being migrated, holds up all.
    for stats, flags in ((wanted, libvirt.VIR_CONNECT_GET_ALL_DOMAINS_STATS_NOWAIT), (wanted, 0), (0, 0)):
        try:
            return [(domain, dict(values)) for domain, values in conn.getAllDomainStats(stats, flags)]
        except libvirt.libvirtError as exc:
            if _libvirt.code_of(exc) not in (
                libvirt.VIR_ERR_NO_SUPPORT,
                libvirt.VIR_ERR_INVALID_ARG,
                libvirt.VIR_ERR_ARGUMENT_UNSUPPORTED,
            ):
                raise
    pairs = []
    for domain in conn.listAllDomains(0):
        try:
            pairs.append((domain, {"state.state": domain.info()[0]}))
        except libvirt.libvirtError:
            continue
    return pairs


def _uuids(conn, flag):
    """The uuids of the domains with a property; none where the driver cannot filter by it."""
    try:
        return {domain.UUIDString() for domain in conn.listAllDomains(flag)}
    except libvirt.libvirtError:
        return set()


def _entry(domain, stats, local):
    # The inactive form is what a host needs to run the domain again after this one is lost.
    text = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
    entry = _from_text(text)
    entry["uuid"] = domain.UUIDString()
    entry["state"] = state_name(stats.get("state.state", 0))
    _add_sizes(entry["disks"], domain, stats, local)
    return entry


def _from_text(text):
    parsed = parse_domain(text)
    parsed.pop("type")
    return {
        "uuid": parsed.pop("uuid"),
        "name": parsed.pop("name"),
        "state": "nostate",
        "persistent": False,
        "autostart": False,
        "managed_save": False,
        "snapshots": False,
        **parsed,
        "xml": text,
    }


def _add_sizes(disks, domain, stats, local):
    """Virtual size and space taken, in bytes: from the file, the bulk statistics, or one call more."""
    by_target = {}
    for index in range(stats.get("block.count", 0)):
        prefix = f"block.{index}."
        by_target.setdefault(stats.get(prefix + "name"), prefix)
    for disk in disks:
        if disk["source"] is None or disk["type"] not in ("file", "block", "volume"):
            continue
        if local and disk["type"] == "file":
            size = image_size(disk["source"], disk["format"])
            if size is not None:
                disk["capacity_bytes"], disk["allocation_bytes"] = size
                continue
        prefix = by_target.get(disk["target"])
        capacity = stats.get(f"{prefix}capacity") if prefix else None
        if capacity:
            disk["capacity_bytes"] = int(capacity)
            disk["allocation_bytes"] = int(stats.get(f"{prefix}allocation", 0))
            continue
        if not local or disk["type"] != "file":
            # Neither the file nor the statistics: a shut-off domain seen from afar.
            info = _quietly(lambda target=disk["target"]: domain.blockInfo(target), None)
            if info is not None:
                disk["capacity_bytes"], disk["allocation_bytes"] = int(info[0]), int(info[1])
