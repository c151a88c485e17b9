# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The uuids of the mediated devices of this collection. The uuid alone proves that this collection
made the device.

Private to the collection. Other programs make mediated devices too. On every version of libvirt and
of the kernel, the uuid is the only attribute that stays with a device.
"""

from __future__ import annotations

import hashlib
import uuid

_MADE = b"https://drover.compute/mediated-device/"


def made_for(instance: str, parent: str, kind: str, number: int) -> str:
    """Return the uuid of a new mediated device for an instance.

    The version of the uuid is 8 (RFC 9562). The last 48 bits are a digest of the other bits, see
    is_ours().

    :param instance: the uuid of the instance.
    :param parent: libvirt's name of the parent device, such as ``pci_0000_84_00_0``.
    :param kind: the type of the device, such as ``nvidia-35``.
    :param number: the number among devices with the same other arguments, from 0.
    """
    head = bytearray(
        hashlib.sha256(_MADE + f"{instance.lower()}/{parent}/{kind}/{number}".encode()).digest()[
            :10
        ]
    )
    head[6] = head[6] & 0x0F | 0x80
    head[8] = head[8] & 0x3F | 0x80
    return str(uuid.UUID(bytes=bytes(head) + _mark(bytes(head))))


def is_ours(given: str) -> bool:
    """Return True if made_for() made a uuid. A random uuid of this version passes with a chance of
    1 in 2 to the power of 48.
    """
    try:
        parsed = uuid.UUID(given)
    except ValueError:
        return False
    return parsed.version == 8 and parsed.bytes[10:] == _mark(parsed.bytes[:10])


def _mark(head: bytes) -> bytes:
    return hashlib.sha256(_MADE + head).digest()[:6]
