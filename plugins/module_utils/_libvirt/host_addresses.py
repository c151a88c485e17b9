# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The addresses of this host that other hosts may see, from the kernel.

Private to the collection. Sources: Linux, Documentation/filesystems/proc.rst (``/proc/net``);
fib_trie lists an address of the host as ``/32 host LOCAL``.
"""

from __future__ import annotations

import ipaddress

IPV4, IPV6 = "/proc/net/fib_trie", "/proc/net/if_inet6"


def read(ipv4: str = IPV4, ipv6: str = IPV6) -> list[str]:
    """Return the unicast addresses of this host, sorted, without loopback, link-local and
    unspecified addresses.
    """
    addresses: set[ipaddress.IPv4Address | ipaddress.IPv6Address] = {
        *_of_fib_trie(_text(ipv4)),
        *_of_if_inet6(_text(ipv6)),
    }
    return sorted(
        str(each)
        for each in addresses
        if not (each.is_loopback or each.is_link_local or each.is_multicast or each.is_unspecified)
    )


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        # The host has no IPv6.
        return ""


def _of_fib_trie(text: str) -> set[ipaddress.IPv4Address]:
    addresses, last = set(), ""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["|--"] and len(words) == 2:
            last = words[1]
        elif words[:3] == ["/32", "host", "LOCAL"] and last:
            addresses.add(ipaddress.IPv4Address(last))
    return addresses


def _of_if_inet6(text: str) -> set[ipaddress.IPv6Address]:
    return {
        ipaddress.IPv6Address(int(line.split()[0], 16))
        for line in text.splitlines()
        if line.strip()
    }
