# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pools of routed IP addresses, as the operator defines them with the hosts that reach them.

Data in, data out. See docs/shared-storage.md.
"""

from __future__ import annotations

import ipaddress
import itertools

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError

_LONGEST_NAME = 150


def describe(value, where):
    """The pools of a node.

    :param value: the option ip_pools: None, or a list of mappings with name and addresses (networks as
        10.0.0.0/24, ranges as 10.0.0.10-10.0.0.20, or single addresses).
    :returns: dict name -> {"addresses": list of texts in one spelling, "total": how many they are}.
    :raises DroverError: malformed, a name or an address stands twice, IPv6.
    """
    if not isinstance(value or [], list) or not all(isinstance(pool, dict) for pool in value or []):
        raise DroverError(f"{where}: ip_pools must be a list of mappings with name and addresses, not {value!r}.")
    found, taken = {}, []
    for pool in value or []:
        name = pool.get("name")
        if not isinstance(name, str) or not 0 < len(name) <= _LONGEST_NAME or not name.isprintable():
            raise DroverError(
                f"{where}: the name of an IP pool must be a text of 1 to {_LONGEST_NAME} characters, not {name!r}."
            )
        place = f"{where}: ip_pools, {name}"
        unknown = sorted(map(str, set(pool) - {"name", "addresses"}))
        if unknown:
            raise DroverError(f"{place}: unknown key {', '.join(unknown)}. Known: addresses, name.")
        if name in found:
            raise DroverError(f"{place} stands twice. Give the pool all its addresses in one place.")
        addresses = pool.get("addresses")
        if not isinstance(addresses, list) or not addresses:
            raise DroverError(f"{place}: addresses must be a list such as [10.0.0.0/24, 10.1.0.10-10.1.0.20].")
        ranges = sorted((*_range(text, place), name) for text in addresses)
        taken.extend(ranges)
        found[name] = {
            "addresses": [_spelled(first, last) for first, last, dummy in ranges],
            "total": sum(last - first + 1 for first, last, dummy in ranges),
        }
    _refuse_twice(sorted(taken), where)
    return found


def _range(text, place):
    """First and last address, as numbers. Of a network they are those that a host may have."""
    try:
        if isinstance(text, str) and "/" in text:
            network = ipaddress.ip_network(text.strip())
            first, last = network.network_address, network.broadcast_address
            if network.version == 4 and network.prefixlen < 31:
                first, last = first + 1, last - 1
        else:
            first, dash, last = str(text).partition("-")
            first = ipaddress.ip_address(first.strip())
            last = ipaddress.ip_address(last.strip()) if dash else first
        if {first.version, last.version} != {4}:
            raise DroverError(
                f"{place}: {text} is IPv6. There is a resource class for IPv4 addresses only (IPV4_ADDRESS); "
                "make a custom one with drover.compute.resource_provider."
            )
    except ValueError as problem:
        raise DroverError(
            f"{place}: {text!r} is no network, range or address ({problem}). "
            "Write 10.0.0.0/24, 10.0.0.10-10.0.0.20 or 10.0.0.5."
        ) from None
    if last < first:
        raise DroverError(f"{place}: {text} runs backwards. Write the lower address first.")
    return int(first), int(last)


def _spelled(first, last):
    first, last = ipaddress.IPv4Address(first), ipaddress.IPv4Address(last)
    return str(first) if first == last else f"{first}-{last}"


def _refuse_twice(ranges, where):
    for before, after in itertools.pairwise(ranges):
        if after[0] <= before[1]:
            pools = " and ".join(sorted({before[2], after[2]}))
            raise DroverError(
                f"{where}: ip_pools, {pools}: {ipaddress.IPv4Address(after[0])} stands twice. "
                "An address can be given out once only."
            )
