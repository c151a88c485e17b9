# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The missing drivers of libvirt on a host, detected by the codes of its answers.

Private to the collection.

For a missing driver libvirt reports VIR_ERR_NO_SUPPORT. With split daemons each driver is a daemon,
and if its socket is missing, libvirt reports VIR_ERR_SYSTEM_ERROR of VIR_FROM_RPC with the errno.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .._files import system
from . import drivers
from .xml import parse

try:
    import libvirt
except ImportError:
    libvirt = None

#: The hypervisors with separate drivers for storage and other objects. Other hypervisors, such as
#: libvirt's test driver, have these drivers built in.
_HYPERVISORS = ("QEMU", "LXC", "Xen")
#: The folders with the programs of daemons.
_PROGRAMS = ("/usr/sbin", "/sbin", "/usr/bin")
_ABSENT = (errno.ENOENT, errno.ECONNREFUSED)


def is_missing(error: Exception) -> bool:
    """Return True if the error of a call means a missing driver, or a daemon that does not run."""
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
    """Return True if the error of a call proves that this machine has no object of a driver:
    libvirt has not loaded the driver, or its daemon is not installed.

    An installed daemon that does not run may have pools.
    """
    if not is_missing(error):
        return False
    return _is_unsupported(error) or not any(
        os.access(os.path.join(folder, drivers.DRIVERS[driver].daemon), os.X_OK)
        for folder in _PROGRAMS
    )


def listed(call: Callable[..., Sequence[Any]], *arguments: Any) -> Sequence[Any]:
    """Return the result of a call that lists objects; an empty list for a missing driver.

    :raises libvirt.libvirtError: the driver exists and fails to list.
    """
    try:
        return call(*arguments)
    except Exception as exc:
        if not is_missing(exc):
            raise
        return ()


def read(conn: Any, local: bool) -> dict[str, object]:
    """Return the facts ``missing_drivers`` and ``missing_pool_types`` of hypervisor_info, by one
    call for each driver.

    :param local: True if the hypervisor is this machine, so that its distribution is known.
    """
    if conn.getType() not in _HYPERVISORS:
        return {"missing_drivers": [], "missing_pool_types": None}
    systems, version = system.names() if local else set(), conn.getLibVersion()
    checks = (
        _missing_driver(
            lambda call, *arguments: getattr(conn, call)(*arguments), name, version, systems
        )
        for name in drivers.DRIVERS
    )
    missing = [each for each in checks if each]
    has_storage = all(each["driver"] != "storage" for each in missing)
    return {
        "missing_drivers": missing,
        "missing_pool_types": _missing_pool_types(conn, version, systems) if has_storage else None,
    }


def _missing_pool_types(conn: Any, version: int, systems: Iterable[str]) -> dict[str, str] | None:
    """Return the types of storage pools that need a missing package: type -> package; None if
    libvirt does not report the types.
    """
    try:
        root = parse(conn.getStoragePoolCapabilities(0))
    except (libvirt.libvirtError, AttributeError, ValueError):
        # libvirt is older than 5.2.
        return None
    names = sorted(
        each.get("type") or "" for each in root.iter("pool") if each.get("supported") == "no"
    )
    return {name: drivers.package(f"storage-{name}", version, systems) for name in names if name}


def _missing_driver(
    ask: Callable[..., Any], name: str, version: int, systems: Iterable[str]
) -> dict[str, str | None] | None:
    """Return the item of missing_drivers for a driver; None if the driver exists, or if its state
    is unknown.
    """
    driver = drivers.DRIVERS[name]
    try:
        ask(driver.probe, *driver.arguments)
    except libvirt.libvirtError as exc:
        if is_missing(exc):
            return {
                "driver": name,
                "package": drivers.package(name, version, systems),
                "daemon": None if _is_unsupported(exc) else driver.daemon,
            }
    return None


def explain(
    call: str, error: Exception, host: str, ask: Callable[..., Any], local: bool
) -> str | None:
    """Return a better text, with the package to install, for a call that failed because of a
    missing driver.

    Return None if the call failed for another reason.

    :param call: the name of the call.
    :param ask: a function that makes another call over the connection, by its name.
    """
    if libvirt is None or not isinstance(error, libvirt.libvirtError):
        return None
    own = next(
        (
            name
            for name, driver in drivers.DRIVERS.items()
            if driver.calls.fullmatch(call) and driver.probe != call
        ),
        None,
    )
    suspects = _other_drivers(error) if own is None else (own,) if is_missing(error) else ()
    try:
        if not suspects or ask("getType") not in _HYPERVISORS:
            return None
        version, systems = ask("getLibVersion"), system.names() if local else set()
        # A call may be newer than the installed libvirt. Then its driver is not missing.
        lacking = [
            each
            for each in (_missing_driver(ask, name, version, systems) for name in suspects)
            if each
        ]
    except libvirt.libvirtError:
        return None
    if not lacking:
        return None
    sentence = "; ".join(
        f"libvirt on {host} has no {each['driver']} driver: {drivers.lower(drivers.remedy(each))}"
        for each in lacking
    )
    return sentence if own else f"{str(error).rstrip('.')} ({sentence})"


def _other_drivers(error: Any) -> Iterable[str]:
    """Return the drivers that libvirt itself may have missed during a call, for example at the
    start of a guest with a virtual network.
    """
    if error.get_error_code() == libvirt.VIR_ERR_NO_CONNECT:
        # The error has the URI of the missing driver, such as network:///system.
        found = (error.get_str2() or "").partition(":")[0]
        return (found,) if found in drivers.DRIVERS else ()
    return tuple(drivers.DRIVERS) if _is_absent(error) else ()
