# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the event source, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from .._common.errors import DroverError
from .._common.validation import MOST, check_keys, shown, why_no_uri

DEFAULT_URI = "qemu+ssh://root@{address}/system"


@dataclasses.dataclass(frozen=True)
class WatchOptions:
    """hosts: {name: URI}, or None for the hosts of the store."""

    hosts: Mapping[str, str] | None = None
    store_url: str | None = None
    uri: str = DEFAULT_URI
    silent_seconds: float = 20
    flap_seconds: float = 300
    poll_seconds: float = 5
    audit_seconds: float = 0

    @classmethod
    def of_args(cls, args: Mapping[str, Any]) -> WatchOptions:
        """Read the options from the arguments of a source.

        :raises DroverError: an argument is unknown, missing or wrong.
        """
        names = {each.name for each in dataclasses.fields(cls)}
        values = {
            name: value
            for name, value in args.items()
            if name != "eda_feedback_queue" and value is not None
        }
        check_keys("The event source drover.compute.fleet", values, names)
        for name in names & set(values):
            if name.endswith("_seconds"):
                values[name] = _seconds(name, values[name])
        if values.get("poll_seconds") == 0:
            raise DroverError("poll_seconds of the event source must be more than 0.")
        uri = values.get("uri", DEFAULT_URI)
        if not isinstance(uri, str) or not uri.strip():
            raise DroverError(
                f"uri of the event source must be a libvirt URI, such as {DEFAULT_URI}, not"
                f" {shown(uri)}."
            )
        hosts = _hosts(values.get("hosts"), uri)
        if not hosts and not values.get("store_url"):
            raise DroverError(
                "The event source drover.compute.fleet has nothing to watch. Give it store_url (the"
                " hosts of the store), or hosts (names, or a mapping of names to libvirt URIs)."
            )
        if not values.get("store_url") and values.get("audit_seconds"):
            raise DroverError(
                "audit_seconds of the event source needs store_url, as the audit reads the store."
            )
        return cls(**{**values, "hosts": hosts or None})


def _hosts(given: Any, uri: str) -> dict[str, str]:
    """Return the URI of each host, made from ``uri`` if the host has no URI."""
    if isinstance(given, str):
        given = [each.strip() for each in given.split(",") if each.strip()]
    if isinstance(given, list):
        odd = [each for each in given if not isinstance(each, (str, int))]
        if odd:
            raise DroverError(f"hosts of the event source must be names, not {shown(odd[0])}.")
        given = {str(each): None for each in given}
    if given is not None and not isinstance(given, Mapping):
        raise DroverError(
            "hosts of the event source must be a list of names, or a mapping of names to libvirt"
            " URIs."
        )
    uris = {}
    for name, own in (given or {}).items():
        if not isinstance(name, str) or not name.strip() or not isinstance(own, (str, type(None))):
            raise DroverError(
                "hosts of the event source must be names, or names with libvirt URIs, not"
                f" {shown({name: own})}."
            )
        uris[name] = own or fill(uri, name, name)
        if problem := why_no_uri(uris[name]):
            raise DroverError(
                f"The libvirt URI of {name}, {shown(uris[name])}, cannot be read: {problem}."
                " Correct hosts or uri of the event source."
            )
    return uris


def fill(uri: str, host: str, address: str) -> str:
    """Return the URI of a host: {host} is its name, {address} its address."""
    shown = f"[{address}]" if ":" in address else address
    return uri.replace("{host}", host).replace("{address}", shown)


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1
    if isinstance(value, bool) or not 0 <= seconds <= MOST:
        raise DroverError(
            f"{name} of the event source must be a number of seconds from 0 to {MOST}, not"
            f" {value!r}."
        )
    return seconds
