# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookup schedule."""

from __future__ import annotations

DOCUMENTATION = r"""
name: schedule
short_description: Pick hosts for instances, with the reasons
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads the fleet from the store, removes unsuitable hosts by host filters, ranks the others by
    weighers, and returns a destination for each instance with alternates and the reasons.
  - All requests of one call are one batch. They are placed in the given order, and each counts for
    the next. If one of them fits on no host, the lookup fails, with the hosts that each host filter
    rejected and the hosts that were closest.
  - It reads and never writes. M(drover.compute.allocation) claims the resources. Ansible evaluates
    a lookup again at every use of its variable, so keep the answer with
    M(ansible.builtin.set_fact).
  - Hosts of equal weight are taken in the order of their names.
options:
  _terms:
    description:
      - Requests. Each is a mapping, or a list of mappings.
      - C(name), C(vcpus) and C(memory_mb) (MiB) are required, C(disk_gb) (GiB) is V(0) by default.
        Amounts are whole numbers. Sizes of memory and disk may be texts such as V(4GiB) or V(2T).
      - C(resources) is a mapping of other resource classes to amounts, such as C(VGPU) or
        C(CUSTOM_LICENCE). The extra specs of a flavor have them as C(resources:CLASS), which also
        overrides C(vcpus), C(memory_mb) and C(disk_gb) for their classes.
      - C(extra_specs) is a mapping of requirements by Nova's names, which override the extra specs
        of the flavor. C(traits) is a mapping with C(required) and C(forbidden), lists of traits of
        the host.
      - C(uuid) is the uuid of the instance. By default a new one is made.
      - C(availability_zone) is the zone it must be in.
      - C(flavor) is the name of a flavor in the store, or a mapping with C(name), amounts and
        C(extra_specs). Amounts of the request itself override them.
      - C(image) is the name of an image, with the properties that the store has for it, or a
        mapping with C(name), C(id), C(disk_format) and C(properties).
      - C(networks) is a list of networks with interfaces that are devices of the host, each with
        C(physical_network) and C(vnic) (V(direct), V(macvtap) or V(direct-physical)). Other
        networks are not named.
      - C(scheduler) is a mapping of keys of O(policy) for this request only.
      - C(count), or C(num_instances) as in Nova, is a number of equal instances, named NAME-1,
        NAME-2 and so on, with the uuids in C(uuids) if given.
      - C(server_group) is the name of a server group in the store, or a mapping with C(name),
        C(policy) (V(affinity), V(anti-affinity), V(soft-affinity) or V(soft-anti-affinity)) and
        C(max_server_per_host) for a group that may be new.
      - C(hints) is a mapping with C(same_host) or C(different_host), each a uuid or name of an
        instance, or a list of them; C(query), a JSON query; C(build_near_host_ip) and C(cidr); or
        C(group), the name of a server group.
      - C(ignore_hosts) is a list of excluded hosts. C(host) is the only allowed host, or compute
        node; it must pass the host filters. C(node) is the compute node. C(requested_destination)
        is a mapping with C(host), C(node), C(cell) and C(allow_cross_cell_move).
      - C(force_hosts) and C(force_nodes) are the only allowed hosts and nodes. Then only capacity,
        zone and the status of the host are checked, and no other host filters run.
      - C(retry) is a list of C(host) and C(node) that were tried already.
      - C(project) and C(user) are recorded with the claim.
    required: true
  explain:
    description: Return the explanation. Failures are always explained.
    type: bool
    default: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.store.plugin
  - drover.compute.scheduler
  - drover.compute.scheduler.plugin
seealso:
  - module: drover.compute.schedule_info
  - module: drover.compute.allocation
"""

EXAMPLES = r"""
- name: Pick hosts
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Pick two different hosts for two web servers
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

    - name: Show the hosts and their alternates
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
    name: {description: The name of the request., type: str, returned: always}
    uuid: {description: "The uuid of the instance, from the request or new.", type: str, returned:
      always}
    host: {description: The destination., type: str, returned: always}
    node: {description: The compute node of that host., type: str, returned: always}
    provider: {description: The uuid of its resource provider., type: str, returned: always}
    cell: {description: The cell of the host., type: str, returned: always}
    weight: {description: The weight of the host., type: float, returned: always}
    resources: {description: "Amounts to claim by resource class, without amounts of 0.", type:
      dict, returned: always}
    allocations:
      description:
        - The amounts to claim on each provider, a mapping of provider uuids to amounts by resource
          class.
        - It is returned if an instance of the batch needs more than the host's own provider or its
          one shared pool. See the documentation of the scheduler.
      type: dict
      returned: where providers had to be chosen
    mappings:
      description: The resource groups of the PCI devices that it asks for, by suffix, each with a
        list of the uuid of the provider that gives the device.
      type: dict
      returned: with pci_in_placement in the policy, if it asks for PCI devices by an alias
    server_group: {description: "C(name), C(policy) and C(max_server_per_host) of the server
      group.", type: dict, returned: always}
    availability_zone: {description: The requested zone., type: str, returned: always}
    project: {description: The project of the request., type: str, returned: always}
    user: {description: The user of the request., type: str, returned: always}
    flavor: {description: The name of the flavor., type: str, returned: always}
    extra_specs:
      description: The extra specs that are recorded with the instance. The extra specs of a flavor
        in the store are not recorded; they are read by its name.
      type: dict
      returned: always
    image: {description: The properties of the image., type: dict, returned: always}
    image_name: {description: The name of the image., type: str, returned: always}
    image_id: {description: The id of the image., type: str, returned: always}
    image_format: {description: The disk format of the image., type: str, returned: always}
    host_request:
      description: The needs of the instance in NUMA cells, CPUs, pages and PCI devices of its host.
        The claim chooses them.
      type: dict
      returned: if it needs any
    alternates:
      description: Other hosts of the same cell, best first, each with C(host), C(node), C(provider)
        and C(weight), and C(allocations) and C(mappings) if returned.
      type: list
      elements: dict
      returned: always
    explanation:
      description:
        - C(hosts) is the number of compute nodes.
        - C(filters) lists the host filters in their order, each with C(name), C(before), C(after)
          and C(rejected).
        - C(weighers) lists the weighers, each with C(name) and C(multiplier).
        - C(top) lists the best hosts, each with C(host), C(node), C(weight), and under C(weighers)
          the C(raw) value, the C(normalised) value and the C(multiplier) of each.
      type: dict
      returned: always
"""

from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.lookup import (
    DroverLookup,
    flat,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.scheduling import (
    decide,
    refuse_unknown,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock


class LookupModule(DroverLookup):
    VARIABLES = {
        "policy": "scheduler",
        "policy_file": "scheduler_file",
        "service_down_time": "service_down_time",
    }
    OPTIONS = ("explain",)

    def answer(self, terms: list[Any]) -> list[Any]:
        requests = flat(terms)
        policy = self.policy()
        if not requests:
            return []
        refuse_unknown(requests)
        with self.store().read() as connection:
            return decide(
                connection,
                requests,
                policy,
                clock.now(connection),
                self.get_option("service_down_time"),
                self.get_option("explain"),
            )
