# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The records of snapshots in the metadata of a domain during a move.

Private to the collection. libvirt does not move a domain as long as libvirt has records of its
snapshots. So a move writes the records into the metadata of the domain, and then drops libvirt's
records. So the records stay with the domain, even if a run ends in the middle of a move.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable

from .._libvirt.xml import parse

NAMESPACE = "https://drover.compute/snapshots/1"
#: The prefix that libvirt writes before the names of the elements.
PREFIX = "drover-snapshots"
#: The greatest size in bytes of all records together. libvirt takes no definition of more than 4
#: MiB.
MOST = 1 << 20

#: One record: its XML, and True for the current snapshot.
Carried = tuple[str, bool]


def carried(text: str) -> list[Carried]:
    """Return the records in the XML of a domain."""
    if NAMESPACE not in text:
        # Nearly all domains have no records.
        return []
    found = parse(text).findall(f"metadata/{{{NAMESPACE}}}snapshots/{{{NAMESPACE}}}snapshot")
    return [(each.text, each.get("current") == "yes") for each in found if each.text]


def document(records: Iterable[Carried]) -> str:
    """Return the element that carries records."""
    root = ET.Element("snapshots")
    for text, current in records:
        ET.SubElement(root, "snapshot", {"current": "yes"} if current else {}).text = text
    return ET.tostring(root, encoding="unicode")
