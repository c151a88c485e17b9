# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The arguments of the event source, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._validation import check_keys

DEFAULT_URI = "qemu+ssh://root@{address}/system"


@dataclasses.dataclass(frozen=True)
class Options:
    """hosts: {name: URI}, or None where they are those of the store."""

    hosts: Mapping[str, str] | None = None
    store_url: str | None = None
    uri: str = DEFAULT_URI
    silent_seconds: float = 20
    flap_seconds: float = 300
    poll_seconds: float = 5
    audit_seconds: float = 0

    @classmethod
    def of_args(cls, args: Mapping[str, Any]) -> Options:
        """Read them from the arguments of a source.

        :raises DroverError: one is unknown, missing or wrong.
        """
        known = {each.name for each in dataclasses.fields(cls)}
        given = {name: value for name, value in args.items() if name != "eda_feedback_queue" and value is not None}
        check_keys("The event source drover.compute.fleet", given, known)
        for name in known & set(given):
            if name.endswith("_seconds"):
                given[name] = _seconds(name, given[name])
        if given.get("poll_seconds") == 0:
            raise DroverError("poll_seconds of the event source must be more than 0.")
        uri = given.get("uri", DEFAULT_URI)
        hosts = given.get("hosts")
        if not hosts and not given.get("store_url"):
            raise DroverError(
                "The event source drover.compute.fleet has nothing to watch. Give it store_url (the hosts of the store), or hosts (names, or a "
                "mapping of names to libvirt URIs)."
            )
        if isinstance(hosts, str):
            hosts = [each.strip() for each in hosts.split(",") if each.strip()]
        if isinstance(hosts, list):
            hosts = {str(each): fill(uri, str(each), str(each)) for each in hosts}
        if hosts is not None and not isinstance(hosts, Mapping):
            raise DroverError("hosts of the event source must be a list of names, or a mapping of names to libvirt URIs.")
        if not given.get("store_url") and given.get("audit_seconds"):
            raise DroverError("audit_seconds of the event source needs store_url, as the audit reads the store.")
        return cls(**{**given, "hosts": hosts and {str(name): str(value) for name, value in hosts.items()}})


def fill(uri: str, host: str, address: str) -> str:
    """Return the URI of a host: {host} is its name, {address} its address."""
    shown = f"[{address}]" if ":" in address else address
    return uri.replace("{host}", host).replace("{address}", shown)


def _seconds(name: str, value: Any) -> float:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1
    if isinstance(value, bool) or not 0 <= seconds < float("inf"):
        raise DroverError(f"{name} of the event source must be a number of seconds, 0 or more, not {value!r}.")
    return seconds
