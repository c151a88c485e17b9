# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Every XML document that libvirt has of a domain.

Private to the collection.
"""

from __future__ import annotations

from typing import Any

from .._libvirt import binding
from .._libvirt.binding import libvirt
from .carried_snapshots import carried


def texts_of(
    domain: Any,
    active: bool | None = None,
    snapshots: bool | None = None,
    saved: bool | None = None,
) -> list[str]:
    """Return all XML of a domain: of its next start, of the running guest, of its snapshots and of
    its saved memory.

    :param active, snapshots, saved: True if the domain runs, has snapshots, has saved memory; None
        if libvirt must answer.
    :raises libvirt.libvirtError: the domain cannot be read.
    """
    texts = [domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)]
    if domain.isActive() if active is None else active:
        texts.append(domain.XMLDesc(0))
    # Add the records of snapshots that a move has written into the metadata and not yet given
    # back to libvirt.
    texts += dict.fromkeys(each for text in list(texts) for each, dummy in carried(text))
    for read, wanted in ((_texts_of_snapshots, snapshots), (_texts_of_saved, saved)):
        try:
            texts += read(domain, wanted)
        except libvirt.libvirtError as exc:
            # The driver does not support snapshots or saved memory.
            if binding.code_of(exc) != libvirt.VIR_ERR_NO_SUPPORT:
                raise
    return texts


def _texts_of_snapshots(domain: Any, wanted: bool | None) -> list[str]:
    there = domain.snapshotNum(0) if wanted is None else wanted
    return [snapshot.getXMLDesc(0) for snapshot in domain.listAllSnapshots(0)] if there else []


def _texts_of_saved(domain: Any, wanted: bool | None) -> list[str]:
    """Return the XML of the saved memory. The next start has the devices of this XML."""
    there = domain.hasManagedSaveImage(0) if wanted is None else wanted
    return [domain.managedSaveGetXMLDesc(0)] if there else []
