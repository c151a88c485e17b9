# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines of hosts in the store, for the comparison with each answer of a host."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping

from ansible_collections.drover.compute.plugins.module_utils._libvirt import machine as _machine

from .._common.errors import DroverError
from .._management_controllers import identity
from .._store.engine import Store
from .._store.hosts import compute_nodes


class Machines:
    """The expected machines of one task, each read once.

    :param store: a function that opens the store.
    :param exchanged: hosts with an exchanged machine, by the word of a person: for these any
        machine is accepted.
    """

    def __init__(self, store: Callable[[], Store], exchanged: Iterable[str] = ()) -> None:
        self._store = store
        self._known = {host: _machine.read_expected({"host": host}) for host in exchanged}

    def learn(self, hosts: Iterable[str]) -> None:
        """Read the machines of hosts in one query, before single looks at them."""
        unknown = set(hosts) - set(self._known)
        if not unknown:
            return
        try:
            with self._store().read() as connection:
                identities = compute_nodes.telling_identities(connection, unknown)
        except DroverError:
            # The store does not exist yet, or is lost: the next step reports that.
            return
        self._known.update(
            {
                host: _machine.read_expected({"host": host, **identities.get(host, {})})
                for host in unknown
            }
        )

    def environment(self, host: str) -> dict[str, str]:
        """Return the variables of the environment that a module on a host needs."""
        expected = self.expected(host)
        return {_machine.EXPECTED: json.dumps(expected)} if expected else {}

    def refusal(self, host: str, result: Mapping[str, object]) -> str | None:
        """Return the reason why a result does not come from a host, or None.

        :param result: the result of a module on the host; a module of Ansible names no machine.
        """
        if result.get("not_this_host"):
            return str(result.get("msg") or "another machine answers")
        expected, machine = self.expected(host), _machine.read_machine(result.get("machine"))
        if not expected or machine is None or machine["verdict"]:
            return None
        # The environment did not reach the module.
        return (
            _machine.refusal(expected, machine, "")
            if _machine.judge(expected, machine) == _machine.OTHER
            else None
        )

    def why_not_switched(self, host: str, uuids: Collection[str], own: str) -> str | None:
        """Return the reason why a power driver does not belong to a host, or None; see
        identity.refusal().

        :param uuids: the forms of the uuid of the machine that the driver switches; empty if it
            reports none.
        :param own: the uuid in the variables of the host, or an empty text.
        """
        if not host or not uuids or self.expected(host) is None:
            return identity.refusal(host, uuids, None, own, None)
        with self._store().read() as connection:
            # A driver reports no machine id. The uuid of a twin is not the uuid of a third machine.
            found = compute_nodes.identities(connection, [host]).get(host, {})
            expected = _machine.read_expected({"host": host, **found})
            if identity.refusal(host, uuids, expected, own, None) is None:
                return None
            others = compute_nodes.hosts_of_machines(connection, uuids) - {host}
        return identity.refusal(host, uuids, expected, own, ", ".join(sorted(others)) or None)

    def expected(self, host: str) -> _machine.ExpectedMachine | None:
        """Return the machine of a host in the store; None without one."""
        self.learn([host])
        machine = self._known.get(host)
        return (
            machine
            if machine
            and any(
                machine[key]
                for key in ("host_uuids", "system_uuids", "firmware_uuids", "machine_ids")
            )
            else None
        )
