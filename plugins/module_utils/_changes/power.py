# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The power state of domains: running, stopped or rebooted."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypedDict

from .._domain import power, reboot
from .._domain.facts import NamedDomain
from .._host.domains import read_domain
from .._host.facts import HostDomain
from .._libvirt import binding
from .._libvirt.binding import LibvirtProblem, host_name, libvirt
from .._orders import orders
from .._orders.records import Records


class _Options(TypedDict):
    """The options of the module."""

    domains: list[NamedDomain]
    state: str
    uri: str
    timeout: int
    force: bool
    hard: bool
    at_once: int


class _Before(TypedDict, total=False):
    before: str


class _Answer(NamedDomain, _Before):
    """The entry of a domain in the result, with its state before until the end."""

    changed: bool
    status: str
    message: str
    domain: HostDomain | None


def _reached(domain: Any, given: _Options) -> bool:
    """Return True if the domain is in the requested state."""
    if given["state"] == "running":
        return power.state_of(domain) in ("running", "blocked")
    return given["state"] == "stopped" and not domain.isActive()


def _act(conn: Any, wanted: NamedDomain, given: _Options, check_mode: bool) -> _Answer:
    """Work on one domain and return its entry of the result."""
    answer: _Answer = {
        "uuid": wanted["uuid"],
        "name": wanted["name"],
        "changed": False,
        "status": "done",
        "message": "",
        "domain": None,
    }
    local = binding.is_local(given["uri"])
    try:
        with _lock_domain(wanted, given, check_mode):
            return _act_alone(conn, wanted, given, check_mode, answer, local)
    except (LibvirtProblem, OSError) as exc:
        # Another call works on the domain, so its current state proves nothing.
        return {**answer, "status": "failed", "message": str(exc)}


def _lock_domain(
    wanted: NamedDomain, given: _Options, check_mode: bool
) -> contextlib.AbstractContextManager[None]:
    if check_mode:
        return contextlib.nullcontext()
    return orders.alone(
        Records(),
        wanted["uuid"],
        wanted["name"] or wanted["uuid"],
        max(given["timeout"], orders.LEAST_PATIENCE),
    )


def _act_alone(
    conn: Any,
    wanted: NamedDomain,
    given: _Options,
    check_mode: bool,
    answer: _Answer,
    local: bool,
) -> _Answer:
    domain = None
    try:
        domain = power.find(conn, uuid=wanted["uuid"])
        if domain is None:
            return {
                **answer,
                "status": "absent",
                "message": f"there is no domain {wanted['uuid']} on {host_name()}",
            }
        if wanted["name"] not in (None, domain.name()):
            raise LibvirtProblem(
                f"the domain {wanted['uuid']} is named {domain.name()!r} on {host_name()}, not"
                f" {wanted['name']!r}"
            )
        answer["name"] = domain.name()
        answer["before"] = power.state_of(domain)
        answer["changed"] = not _reached(domain, given)
        if answer["changed"] and given["state"] == "stopped":
            power.refuse_transient(domain)
            if given["timeout"] > 0:
                power.refuse_opposite(domain, "poweroff")
        if answer["changed"] and not check_mode:
            _change_power(conn, domain, given)
        answer["domain"] = read_domain(domain, local)
    except (LibvirtProblem, libvirt.libvirtError) as exc:
        answer["status"] = "failed"
        answer["message"] = (
            binding.text_of(exc) if isinstance(exc, libvirt.libvirtError) else str(exc)
        )
        answer["changed"] = False
        answer["domain"] = _still(domain, local)
    return answer


def _change_power(conn: Any, domain: Any, given: _Options) -> None:
    if given["state"] == "running":
        power.start(domain, given["timeout"])
    elif given["state"] == "stopped":
        power.stop(domain, given["timeout"], given["force"])
    else:
        reboot.reboot(conn, domain, given["timeout"], given["hard"])


def _still(domain: Any, local: bool) -> HostDomain | None:
    """Read a domain after a failure; None if libvirt does not answer."""
    try:
        return read_domain(domain, local) if domain is not None else None
    except (LibvirtProblem, libvirt.libvirtError):
        return None


def _difference(answers: list[_Answer], given: _Options, check_mode: bool) -> dict[str, str]:
    """Return the states before and after, one line for each domain."""
    reached = {"running": "running", "stopped": "shutoff", "rebooted": "running, rebooted"}[
        given["state"]
    ]

    def after(answer: _Answer) -> str:
        if answer["changed"] and (check_mode or given["state"] == "rebooted"):
            return reached
        return answer["domain"]["state"] if answer["domain"] else "absent"

    return {
        "before": "".join(
            f"{each['name'] or each['uuid']}: {each.get('before', 'absent')}\n" for each in answers
        ),
        "after": "".join(f"{each['name'] or each['uuid']}: {after(each)}\n" for each in answers),
    }


def act_on_all(conn: Any, given: _Options, check_mode: bool, diff: bool) -> dict[str, object]:
    """Work on all domains, some at the same time, and return the result of the module."""
    with ThreadPoolExecutor(given["at_once"]) as pool:
        answers = list(pool.map(lambda each: _act(conn, each, given, check_mode), given["domains"]))
    result: dict[str, object] = {"changed": any(each["changed"] for each in answers)}
    if diff:
        result["diff"] = _difference(answers, given, check_mode)
    for each in answers:
        each.pop("before", None)
    return {"domains": answers, **result}
