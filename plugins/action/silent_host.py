# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a host answers, whom to ask about one that does not, and what to do about it."""

from __future__ import annotations

import dataclasses
import time
import urllib.parse

from ansible_collections.drover.compute.plugins.module_utils import _probe
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import STORE_SPEC, DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, refuse_unknown_rules
from ansible_collections.drover.compute.plugins.plugin_utils.planner import fencing, host_answer
from ansible_collections.drover.compute.plugins.plugin_utils.store import clock, evacuations, hosts, power, services

# Enough to see that it is not just one link; each may cost the time of a timeout.
WITNESSES = 3
DISKS = 32
# Seconds that this controller waits for the host's TCP.
PATIENCE = 5
LIMITS = {each.name: each.default for each in dataclasses.fields(fencing.Limits)}


class ActionModule(DroverAction):
    ARGUMENT_SPEC = {
        "host": {"type": "str", "required": True},
        "state": {"type": "str", "choices": ["answered", "asked", "decided"], "default": "decided"},
        "tried": {"type": "dict", "default": {}},
        "others": {"type": "list", "elements": "str", "default": []},
        "ssh": {"type": "bool", "default": False},
        "refused": {"type": "bool", "default": False},
        "unclear": {"type": "str", "default": ""},
        "seen": {"type": "list", "elements": "dict", "default": []},
        "power": {"type": "str", "choices": ["on", "off", "unknown", "none"], "default": "none"},
        "said": {"type": "bool", "default": False},
        "soft_fenced": {"type": "bool", "default": False},
        "force": {"type": "list", "elements": "str", "default": []},
        **{name: {"type": "int", "default": default} for name, default in LIMITS.items()},
        **STORE_SPEC,
    }
    _requires_connection = False

    def act(self, args, task_vars):
        if args["state"] == "answered":
            return _answer(args, (task_vars.get("hostvars") or {}).get(args["host"], {}))
        with self.store(args, task_vars).read() as connection:
            service = services.get(connection, args["host"])
            if args["state"] == "asked":
                return self._whom_to_ask(connection, args, task_vars)
            return _decide(connection, service, args)

    def _whom_to_ask(self, connection, args, task_vars):
        found = {each["host"]: each for each in hosts.listing(connection, clock.now(connection))}
        others = sorted(set(args["others"]) - {args["host"]})
        up = [name for name in others if name in found and found[name]["state"] == "up"]
        return {
            "peers": (up or others)[:WITNESSES],
            "addresses": _addresses(connection, args["host"], task_vars),
            "disks": _disks(connection, args["host"])[:DISKS],
        }


def _answer(args, variables):
    """Whether the host answers: a task was tried on it, and this controller looks whether its TCP answers."""
    said = host_answer.read(args["tried"])
    reached, seen = None, ""
    if not said.settled:
        address, port = str(variables.get("ansible_host") or args["host"]), variables.get("ansible_port") or 22
        reached, seen = _probe.reach(address, int(port), PATIENCE)
    answer = host_answer.judge(said, reached)
    return {"answer": answer, "reached": reached, "words": " ".join(f"{said.words}\n{seen}".split())}


def _addresses(connection, host, task_vars):
    """Where other hypervisors may reach a host, the way they migrate to it first.

    As its operator says: the name that it gives itself may be another's.
    """
    variables = (task_vars.get("hostvars") or {}).get(host, {})
    found = []
    for each in evacuations.addresses(connection, host):
        found += [urllib.parse.urlsplit(each["migration_uri"] or "").hostname, each["migration_address"]]
    return list(dict.fromkeys(str(each) for each in [*found, variables.get("ansible_host"), host] if each))


def _disks(connection, host):
    """Disks that nothing but an instance on this host may have in use."""
    instances = evacuations.instances(connection, host)
    elsewhere = set(evacuations.shown(connection, [each["uuid"] for each in instances], host))
    elsewhere |= {each["instance_uuid"] for each in evacuations.open_migrations(connection, host)}
    disks = [disk for each in instances if each["uuid"] not in elsewhere for disk in each["disks"] or []]
    return sorted(
        {
            disk["source"]
            for disk in disks
            if disk.get("source")
            and disk.get("type") in ("file", "block")
            and disk.get("device", "disk") == "disk"
            and not (disk.get("readonly") or disk.get("shareable"))
        }
    )


def _decide(connection, service, args):
    for name in LIMITS:
        if args[name] < 0:
            raise DroverError(f"{name} must be 0 or more, not {args[name]}.")
    refuse_unknown_rules(args["force"], fencing.LIFTABLE)
    now, host = clock.now(connection), args["host"]
    counted, down = power.looking_dead(connection, host)
    peers = {str(each.get("item")): each.get("reached") for each in args["seen"]}
    # One that cannot be asked looks dead from here as well.
    lost = {str(each.get("item")) for each in args["seen"] if each.get("unreachable")}
    storages = {each.get("storage") for each in args["seen"]}
    fenced = power.last_fencing(connection)
    evidence = fencing.Evidence(
        host=host,
        ssh=args["ssh"] and not args["refused"],
        refused=args["refused"],
        unclear=args["unclear"],
        peers=peers,
        storage=next((state for state in ("active", "silent") if state in storages), "unknown"),
        power=args["power"],
        said=args["said"],
        soft_fenced=args["soft_fenced"],
        maintenance=service.maintenance,
        hosts=len(counted | lost),
        down=len(down | lost),
        unseen=None if service.last_seen_up is None else max(0, now - service.last_seen_up),
        started=_uptime(),
        fenced=None if fenced is None else max(0, now - fenced),
    )
    limits = fencing.Limits(**{name: args[name] for name in LIMITS})
    decision = fencing.decide(evidence, limits, args["force"])
    return {"decision": decision.act, "rule": decision.rule, "sentence": decision.sentence}


def _uptime():
    """Seconds since this controller started, None where its clock does not tell."""
    try:
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    except (AttributeError, OSError):
        return None
