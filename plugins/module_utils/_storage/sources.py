# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The servers of disks on the network, and the secrets that open disks.

Private to the collection.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element

from .._libvirt import binding
from .._libvirt.binding import libvirt
from .._libvirt.xml import parse
from . import kinds
from .kinds import Form, Source
from .shared_storage import disk_id, volume_id

#: The names that mean the own host on every host; unix is a socket.
_HERE = (
    "unix",
    "localhost",
    "localhost.localdomain",
    "localhost6",
    "ip6-localhost",
    "ip6-loopback",
)


def is_here(server: str) -> bool:
    """Return True if the name or address of a server means the own host on every host."""
    name = server.strip("[]").rstrip(".").lower()
    if name in _HERE or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (
        address.is_loopback or address.is_unspecified or (mapped is not None and mapped.is_loopback)
    )


def server_here(disk: Element) -> str | None:
    """Return the server of a ``<disk>`` element, or of a layer behind it, if the server is this
    host itself; else None.
    """
    for source in disk.iter("source"):
        if source.get("protocol") is None:
            continue
        hosts = source.findall("host")
        if not hosts and kinds.protocol(source.get("protocol")).is_here:
            return "localhost"
        for host in hosts:
            server = (
                "unix"
                if host.get("transport") == "unix" or host.get("socket")
                else host.get("name") or "localhost"
            )
            if is_here(server):
                return host.get("socket") or server
    return None


def secrets_of(text: str) -> list[tuple[str | None, str | None, str | None]]:
    """Return the secrets of the disks and the TPM of a domain: a sorted list of (uuid or None,
    kind, usage or None).
    """
    secrets = set()
    for element in parse(text).iter():
        if element.tag == "secret" and (element.get("uuid") or element.get("usage")):
            secrets.add((element.get("uuid"), element.get("type"), element.get("usage")))
        elif element.tag == "encryption" and element.get("secret"):
            secrets.add((element.get("secret"), "vtpm", None))
    return sorted(secrets, key=str)


def user_of(conn: Any, origin: str, but: str | None) -> str | None:
    """Return the name of another domain of this host with a given disk on the network; None without
    such a domain.

    :param origin: the text of the disk from shared_storage.disk_id().
    :param but: the uuid of the domain to leave out.
    :raises libvirt.libvirtError: a domain cannot be read.
    """
    for domain in conn.listAllDomains(0):
        if domain.UUIDString() == but:
            continue
        for flag in (libvirt.VIR_DOMAIN_XML_INACTIVE, 0):
            if any(
                origin_of(conn, disk) == origin
                for disk in parse(domain.XMLDesc(flag)).findall("devices/disk")
            ):
                return str(domain.name())
    return None


def origin_of(conn: Any, disk: Element) -> str | None:
    """Return the text of a ``<disk>`` element that QEMU accesses over the network, also of a disk
    that names its pool; None for other disks.

    :raises libvirt.libvirtError: the pool cannot be read.
    """
    source, kind = disk.find("source"), kinds.of_disk(disk).source
    if source is None or kind is Source.SERVER:
        return disk_id(source)
    name, volume = source.get("pool"), source.get("volume")
    if kind is not Source.VOLUME or not name or not volume:
        return None
    try:
        pool = parse(conn.storagePoolLookupByName(name).XMLDesc(0))
    except libvirt.libvirtError as exc:
        if binding.code_of(exc) != libvirt.VIR_ERR_NO_STORAGE_POOL:
            raise
        return None
    is_on_network = kinds.of_pool(pool).form is Form.NETWORK
    return volume_id(pool, volume) if is_on_network else None


#: virSecretUsageType by the word in domain XML. libvirt stores a passphrase for a volume.
_USAGES = {
    "ceph": "CEPH",
    "iscsi": "ISCSI",
    "passphrase": "VOLUME",
    "volume": "VOLUME",
    "tls": "TLS",
    "vtpm": "VTPM",
}


def missing_secrets(conn: Any, text: str, where: str) -> list[str]:
    """Return sentences about the secrets of a domain that a host does not have.

    :param conn: libvirt of that host.
    :param text: the XML of the domain.
    :param where: the name of the host.
    """
    reasons = []
    for uuid, kind, usage in secrets_of(text):
        name = f"{uuid or usage}" + (f" ({kind})" if kind else "")
        try:
            if uuid:
                secret = conn.secretLookupByUUIDString(uuid)
            else:
                usages = [_USAGES[kind]] if kind in _USAGES else sorted(set(_USAGES.values()))
                secret = _look_up(
                    conn,
                    [getattr(libvirt, f"VIR_SECRET_USAGE_TYPE_{each}") for each in usages],
                    usage,
                )
            if has_value(secret) is False:
                reasons.append(
                    f"the secret {name} of its disks has no value on {where}: set it there (virsh"
                    " secret-set-value)"
                )
        except libvirt.libvirtError as exc:
            if binding.code_of(exc) == libvirt.VIR_ERR_NO_SECRET:
                reasons.append(
                    f"the secret {name} of its disks does not exist on {where}: define it there"
                    " (virsh secret-define)"
                )
            else:
                reasons.append(
                    f"libvirt of {where} does not tell about the secret {name}:"
                    f" {binding.text_of(exc)}"
                )
    return reasons


def has_value(secret: Any) -> bool | None:
    """Return True if a secret has a value; None if libvirt does not say, for example for a private
    secret.
    """
    try:
        secret.value(0)
    except libvirt.libvirtError as exc:
        # NO_SECRET means "does not have a value". libvirt refuses private secrets and read-only
        # connections with other codes.
        return False if binding.code_of(exc) == libvirt.VIR_ERR_NO_SECRET else None
    return True


def _look_up(conn: Any, kinds: Sequence[int], usage: str | None) -> Any:
    for number, kind in enumerate(kinds, 1):
        try:
            return conn.secretLookupByUsage(kind, usage)
        except libvirt.libvirtError:
            if number == len(kinds):
                raise
    return None
