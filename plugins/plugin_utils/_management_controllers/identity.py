# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison of the machine of a power driver with the machine of a host in the store.

A driver usually reports the uuid of the firmware. Firmwares and controllers write its first three
fields in both byte orders, and IPMI has the whole uuid backwards.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine


def of_text(text: object) -> list[str]:
    """Return the forms of a uuid in text; empty if it is not a uuid, or if all machines of a maker
    share it.
    """
    plain = machine.plain_uuid(text) if isinstance(text, str) else None
    return _orders(uuid.UUID(plain).bytes) if plain else []


def of_bytes(data: bytes) -> list[str]:
    """Return the forms of a uuid in the 16 bytes of IPMI; empty as in of_text()."""
    if len(data) != 16 or machine.plain_uuid(str(uuid.UUID(bytes=data))) is None:
        return []
    return list(dict.fromkeys([*_orders(data), *_orders(data[::-1])]))


def refusal(
    host: str,
    uuids: Collection[str],
    expected: machine.ExpectedMachine | None,
    own: str,
    owner: str | None,
) -> str | None:
    """Return the reason why a driver belongs to another machine than the host, None if it belongs
    to the host or if this is unknown.

    :param uuids: the forms of the uuid that it reports, the usual one first.
    :param expected: the machine of the host in the store.
    :param own: the uuid in the inventory for this host and driver (drover_power_uuid), or an empty
        text.
    :param owner: the other host with that uuid in the store, None if there is none.
    """
    if not uuids:
        return None
    own_uuids = [own.lower()] if own else _expected_uuids(expected)
    if not own_uuids or set(own_uuids) & set(uuids):
        return None
    first = next(iter(uuids))
    source = "drover_power_uuid is" if own else f"the store has for {host}"
    return (
        f"it switches another machine than {host}{f', {owner}' if owner else ''}: it tells the uuid"
        f" {first}, and {source} {' and '.join(own_uuids)}. Nothing was sent to it. Correct"
        f" drover_power_address (or drover_power_resource_id, drover_power_domain) of {host}. If it"
        " is the right one and tells another uuid than the machine itself, set drover_power_uuid"
        f" to {first} in the variables of {host}. If the machine was exchanged:"
        f" {machine.replace_command(host)}"
    )


def _expected_uuids(expected: machine.ExpectedMachine | None) -> list[str]:
    if expected is None:
        return []
    return list(
        dict.fromkeys(
            [*expected["firmware_uuids"], *expected["system_uuids"], *expected["host_uuids"]]
        )
    )


def _orders(data: bytes) -> list[str]:
    return list(dict.fromkeys([str(uuid.UUID(bytes=data)), str(uuid.UUID(bytes_le=data))]))
