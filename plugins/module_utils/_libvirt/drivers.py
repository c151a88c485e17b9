# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The drivers of libvirt other than the driver of QEMU, and the packages that have them. Each of
them may be missing on a host.

Private to the collection. The controller uses these texts too, so this module does not need
libvirt. Packages, by ``apt-cache show`` and ``dnf info``:

- Debian and Ubuntu: one package for each driver from libvirt 10.6.0 on (Debian 13); before that,
  libvirt-daemon has the drivers, except for a few types of pools.
- Fedora, RHEL and SUSE: one package for each driver; the package of the storage driver is
  libvirt-daemon-driver-storage-core.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

#: The first version of libvirt with a package for each driver on Debian.
_DEBIAN_SPLITS = 10_006_000
#: The types of pools with a separate package in Debian also before that version.
_DEBIAN_ALWAYS_SPLIT = ("gluster", "iscsi-direct", "rbd", "zfs")
#: The types of pools that the storage driver supports without a separate backend.
_IN_STORAGE = ("dir", "fs", "netfs")


class Driver(NamedTuple):
    """A driver of libvirt.

    :param probe: the cheapest call that needs the driver.
    :param arguments: the arguments of that call.
    :param calls: a pattern for all calls of a connection that need the driver.
    :param lost: the functions that do not work on a host without the driver.
    """

    probe: str
    arguments: tuple[Any, ...]
    calls: re.Pattern[str]
    daemon: str
    lost: str


def _calls(one: str, many: str) -> re.Pattern[str]:
    return re.compile(
        rf"{one}(?:Lookup|Define|Create|Vol)\w*|(?:listAll|listDefined|list|numOf|numOfDefined){many}"
    )


DRIVERS: Mapping[str, Driver] = {
    "storage": Driver(
        "numOfStoragePools",
        (),
        re.compile(
            f"{_calls('storage(?:Pool)?', 'StoragePools').pattern}|findStoragePoolSources|getStoragePoolCapabilities"
        ),
        "virtstoraged",
        "no disk can be copied to it, no folder or image compared with those of other hosts, and no"
        " storage pool used",
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


def package(name: str, version: int, systems: Iterable[str]) -> str:
    """Return the package of a driver, such as storage or storage-rbd. For an unknown distribution
    return the packages of all distributions.

    :param version: the version of libvirt on the host.
    :param systems: the distribution of the host, and similar distributions.
    """
    pools = name.partition("storage-")[2]
    plain = "storage" if pools in _IN_STORAGE else name
    own = version >= _DEBIAN_SPLITS or pools in _DEBIAN_ALWAYS_SPLIT
    debian = f"libvirt-daemon-driver-{plain}" if own else "libvirt-daemon"
    others = f"libvirt-daemon-driver-{'storage-core' if plain == 'storage' else plain}"
    system_names = set(systems)
    if system_names & {"debian", "ubuntu"}:
        return debian
    if system_names & {"fedora", "rhel", "centos", "suse", "opensuse", "sles"}:
        return others
    return (
        debian
        if debian == others
        else f"{debian} (Debian, Ubuntu) or {others} (Fedora, RHEL, SUSE)"
    )


def what(driver: str) -> str:
    """Return a clause about a missing driver of a host and the consequence."""
    return f"its libvirt has no {driver} driver: {DRIVERS[driver].lost}"


def remedy(missing: Mapping[str, str | None]) -> str:
    """Return the advice for an item of missing_drivers."""
    if missing["daemon"]:
        return (
            f"Install {missing['package']} there, and start it: systemctl enable --now"
            f" {missing['daemon']}.socket"
        )
    return f"Install {missing['package']} there, and restart libvirtd (its guests run on)"


def pool_remedy(
    missing: Iterable[Mapping[str, str | None]], types: Mapping[str, str], kind: str | None = None
) -> str:
    """Return the advice for a host without a storage pool.

    :param missing, types: the facts missing_drivers and missing_pool_types of the host.
    :param kind: the type of the pool; None for an unknown type.
    """
    for each in missing:
        if each["driver"] == "storage":
            return remedy(each)
    if kind is not None and kind in types:
        return (
            f"Install {types[kind]} there, restart libvirtd (its guests run on), and define and"
            " start the pool"
        )
    packages = (
        ", ".join(f"{each} needs {types[each]}" for each in sorted(types)) if kind is None else ""
    )
    return (
        "Correct the name, or define the pool"
        f" there{f' (a pool of the type {packages})' if packages else ''}"
    )


def lower(text: str) -> str:
    return text[0].lower() + text[1:]
