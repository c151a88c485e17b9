#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: domain_power
short_description: Start, shut down or reboot domains of a hypervisor
version_added: 0.1.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on the hypervisor and works on several domains at the same time. Each has its own result, and the failure of one does not stop the
    others.
  - A domain is identified by its uuid. No domain is defined, moved or removed.
  - It looks at its own hypervisor only. If a person has moved a domain to another host, a start or
    a hard reboot starts it a second time. For instances of the store use
    M(drover.compute.instance), which reads the other hosts first and refuses then.
options:
  domains:
    description: The domains.
    type: list
    elements: dict
    required: true
    suboptions:
      uuid:
        description: The uuid.
        type: str
        required: true
      name:
        description: The name. A domain with another name is not changed.
        type: str
  state:
    description:
      - V(running) starts or resumes. It restores memory that libvirt has saved.
      - V(stopped) shuts the guest down cleanly and waits until it is off.
      - V(rebooted) reboots the guest cleanly and waits until it has rebooted, or, with O(hard), cuts its power and starts it again.
    type: str
    choices: [running, stopped, rebooted]
    required: true
  force:
    description: With O(state=stopped), cut the power of a guest that does not shut down in time.
    type: bool
    default: false
  hard:
    description:
      - With O(state=rebooted), cut the power and start again from the definition. It starts a
        domain that is off.
    type: bool
    default: false
  timeout:
    description: Seconds for each domain.
    type: int
    default: 60
  at_once:
    description: The number of domains that the module changes at the same time.
    type: int
    default: 8
extends_documentation_fragment:
  - drover.compute.libvirt
  - drover.compute.attributes
  - drover.compute.attributes.platform
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: partial
    details:
      - O(state=rebooted) reboots each time.
seealso:
  - module: drover.compute.domain
  - module: drover.compute.instance
"""

EXAMPLES = r"""
- name: Power on libvirt's test driver
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Read its one domain, which runs
      drover.compute.hypervisor_info:
        uri: test:///default
      register: found

    - name: Start it if it does not run
      drover.compute.domain_power:
        uri: test:///default
        state: running
        domains:
          - uuid: "{{ found.hypervisor.domains[0].uuid }}"
            name: test

- name: Two guests of a hypervisor
  hosts: kvm1
  gather_facts: false
  tasks:
    - name: Shut them down, and cut the power of a guest that ignores it
      drover.compute.domain_power:
        state: stopped
        timeout: 120
        force: true
        domains:
          - uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01
          - uuid: 5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c02
"""

RETURN = r"""
domains:
  description: One entry for each of O(domains), in the same order.
  returned: success
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid., type: str, returned: always, sample: 8302fec1-fe67-40ea-b14e-50b605f64716}
    name: {description: "The name in libvirt if it is known, else the name in the call.", type: str, returned: always, sample: web1}
    changed: {description: "True if it was started, shut off or rebooted.", type: bool, returned: always, sample: true}
    status: {description: "V(done), V(absent) (it is not here) or V(failed).", type: str, returned: always, sample: done}
    message: {description: The error., type: str, returned: always, sample: It is paused and cannot shut down.}
    domain:
      description: The domain as M(drover.compute.hypervisor_info) describes it, after the change. Null if it is not here.
      type: dict
      returned: always
      sample: {uuid: 8302fec1-fe67-40ea-b14e-50b605f64716, name: web1, state: running, persistent: true, autostart: false, vcpus: 1, memory_mb: 32}
"""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ansible_collections.drover.compute.plugins.module_utils._domain import power, reboot
from ansible_collections.drover.compute.plugins.module_utils._host.domains import read_domain
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import (
    LibvirtProblem,
    host_name,
    libvirt,
)
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records

DOMAIN_SPEC = {"uuid": {"type": "str", "required": True}, "name": {"type": "str"}}


def _reached(domain: Any, given: dict[str, Any]) -> bool:
    """Return True if the domain is in the requested state."""
    if given["state"] == "running":
        return power.state_of(domain) in ("running", "blocked")
    return given["state"] == "stopped" and not domain.isActive()


def _act(
    conn: Any, wanted: dict[str, Any], given: dict[str, Any], check_mode: bool
) -> dict[str, Any]:
    """Work on one domain and return its entry of the result."""
    answer = {
        "uuid": wanted["uuid"],
        "name": wanted["name"],
        "changed": False,
        "status": "done",
        "message": "",
        "domain": None,
    }
    local = binding.is_local(given["uri"])
    try:
        with _alone(wanted, given, check_mode):
            return _act_alone(conn, wanted, given, check_mode, answer, local)
    except (LibvirtProblem, OSError) as exc:
        # Another call works on the domain, so its current state proves nothing.
        return {**answer, "status": "failed", "message": str(exc)}


def _alone(
    wanted: dict[str, Any], given: dict[str, Any], check_mode: bool
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
    wanted: dict[str, Any],
    given: dict[str, Any],
    check_mode: bool,
    answer: dict[str, Any],
    local: bool,
) -> dict[str, Any]:
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
                f"the domain {wanted['uuid']} is named {domain.name()!r} on {host_name()}, not {wanted['name']!r}"
            )
        answer["name"] = domain.name()
        answer["before"] = power.state_of(domain)
        answer["changed"] = not _reached(domain, given)
        if answer["changed"] and given["state"] == "stopped":
            power.refuse_transient(domain)
            if given["timeout"] > 0:
                power.refuse_opposite(domain, "poweroff")
        if answer["changed"] and not check_mode:
            _change(conn, domain, given)
        answer["domain"] = read_domain(domain, local)
    except (LibvirtProblem, libvirt.libvirtError) as exc:
        answer["status"] = "failed"
        answer["message"] = (
            binding.text_of(exc) if isinstance(exc, libvirt.libvirtError) else str(exc)
        )
        answer["changed"] = False
        answer["domain"] = _still(domain, local)
    return answer


def _change(conn: Any, domain: Any, given: dict[str, Any]) -> None:
    if given["state"] == "running":
        power.start(domain, given["timeout"])
    elif given["state"] == "stopped":
        power.stop(domain, given["timeout"], given["force"])
    else:
        reboot.reboot(conn, domain, given["timeout"], given["hard"])


def _still(domain: Any, local: bool) -> dict[str, Any] | None:
    """Read a domain after a failure; None if libvirt does not answer."""
    try:
        return read_domain(domain, local) if domain is not None else None
    except (LibvirtProblem, libvirt.libvirtError):
        return None


def _difference(
    answers: list[dict[str, Any]], given: dict[str, Any], check_mode: bool
) -> dict[str, str]:
    """Return the states before and after, one line for each domain."""
    reached = {"running": "running", "stopped": "shutoff", "rebooted": "running, rebooted"}[
        given["state"]
    ]

    def after(answer: dict[str, Any]) -> str:
        if answer["changed"] and (check_mode or given["state"] == "rebooted"):
            return reached
        return answer["domain"]["state"] if answer["domain"] else "absent"

    return {
        "before": "".join(
            f"{each['name'] or each['uuid']}: {each.get('before', 'absent')}\n" for each in answers
        ),
        "after": "".join(f"{each['name'] or each['uuid']}: {after(each)}\n" for each in answers),
    }


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={
            "uri": {"type": "str", "default": "qemu:///system"},
            "domains": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": DOMAIN_SPEC,
            },
            "state": {
                "type": "str",
                "choices": ["running", "stopped", "rebooted"],
                "required": True,
            },
            "force": {"type": "bool", "default": False},
            "hard": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
            "at_once": {"type": "int", "default": 8},
        },
        supports_check_mode=True,
    )
    given = module.params
    if given["timeout"] < 0:
        module.fail_json(msg=f"timeout is {given['timeout']} s: give 0 or more.")
    if given["at_once"] < 1:
        module.fail_json(msg="at_once must be at least 1, or nothing would ever be done.")
    for each in given["domains"]:
        each["uuid"] = binding.domain_uuid(module, each["uuid"], "done")
    binding.require_binding(module)
    if given["state"] == "rebooted":
        # Start the loop before the connection is opened. Otherwise the connection has no events.
        binding.start_event_loop()
    with module.hypervisor() as conn, ThreadPoolExecutor(given["at_once"]) as pool:
        answers = list(
            pool.map(lambda each: _act(conn, each, given, module.check_mode), given["domains"])
        )
    result: dict[str, Any] = {"changed": any(each["changed"] for each in answers)}
    if module._diff:
        result["diff"] = _difference(answers, given, module.check_mode)
    for each in answers:
        each.pop("before", None)
    module.exit_json(domains=answers, **result)


if __name__ == "__main__":
    main()
