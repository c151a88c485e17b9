# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pick hosts, and record a refusal in the store."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    STORE_SPEC,
    StoreArgs,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.conducting import (
    ConductorAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lease_holder import (
    LeaseHolder,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.options import (
    Variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.scheduler_options import (
    SCHEDULER_SPEC,
    SchedulerArgs,
    policy_of,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    natural,
    said_once,
    some,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import refusals, scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.starting import Starting
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import guest, keeping
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._report.placing import schedule_lines
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import compute_nodes

#: Hosts that cannot build an instance, each with the reasons.
Reasons = Mapping[str, list[str]]


class Args(SchedulerArgs, StoreArgs):
    """The arguments of this action."""

    requests: list[Any]
    sections: Any
    networks: list[Any]
    guests: list[Any]


class ActionModule(ConductorAction[Args]):
    ARGUMENT_SPEC = {
        "requests": {"type": "list", "elements": "dict", "required": True},
        "sections": {"type": "dict", "default": {}},
        "networks": {"type": "list", "elements": "raw", "default": []},
        "guests": {"type": "list", "elements": "dict", "default": []},
        **SCHEDULER_SPEC,
        **STORE_SPEC,
    }
    VARIABLES = ("service_down_time",)
    _requires_connection = False

    def conduct(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        now, store = time.time(), self.store(args, task_vars)
        proofs = Starting(self.ports(args, task_vars))
        requests, looked_at = self._find_free_hosts(proofs, args["requests"], args, task_vars)
        policy = policy_of(args, task_vars)
        # In check mode the task before this one has recorded nothing. Record its sections here, and
        # roll them back.
        sections = args["sections"] if self._task.check_mode else {}
        with contextlib.ExitStack() as stack:
            stack.enter_context(
                refusals.kept(store, claims.PURPOSE, LeaseHolder.of_this_task().holder, now)
            )
            connection = stack.enter_context(
                store.write() if any(sections.values()) else store.read()
            )
            keeping.keep(connection, sections, now)
            placements = scheduling.decide(
                connection, requests, policy, now, args["service_down_time"]
            )
        if looked_at is not None and not proofs.reads_all():
            # The cells of the new instances are known only now, and with them the looks that are
            # needed.
            self._see_none(
                proofs,
                args["requests"],
                {
                    place["host"]
                    for each in placements
                    for place in (each, *(each.get("alternates") or ()))
                },
            )
        return {
            "changed": False,
            "selections": placements,
            "lines": schedule_lines(placements),
            "looked_at": looked_at,
        }

    def _see_none(
        self,
        proofs: Starting,
        requests: Sequence[Mapping[str, Any]],
        hosts: Collection[str] = (),
        plugs: Mapping[str, Collection[str]] | None = None,
    ) -> tuple[list[str], dict[str, dict[str, str]]]:
        """Check that no host has a new instance already, see Starting.refuse_namesakes()."""
        names = {str(each["name"]): each.get("uuid") for each in requests if each.get("name")}
        silent, lacking = proofs.refuse_namesakes(names, plugs, hosts)
        if silent:
            self.show(
                f"Not read, as they do not answer: {some(silent)}. What is new is not looked for"
                " there."
            )
        return silent, lacking

    def _find_free_hosts(
        self,
        proofs: Starting,
        requests: Sequence[Mapping[str, Any]],
        args: Args,
        task_vars: Variables,
    ) -> tuple[Sequence[Mapping[str, Any]], float | None]:
        """Check that no host has a new instance already, and find hosts that can build each.

        :returns: the requests, without hosts that lack a network or a kind of guest; and the time
            of the look.
        """
        if not any(each.get("name") for each in requests):
            return requests, None
        ports, began = self.ports(args, task_vars), time.time()
        plugs = {
            f"{kind}s": {
                each[kind] for networks in args["networks"] for each in networks if each.get(kind)
            }
            for kind in ("network", "bridge")
        }
        silent, lacking = self._see_none(proofs, requests, plugs=plugs)
        with self.store(args, task_vars).read() as connection:
            kinds = compute_nodes.guest_kinds(connection)
        # In a large fleet, not all hosts are read.
        every = (
            set(lacking)
            if len(lacking) + len(silent) >= len(ports.hosts.names())
            else {*lacking, *ports.hosts.names()}
        )
        pairs = zip_longest(requests, args["networks"], args["guests"])
        candidates = every & set(kinds) or every
        return [
            _kept_off(
                request,
                _without_networks(networks or (), lacking),
                _without_hardware(given or {}, request, kinds),
                candidates,
            )
            for request, networks, given in pairs
        ], began


def _without_networks(
    networks: Sequence[Mapping[str, str]], lacking: Mapping[str, Mapping[str, str]]
) -> Reasons:
    """Return the hosts that lack a network or a bridge of an instance, each with the reasons."""
    plugs = [
        f"{kind} {each[kind]}"
        for each in networks
        for kind in ("network", "bridge")
        if each.get(kind)
    ]
    return {
        host: [missing[each] for each in plugs if each in missing]
        for host, missing in lacking.items()
    }


def _without_hardware(
    given: Mapping[str, object], request: Mapping[str, Any], kinds: compute_nodes.Kinds
) -> Reasons:
    """Return the hosts without a node that can run a guest, each with the reasons."""
    by_host = {}
    for host, nodes in kinds.items():
        reasons = [
            guest.lacking(given, int(request.get("vcpus") or 1), arch, offered)
            for arch, offered in nodes
        ]
        by_host[host] = reasons[0] if all(reasons) else []
    return by_host


def _kept_off(
    request: Mapping[str, Any], of_networks: Reasons, of_hardware: Reasons, every: set[str]
) -> Mapping[str, Any]:
    """Return a request that excludes the hosts that cannot build its instance.

    :param every: the hosts that may get it.
    :raises DroverError: no host can build it.
    """
    both = {
        host: [*of_networks.get(host, ()), *of_hardware.get(host, ())]
        for host in {*of_networks, *of_hardware}
    }
    without = {host: why for host, why in both.items() if why}
    forced = request.get("force_hosts") or []
    candidates = {forced} if isinstance(forced, str) else set(forced) or every
    if without and candidates <= set(without):
        reasons = " ".join(
            said_once(
                (host, f"{host}: {'; '.join(without[host])}.")
                for host in sorted(candidates, key=natural)
            )
        )
        key = "" if any(of_hardware.get(host) for host in candidates) else "networks of "
        raise DroverError(
            f"Instance {request['name']} cannot be built on any host: {reasons} Or correct {key}its"
            " definition. Nothing was placed."
        )
    if not without:
        return request
    ignored = request.get("ignore_hosts") or []
    return {
        **request,
        "ignore_hosts": [
            *([ignored] if isinstance(ignored, str) else ignored),
            *sorted(without, key=natural),
        ],
    }
