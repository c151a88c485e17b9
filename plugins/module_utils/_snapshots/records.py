# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The transfer of the records of snapshots from libvirt into the metadata of their domain, and
back.

Private to the collection. Each transfer may be interrupted. The next run then gives the records
back to libvirt. At each moment a record is in the metadata or in libvirt.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Mapping
from typing import Any

from .._domain import carried_snapshots, metadata
from .._domain.definition import without_passwords
from .._libvirt.binding import libvirt
from .._libvirt.xml import keep_prefixes, parse
from .._ownership import ownership
from . import snapshots as _snapshots
from .snapshots import Snapshot


def take_along(domain: Any) -> None:
    """Write the records into the metadata of the domain, and drop libvirt's records.

    :raises libvirt.libvirtError: libvirt refuses; no record is lost.
    """
    snapshots = ordered(_snapshots.read(domain))
    if not snapshots:
        return
    _write_metadata(domain, document(snapshots))
    known = _names_of_snapshots(domain)
    for each in reversed(snapshots):
        if each.name in known:
            ownership.drop_snapshot(domain, each.name, record_alone=True)


def give_back(domain: Any) -> bool:
    """Give libvirt the records that the domain carries; return True if there were any.

    A record that libvirt has by now stays as it is.

    :raises libvirt.libvirtError: libvirt refuses; the domain still carries them all.
    """
    snapshots = _snapshots.carried_by(domain)
    if not snapshots:
        return False
    known, passwords = _names_of_snapshots(domain), _passwords(domain)
    for snapshot in ordered(snapshots):
        if snapshot.name not in known:
            flags = libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_REDEFINE | (
                libvirt.VIR_DOMAIN_SNAPSHOT_CREATE_CURRENT if snapshot.current else 0
            )
            domain.snapshotCreateXML(_with_passwords(snapshot.text, passwords), flags)
    _write_metadata(domain, None)
    return True


def document(snapshots: Iterable[Snapshot]) -> str:
    """Return the text of snapshots for the metadata of a domain. The passwords of consoles are
    missing, because every user can read metadata.
    """
    return carried_snapshots.document(
        (without_passwords(each.text), each.current) for each in snapshots
    )


def ordered(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """Return the snapshots in the order that libvirt accepts: each snapshot after its parent."""
    waiting, in_order = list(snapshots), []
    while waiting:
        left = {each.name for each in waiting}
        # libvirt never has a circle of snapshots. Snapshots in a circle keep their order.
        ready = [each for each in waiting if each.parent not in left] or waiting
        in_order += ready
        waiting = [each for each in waiting if each not in ready]
    return in_order


def _names_of_snapshots(domain: Any) -> set[str]:
    return (
        {each.getName() for each in domain.listAllSnapshots(0)} if domain.snapshotNum(0) else set()
    )


def _write_metadata(domain: Any, text: str | None) -> None:
    for place in metadata.places(domain):
        domain.setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT,
            text,
            carried_snapshots.PREFIX,
            carried_snapshots.NAMESPACE,
            place,
        )


def _passwords(domain: Any) -> dict[str, str]:
    """Return the passwords of the consoles of a domain, by the type of the console."""
    consoles = parse(
        domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE | libvirt.VIR_DOMAIN_XML_SECURE)
    ).findall("devices/graphics")
    return {each.get("type", ""): each.get("passwd", "") for each in consoles if each.get("passwd")}


def _with_passwords(text: str, passwords: Mapping[str, str]) -> str:
    """Return a record with the present passwords of the domain's consoles, so that no console is
    without a password.
    """
    if not passwords:
        return text
    keep_prefixes(text)
    root = parse(text)
    for console in root.iter("graphics"):
        password = passwords.get(console.get("type", ""))
        if password and not console.get("passwd"):
            console.set("passwd", password)
    return ET.tostring(root, encoding="unicode")
