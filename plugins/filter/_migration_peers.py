# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter migration_peers: how the hosts of a fleet reach each other for migrations."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.module_utils._migration.trust import (
    TrustProblem,
    destination,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import (
    default_migration_uri,
)


def migration_peers(
    hosts: Sequence[str], hostvars: Mapping[str, Any], keys: bool = True
) -> list[dict[str, Any]]:
    """See _migration_peers.yml."""
    if not keys:
        return [{"host": name, "uri": migration_uri(name, hostvars[name])} for name in hosts]
    peers = [_peer(name, hostvars[name]) for name in hosts]
    _refuse_shared_limits(peers)
    return peers


def _peer(host: str, variables: Mapping[str, object]) -> dict[str, object]:
    uri = migration_uri(host, variables)
    own, root = (
        _variable(variables, "hypervisor_account") or {},
        _variable(variables, "hypervisor_root") or {},
    )
    accounts = [each for each in (own, root) if each.get("user")]
    try:
        where = destination(uri) if uri else None
    except TrustProblem as problem:
        raise AnsibleFilterError(
            f"Host {host}: {problem}. Set up its SSH by hand, or set a plain drover_migration_uri."
            " No line was written."
        ) from None
    if where and where.user and where.user not in [each["user"] for each in accounts]:
        raise AnsibleFilterError(
            f"Host {host}: its drover_migration_uri logs in as {where.user}, but Ansible works"
            f" there as {' and '.join(each['user'] for each in accounts)}. Let both use the same"
            " account, or set up its SSH by hand. No line was written."
        )
    return {
        "host": host,
        "uri": uri,
        "keys": [{"user": each["user"], "public_key": each["public_key"]} for each in accounts],
        "host_keys": list(own.get("host_keys") or ()),
        "sources": _sources(host, _variable(variables, "drover_migration_source")),
    }


def migration_uri(host: str, variables: Mapping[str, object]) -> str | None:
    """Return the URI by which other hosts reach a host, as discovery records it."""
    uri = _variable(variables, "drover_migration_uri")
    if uri:
        return str(uri)
    local = _variable(variables, "drover_uris") or ["qemu:///system"]
    return default_migration_uri(host) if str(local[0]).startswith("qemu") else None


def _variable(variables: Mapping[str, object], name: str) -> Any:
    # Ansible's hostvars has no get().
    return to_plain(variables[name]) if name in variables else None


def _sources(host: str, value: Any) -> list[str]:
    try:
        addresses = [value] if isinstance(value, str) else list(value or ())
        return [
            str(ipaddress.ip_network(each)) if "/" in each else str(ipaddress.ip_address(each))
            for each in addresses
        ]
    except (TypeError, ValueError) as problem:
        raise AnsibleFilterError(
            f"Host {host}: drover_migration_source: {problem}. Give the addresses or networks from"
            " which it connects to other hosts, such as 10.0.0.11 or 10.0.0.0/24. No line was"
            " written."
        ) from None


def _refuse_shared_limits(peers: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a limit on a key that several hosts have: sshd takes the first line of a key, and
    would refuse the other hosts.
    """
    owners: dict[str, list[Mapping[str, Any]]] = {}
    for each in peers:
        for key in {key["public_key"] for key in each["keys"] if key["public_key"]}:
            owners.setdefault(key, []).append(each)
    for shared in owners.values():
        if len(shared) > 1 and any(each["sources"] != shared[0]["sources"] for each in shared):
            raise AnsibleFilterError(
                f"{', '.join(each['host'] for each in shared)} have the same SSH key, which"
                " drover_migration_source cannot limit to one of them. Give each host a key of its"
                " own, or leave out drover_migration_source. No line was written."
            )


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_migration_peers": migration_peers}
