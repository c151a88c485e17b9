# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup schedule."""

from __future__ import annotations

DOCUMENTATION = r"""
name: schedule
short_description: Pick hosts for instances, and say why
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Reads the fleet from the store, narrows it by host filters, ranks what is left by weighers, and returns a destination for each
    instance with alternates and the reasons.
  - All requests of one call are one batch. They are placed in the order given, each sees the room that those before it take, and
    if one of them fits nowhere the lookup fails and names what each host filter rejected and which hosts came nearest.
  - It reads and never writes. Room is claimed by M(drover.compute.allocation). As Ansible evaluates a lookup again wherever a variable
    that holds it is used, keep the answer with M(ansible.builtin.set_fact).
  - Hosts of equal weight are taken in the order of their names.
options:
  _terms:
    description:
      - Requests. Each is a mapping, or a list of mappings.
      - C(name), C(vcpus) and C(memory_mb) (MiB) are needed, C(disk_gb) (GiB) is V(0) by default. They are whole numbers.
      - C(resources) is a mapping of other resource classes to amounts, such as C(VGPU) or C(CUSTOM_LICENCE). The extra specs of a flavor
        ask for them as C(resources:CLASS), which also goes over C(vcpus), C(memory_mb) and C(disk_gb) when it names their classes.
      - C(uuid) is that of the instance. One is made up if it is missing.
      - C(availability_zone) is the zone it must be in.
      - C(flavor) is the name of a flavor in the store, or a mapping with C(name), amounts and C(extra_specs). Amounts of the request
        itself come first.
      - C(image) is a name, or a mapping with C(name), C(id), C(disk_format) and C(properties).
      - C(scheduler) is a mapping of keys of O(policy) that hold for this request alone.
      - C(num_instances) asks for that many alike, named NAME-1, NAME-2 and so on, with the uuids in C(uuids) if given.
      - C(server_group) is the name of a server group in the store, or a mapping with C(name), C(policy) (V(affinity),
        V(anti-affinity), V(soft-affinity) or V(soft-anti-affinity)) and C(max_server_per_host) for one that may be new.
      - C(hints) is a mapping with C(same_host) or C(different_host), each a uuid or name of an instance, or a list of them;
        C(query), a JSON query; C(build_near_host_ip) and C(cidr); or C(group), the name of a server group.
      - C(ignore_hosts) is a list of hosts not to take. C(host) is the one host, or compute node, to take; it must pass the host filters.
        C(node) is the compute node. C(requested_destination) is a mapping with C(host), C(node), C(cell) and C(allow_cross_cell_move).
      - C(force_hosts) and C(force_nodes) are the only ones to take. Host filters are not asked then, but for room, zone and whether
        the host is enabled.
      - C(retry) is a list of C(host) and C(node) where it was tried already.
      - C(project) and C(user) are kept with the claim.
    required: true
  explain:
    description: Whether to return the explanation. Failures are explained always.
    type: bool
    default: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
seealso:
  - module: drover.compute.allocation
"""

EXAMPLES = r"""
- name: Pick hosts
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Ask where two web servers would go, on two hosts
      ansible.builtin.set_fact:
        selections: "{{ query('drover.compute.schedule', requests) }}"
      vars:
        requests:
          - name: web1
            vcpus: 1
            memory_mb: 64
            disk_gb: 1
            server_group: {name: web, policy: anti-affinity}
          - name: web2
            vcpus: 1
            memory_mb: 64
            disk_gb: 1
            server_group: web

    - name: Show where, and what else would do
      ansible.builtin.debug:
        msg: "{{ item.name }} goes to {{ item.host }}, else to {{ item.alternates | map(attribute='host') | join(' or ') }}"
      loop: "{{ selections }}"
      loop_control:
        label: "{{ item.name }}"

    - name: Pack instead of spread, for one request
      ansible.builtin.debug:
        msg: "{{ lookup('drover.compute.schedule', {'name': 'web3', 'vcpus': 1, 'memory_mb': 64}, policy={'ram_weight_multiplier': -1}) }}"
"""

RETURN = r"""
_raw:
  description: One selection per request, in the order of the requests.
  type: list
  elements: dict
  contains:
    name: {description: The name asked for., type: str, returned: always}
    uuid: {description: "The uuid of the instance, as asked for or made up.", type: str, returned: always}
    host: {description: The destination., type: str, returned: always}
    node: {description: The compute node of that host., type: str, returned: always}
    provider: {description: The uuid of its resource provider., type: str, returned: always}
    cell: {description: The cell of the host., type: str, returned: always}
    weight: {description: What the weighers gave it., type: float, returned: always}
    resources: {description: "Amounts to claim by resource class, those of 0 left out.", type: dict, returned: always}
    allocations:
      description:
        - What is to be claimed of which provider, a mapping of provider uuids to amounts by resource class.
        - It is there when an instance of the batch asks for what the host's own provider or its one pool does not decide. See the
          documentation of the scheduler.
      type: dict
      returned: where providers had to be chosen
    server_group: {description: "C(name), C(policy) and C(max_server_per_host) of the server group.", type: dict, returned: always}
    availability_zone: {description: The zone asked for., type: str, returned: always}
    project: {description: As asked for., type: str, returned: always}
    user: {description: As asked for., type: str, returned: always}
    flavor: {description: The name of the flavor., type: str, returned: always}
    image: {description: The properties of the image., type: dict, returned: always}
    alternates:
      description: Other hosts of the same cell, best first, each with C(host), C(node), C(provider) and C(weight), and C(allocations) alike.
      type: list
      elements: dict
      returned: always
    explanation:
      description:
        - C(hosts) is how many compute nodes there are.
        - C(filters) lists the host filters in the order in which they ran, each with C(name), C(before), C(after) and C(rejected).
        - C(weighers) lists the weighers, each with C(name) and C(multiplier).
        - C(top) lists the best hosts, each with C(host), C(node), C(weight), and under C(weighers) the C(raw) value, the C(normalised)
          value and the C(multiplier) of each.
      type: dict
      returned: always
"""

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.lookup import DroverLookup, flat
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.scheduling import decide
from ansible_collections.drover.compute.plugins.plugin_utils.store import clock


class LookupModule(DroverLookup):
    VARIABLES = {"policy": "scheduler", "policy_file": "scheduler_file", "service_down_time": "service_down_time"}
    OPTIONS = ("explain",)

    def answer(self, terms):
        requests = flat(terms)
        policy = self.policy()
        if not requests:
            return []
        with self.store().read() as connection:
            return decide(
                connection,
                requests,
                policy,
                clock.now(connection),
                self.get_option("service_down_time"),
                self.get_option("explain"),
            )
