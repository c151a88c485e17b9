# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Addresses of management controllers, from the variable drover_power_address."""

from __future__ import annotations

import ipaddress
import re
import urllib.parse
from typing import NamedTuple

from .._common.errors import DroverError

_NAME = re.compile(
    r"(?=.{1,253}\Z)[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62})(?:\.[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,62}))*\.?"
)
_FORMS = (
    "Give a name or an IP address, with a port if need be: kvm1-bmc.example.com, 10.0.0.9:623,"
    " fd00::20 or [fd00::20]:623."
)


class Address(NamedTuple):
    """A name or an IP address without brackets, and a port."""

    host: str
    port: int

    @property
    def netloc(self) -> str:
        """The address in the form of a URL."""
        host = self.host.replace("%", "%25")
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def parse(text: str, default_port: int, scheme: str | None) -> Address:
    """Read an address.

    :param scheme: the scheme that may precede it (https); None if none may.
    :raises DroverError: it is not a valid address.
    """
    if "@" in text:
        # The text may contain a password, so it is not shown.
        raise DroverError(
            "drover_power_address has an @. A user and a password have variables of their own."
            f" {_FORMS}"
        )
    rest = text.strip()
    if "://" in rest:
        prefix, dummy, rest = rest.partition("://")
        if scheme is None or prefix.lower() != scheme:
            why = f"only {scheme} is possible" if scheme else "this driver takes none"
            raise _wrong(text, f"it begins with {prefix}://, and {why}")
        rest = rest[:-1] if rest.endswith("/") else rest
    if re.search(r"[/?#\\\s]", rest):
        raise _wrong(text, "it has more than a host and a port")
    ip = _ip(rest)
    if ip is not None:
        return Address(_usable(text, ip), default_port)
    try:
        parts = urllib.parse.urlsplit(f"//{rest}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _wrong(text, "its brackets or its port are wrong") from None
    if port == 0 or (port is None and rest.endswith(":")):
        raise _wrong(text, "its port is none")
    if rest.startswith("["):
        ip = _ip(rest[1 : rest.find("]")])
        if not isinstance(ip, ipaddress.IPv6Address) or not re.fullmatch(
            r"(:[0-9]+)?", rest[rest.find("]") + 1 :]
        ):
            raise _wrong(
                text, "brackets belong around an IPv6 address, and only a port may follow them"
            )
        return Address(_usable(text, ip), port or default_port)
    ip = _ip(host)
    if ip is not None:
        return Address(_usable(text, ip), port or default_port)
    if ":" in rest.removesuffix(f":{port}"):
        raise _wrong(text, "it is no IPv6 address")
    # Programs read a name of digits alone as an address: 10.1 is 10.0.0.1.
    if not _NAME.fullmatch(host) or re.fullmatch(
        r"(0[xX][0-9A-Fa-f]*|[0-9]+)\.?", host.rpartition(".")[2] or host
    ):
        raise _wrong(text, "it is neither a name nor an IP address")
    return Address(host, port or default_port)


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _usable(text: str, ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if ip.is_unspecified or ip.is_multicast:
        raise _wrong(text, "it is the address of no single machine")
    return str(ip)


def _wrong(text: str, why: str) -> DroverError:
    return DroverError(f"drover_power_address is {text}: {why}. {_FORMS}")
