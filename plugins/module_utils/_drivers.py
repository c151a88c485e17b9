# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drivers of libvirt beside that of QEMU, each of which may be missing on a host, and the packages that have them.

Private to the collection. Code on hypervisors and the controller take their words from here. Packages, by ``apt-cache show`` and ``dnf info``:

- Debian and Ubuntu: one for each driver from libvirt 10.6.0 on (Debian 13); before, libvirt-daemon has them, but for a few types of pools.
- Fedora, RHEL and SUSE: one for each driver; that of storage is libvirt-daemon-driver-storage-core.

A driver that is missing answers VIR_ERR_NO_SUPPORT. With split daemons each driver is a daemon, and without its socket libvirt says
VIR_ERR_SYSTEM_ERROR of VIR_FROM_RPC with the errno.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.drover.compute.plugins.module_utils import _reboot_signs
from ansible_collections.drover.compute.plugins.module_utils._xml import parse

try:
    import libvirt
except ImportError:
    libvirt = None

#: Hypervisors whose drivers for storage and the rest are loaded beside their own; others, such as libvirt's test driver, have them built in.
_HYPERVISORS = ("QEMU", "LXC", "Xen")
#: Debian has a package for each driver from this version of libvirt on.
_DEBIAN_SPLITS = 10_006_000
#: Types of pools that had packages of their own in Debian before.
_DEBIAN_ALWAYS_SPLIT = ("gluster", "iscsi-direct", "rbd", "zfs")
#: Types of pools that the driver of storage itself has.
_IN_STORAGE = ("dir", "fs", "netfs")
_PROGRAMS = ("/usr/sbin", "/sbin", "/usr/bin")
_ABSENT = (errno.ENOENT, errno.ECONNREFUSED)


class Driver(NamedTuple):
    """A driver of libvirt.

    :param probe: the cheapest call that it answers, with the arguments; :param calls: of connections, all that need it.
    :param lost: what does not work on a host without it.
    """

    probe: str
    arguments: tuple[Any, ...]
    calls: re.Pattern[str]
    daemon: str
    lost: str


def _calls(one: str, many: str) -> re.Pattern[str]:
    return re.compile(rf"{one}(?:Lookup|Define|Create|Vol)\w*|(?:listAll|listDefined|list|numOf|numOfDefined){many}")


DRIVERS: Mapping[str, Driver] = {
    "storage": Driver(
        "numOfStoragePools",
        (),
        re.compile(f"{_calls('storage(?:Pool)?', 'StoragePools').pattern}|findStoragePoolSources|getStoragePoolCapabilities"),
        "virtstoraged",
        "no disk can be copied to it, no folder or image compared with those of other hosts, and no storage pool used",
    ),
    "nodedev": Driver(
        "numOfDevices",
        (None, 0),
        _calls("nodeDevice", "Devices"),
        "virtnodedevd",
        "its PCI devices and mediated devices are not seen, so that no guest gets one",
    ),
    "secret": Driver(
        "numOfSecrets",
        (),
        _calls("secret", "Secrets"),
        "virtsecretd",
        "no guest runs whose disks or TPM need a secret, such as disks of Ceph or encrypted ones",
    ),
    "network": Driver(
        "numOfNetworks",
        (),
        _calls("network", "Networks"),
        "virtnetworkd",
        "no guest runs that is in a virtual network; bridges work",
    ),
    "interface": Driver(
        "numOfInterfaces",
        (),
        _calls("interface", "Interfaces"),
        "virtinterfaced",
        "a move does not see beforehand that a bridge is missing there",
    ),
    "nwfilter": Driver(
        "numOfNWFilters",
        (),
        _calls("nwfilter(?:Binding)?", "NWFilters"),
        "virtnwfilterd",
        "no guest runs whose interfaces have network filters",
    ),
}


def is_missing(error: Exception) -> bool:
    """Whether the answer to a call says that its driver is not there, or is a daemon that does not run."""
    if libvirt is None or not isinstance(error, libvirt.libvirtError):
        return False
    return _is_unsupported(error) or _is_absent(error)


def _is_unsupported(error: Any) -> bool:
    return bool(error.get_error_code() == libvirt.VIR_ERR_NO_SUPPORT)


def _is_absent(error: Any) -> bool:
    return bool(
        error.get_error_code() == libvirt.VIR_ERR_SYSTEM_ERROR
        and error.get_error_domain() == libvirt.VIR_FROM_RPC
        and error.get_int1() in _ABSENT
    )


def has_nothing(driver: str, error: Exception) -> bool:
    """Whether this machine can have nothing of a driver, by the answer to a call: libvirt has not loaded it, or its daemon is not installed.

    A daemon that only does not run may know of pools.
    """
    if not is_missing(error):
        return False
    return _is_unsupported(error) or not any(os.access(os.path.join(folder, DRIVERS[driver].daemon), os.X_OK) for folder in _PROGRAMS)


def listed(call: Callable[..., Sequence[Any]], *arguments: Any) -> Sequence[Any]:
    """Return what a call lists: a host without the driver has nothing of it.

    :raises libvirt.libvirtError: the driver is there and does not list it.
    """
    try:
        return call(*arguments)
    except Exception as exc:
        if not is_missing(exc):
            raise
        return ()


def read(conn: Any, local: bool) -> dict[str, Any]:
    """Return the facts ``missing_drivers`` and ``missing_pool_types`` of hypervisor_info, by one call for each driver.

    :param local: whether the hypervisor is this machine, so that its distribution is known.
    """
    if conn.getType() not in _HYPERVISORS:
        return {"missing_drivers": [], "missing_pool_types": None}
    systems, version = _reboot_signs.system() if local else set(), conn.getLibVersion()
    found = (_missing(lambda call, *arguments: getattr(conn, call)(*arguments), name, version, systems) for name in DRIVERS)
    missing = [each for each in found if each]
    has_storage = all(each["driver"] != "storage" for each in missing)
    return {"missing_drivers": missing, "missing_pool_types": _missing_pool_types(conn, version, systems) if has_storage else None}


def _missing_pool_types(conn: Any, version: int, systems: Iterable[str]) -> dict[str, str] | None:
    """Return the types of storage pools that libvirt cannot have for lack of a package: type -> package; None where it does not tell."""
    try:
        root = parse(conn.getStoragePoolCapabilities(0))
    except (libvirt.libvirtError, AttributeError, ValueError):
        # Before libvirt 5.2.
        return None
    names = sorted(each.get("type") or "" for each in root.iter("pool") if each.get("supported") == "no")
    return {name: package(f"storage-{name}", version, systems) for name in names if name}


def package(name: str, version: int, systems: Iterable[str]) -> str:
    """Return the package that has a driver, such as storage or storage-rbd, or the packages of all distributions where it is not known which it is.

    :param version: of libvirt there; :param systems: the host's distribution, and those that it is like.
    """
    pools = name.partition("storage-")[2]
    plain = "storage" if pools in _IN_STORAGE else name
    own = version >= _DEBIAN_SPLITS or pools in _DEBIAN_ALWAYS_SPLIT
    debian = f"libvirt-daemon-driver-{plain}" if own else "libvirt-daemon"
    others = f"libvirt-daemon-driver-{'storage-core' if plain == 'storage' else plain}"
    known = set(systems)
    if known & {"debian", "ubuntu"}:
        return debian
    if known & {"fedora", "rhel", "centos", "suse", "opensuse", "sles"}:
        return others
    return debian if debian == others else f"{debian} (Debian, Ubuntu) or {others} (Fedora, RHEL, SUSE)"


def what(driver: str) -> str:
    """Say that a host has no driver, and what that costs."""
    return f"its libvirt has no {driver} driver: {DRIVERS[driver].lost}"


def remedy(missing: Mapping[str, Any]) -> str:
    """Return what to do about an item of missing_drivers."""
    if missing["daemon"]:
        return f"Install {missing['package']} there, and start it: systemctl enable --now {missing['daemon']}.socket"
    return f"Install {missing['package']} there, and restart libvirtd (its guests run on)"


def pool_remedy(missing: Iterable[Mapping[str, Any]], types: Mapping[str, str], kind: str | None = None) -> str:
    """Return what to do where a host does not have a storage pool.

    :param missing, types: its facts missing_drivers and missing_pool_types.
    :param kind: the type of the pool; None where that is not known.
    """
    for each in missing:
        if each["driver"] == "storage":
            return remedy(each)
    if kind is not None and kind in types:
        return f"Install {types[kind]} there, restart libvirtd (its guests run on), and define and start the pool"
    packages = ", ".join(f"{each} needs {types[each]}" for each in sorted(types)) if kind is None else ""
    return f"Correct the name, or define the pool there{f' (a pool of the type {packages})' if packages else ''}"


def explain(call: str, error: Exception, host: str, ask: Callable[..., Any], local: bool) -> str | None:
    """Return better words for a call that failed for lack of a driver, with the package to install; None where it failed for another reason.

    :param call: its name; :param ask: makes another call over the connection, by name.
    """
    if libvirt is None or not isinstance(error, libvirt.libvirtError):
        return None
    own = next((name for name, driver in DRIVERS.items() if driver.calls.fullmatch(call) and driver.probe != call), None)
    suspects = _other_drivers(error) if own is None else (own,) if is_missing(error) else ()
    try:
        if not suspects or ask("getType") not in _HYPERVISORS:
            return None
        version, systems = ask("getLibVersion"), _reboot_signs.system() if local else set()
        # Some calls are newer than the libvirt that is there, and their driver is there all the same.
        lacking = [each for each in (_missing(ask, name, version, systems) for name in suspects) if each]
    except libvirt.libvirtError:
        return None
    if not lacking:
        return None
    found = "; ".join(f"libvirt on {host} has no {each['driver']} driver: {_lower(remedy(each))}" for each in lacking)
    return found if own else f"{str(error).rstrip('.')} ({found})"


def _other_drivers(error: Any) -> Iterable[str]:
    """Return the drivers that libvirt itself may not have found during a call, as for a guest that starts with a virtual network."""
    if error.get_error_code() == libvirt.VIR_ERR_NO_CONNECT:
        # What it has no driver for, such as network:///system.
        found = (error.get_str2() or "").partition(":")[0]
        return (found,) if found in DRIVERS else ()
    return tuple(DRIVERS) if _is_absent(error) else ()


def _missing(ask: Callable[..., Any], name: str, version: int, systems: Iterable[str]) -> dict[str, str | None] | None:
    """Return the item of missing_drivers of a driver; None where the driver is there, or does not tell."""
    driver = DRIVERS[name]
    try:
        ask(driver.probe, *driver.arguments)
    except libvirt.libvirtError as exc:
        if is_missing(exc):
            return {"driver": name, "package": package(name, version, systems), "daemon": None if _is_unsupported(exc) else driver.daemon}
    return None


def _lower(text: str) -> str:
    return text[0].lower() + text[1:]
