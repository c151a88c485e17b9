# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions of a discovery to one host: the module hypervisor_info for each of its URIs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .._common.errors import DroverError
from .._common.validation import default_migration_uri
from .._definitions import hardware_fields
from .._store.engine import Store
from .._store.hosts import compute_nodes
from .._tracker import sharing_facts
from .ports import Hand


class ReadingRequest(NamedTuple):
    """The hypervisors of a host, and the check of its way to others.

    - uris: the URIs of libvirt.
    - peers: the hosts that it must reach for migrations; None without this check.
    """

    uris: Sequence[str]
    peers: Sequence[str] | None = None


class ModuleFailed(DroverError):
    """The module that reads a host failed. ran_there: it ran on the host, and failed there."""

    def __init__(self, message: str, ran_there: bool) -> None:
        super().__init__(message)
        self.ran_there = ran_there


class HostReading:
    """The reading of one host.

    :param options: the options of _tracker.node_options.
    """

    def __init__(
        self,
        store: Store,
        hand: Hand,
        host: str,
        request: ReadingRequest,
        options: Mapping[str, Any],
    ) -> None:
        self._store, self._hand, self._host = store, hand, host
        self._request, self._options = request, options

    def answers(self, warnings: list[str]) -> list[Any]:
        """Return the facts of each URI, without any check.

        :param warnings: gets the warnings of the modules.
        :raises Unreachable: the host cannot be reached.
        :raises ModuleFailed: a module failed.
        :raises DroverError: there is no URI.
        """
        if not self._request.uris:
            raise DroverError(
                f"Host {self._host}: uris is empty. Name a libvirt URI, such as qemu:///system."
            )
        return [self._facts(uri, warnings) for uri in self._request.uris]

    def _facts(self, uri: str, warnings: list[str]) -> Any:
        result = self._hand.read("hypervisor_info", self._questions(uri))
        if result.get("failed"):
            # Only a module on the host itself names its machine.
            raise ModuleFailed(
                result.get("msg") or "hypervisor_info failed without a message",
                bool(result.get("machine")),
            )
        warnings += result.get("warnings") or []
        found = result["hypervisor"]
        # Use the URI of this task, whatever the host reports.
        return {**found, "uri": uri} if isinstance(found, dict) else found

    def _questions(self, uri: str) -> dict[str, Any]:
        options = self._options
        questions: dict[str, Any] = {
            "uri": uri,
            "instances_path": options["instances_path"],
            "shared_pools": sorted(
                sharing_facts.declared(options["shared_pools"], f"Host {self._host}")
            ),
        }
        if options["probe_kvm"] and options["domain_type"] != "qemu":
            questions["probe_kvm"] = True
            if options["cpu"] and options["cpu"]["mode"] != hardware_fields.FLEET:
                questions["probe_cpu"] = options["cpu"]
        # Check this once for each host, because it concerns SSH and not one libvirt.
        if self._request.peers is not None and uri == self._request.uris[0]:
            questions["migration_trust"] = {
                "host": self._host,
                "peers": self._peers(self._request.peers),
            }
        return questions

    def _peers(self, names: Sequence[str]) -> list[dict[str, object]]:
        """Return other hypervisors, each with host and uri.

        The last discovery recorded that URI.

        A host that was never discovered has the default URI. It has none if the host of this task
        has another URI than the default, because then that host may have another one too. The
        evaluation of so many hosts' variables in the task of each host takes longer than the
        discovery.
        """
        try:
            with self._store.read() as connection:
                uris = compute_nodes.migration_uris(connection, names)
        except DroverError:
            # No store exists yet; the recording makes it, or reports the problem.
            uris = {}
        usual = self._options["migration_uri"] is None and self._request.uris[0].startswith("qemu")
        return [
            {
                "host": name,
                "uri": (
                    uris[name] if name in uris else (default_migration_uri(name) if usual else None)
                ),
            }
            for name in names
        ]
