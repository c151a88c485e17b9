#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: domain_power
short_description: Start, shut down or reboot domains of a hypervisor
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on the hypervisor and works on several domains at the same time. Each has its own result,
    and the failure of one does not stop the others.
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
      - V(rebooted) reboots the guest cleanly and waits until it has rebooted, or, with O(hard),
        cuts its power and starts it again.
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
    uuid: {description: The uuid., type: str, returned: always, sample:
      8302fec1-fe67-40ea-b14e-50b605f64716}
    name: {description: "The name in libvirt if it is known, else the name in the call.", type: str,
      returned: always, sample: web1}
    changed: {description: "True if it was started, shut off or rebooted.", type: bool, returned:
      always, sample: true}
    status: {description: "V(done), V(absent) (it is not here) or V(failed).", type: str, returned:
      always, sample: done}
    message: {description: The error., type: str, returned: always, sample: It is paused and cannot
      shut down.}
    domain:
      description: The domain as M(drover.compute.hypervisor_info) describes it, after the change.
        Null if it is not here.
      type: dict
      returned: always
      sample: {uuid: 8302fec1-fe67-40ea-b14e-50b605f64716, name: web1, state: running, persistent:
        true, autostart: false, vcpus: 1, memory_mb: 32}
"""


from ansible_collections.drover.compute.plugins.module_utils._changes import power
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding

DOMAIN_SPEC = {"uuid": {"type": "str", "required": True}, "name": {"type": "str"}}


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
    params = module.params
    if params["timeout"] < 0:
        module.fail_json(msg=f"timeout is {params['timeout']} s: give 0 or more.")
    if params["at_once"] < 1:
        module.fail_json(msg="at_once must be at least 1, or nothing would ever be done.")
    for each in params["domains"]:
        each["uuid"] = binding.domain_uuid(module, each["uuid"], "done")
    binding.require_binding(module)
    if params["state"] == "rebooted":
        # Start the loop before the connection is opened. Otherwise the connection has no events.
        binding.start_event_loop()
    with module.hypervisor() as conn:
        result = power.act_on_all(conn, params, module.check_mode, module._diff)
    module.exit_json(**result)


if __name__ == "__main__":
    main()
