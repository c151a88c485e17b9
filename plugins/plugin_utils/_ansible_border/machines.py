# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machines that the store has for hosts, which each answer of a host is compared with."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils import _machine
from ansible_collections.drover.compute.plugins.plugin_utils._errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import compute_nodes
from ansible_collections.drover.compute.plugins.plugin_utils._store.engine import Store


class Machines:
    """The expected machines of one task, each read once.

    :param store: opens the store.
    """

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._known: dict[str, _machine.Expected] = {}

    def environment(self, host: str) -> dict[str, str]:
        """Return the variables of the environment that a module on a host needs."""
        expected = self._expected(host)
        return {_machine.EXPECTED: json.dumps(expected)} if expected else {}

    def refusal(self, host: str, result: Mapping[str, Any]) -> str | None:
        """Return why a result is not of a host, or None.

        :param result: of a module on the host; a module of Ansible's own names no machine.
        """
        if result.get("not_this_host"):
            return str(result.get("msg") or "another machine answers")
        expected, machine = self._expected(host), _machine.read_machine(result.get("machine"))
        if not expected or machine is None or machine["verdict"]:
            return None
        # The environment did not reach the module.
        return _machine.refusal(expected, machine, "") if _machine.judge(expected, machine) == _machine.OTHER else None

    def _expected(self, host: str) -> _machine.Expected | None:
        if host not in self._known:
            try:
                with self._store().read() as connection:
                    found = compute_nodes.machine(connection, host)
            except DroverError:
                # There is no store yet, or it is lost: what follows says so.
                return None
            self._known[host] = _machine.read_expected({"host": host, **found})
        known = self._known[host]
        return known if any(known[key] for key in ("host_uuids", "system_uuids", "machine_ids")) else None
