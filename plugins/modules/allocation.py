#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: allocation
short_description: Claim and release resources of instances, or swap them for a move
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Records the allocations of instances in one transaction. Claims never exceed the capacity, even
    if several runs claim at the same time.
  - A claim is idempotent by the uuid of the instance. An instance that already has its allocations
    keeps them.
  - The decision of the scheduler is recorded with the claim, with its explanation.
    M(drover.compute.report) shows it.
options:
  state:
    description:
      - V(claimed) claims the destination of each of O(selections), or else its first alternate with
        enough free capacity. All or none.
      - V(next) releases the claim of one instance that is being built and claims the first of
        O(alternates) with enough free capacity.
      - V(released) releases the allocations of O(instances) without a domain, and deletes their
        records.
      - V(swapped) begins a move of O(instances) to O(host). The migration gets the allocations at
        the source, the destination is claimed.
      - V(resized) begins a resize of one of O(instances) to O(resources), on its host or on
        O(host). The migration holds the old size, the instance the new one.
      - V(moved) ends a move. The allocations at the source are released, but after a resize only
        when it is confirmed.
      - V(swapped_back) undoes a move that has not ended. The instance has its allocations at the
        source again.
      - V(confirmed) keeps the new size of a finished resize, V(reverted) restores the old size and
        host.
      - V(replaced) replaces the allocations of O(consumers), all in one transaction, within the
        capacity.
      - V(reshaped) changes O(inventories) and the allocations of O(consumers) in one transaction,
        for example to move a host's inventory to a child provider.
    type: str
    choices: [claimed, next, released, swapped, resized, moved, swapped_back, confirmed, reverted,
      replaced, reshaped]
    default: claimed
  selections:
    description:
      - Selections as the lookup P(drover.compute.schedule#lookup) returns them. Each has at least
        C(name), C(uuid), C(host) and C(resources) (a mapping such as C(VCPU), C(MEMORY_MB),
        C(DISK_GB)); and may have C(node), C(alternates), C(server_group), C(project), C(user),
        C(availability_zone).
      - The store records a selection with an C(explanation) as a decision of the scheduler.
      - A selection, and each of its alternates, may have C(allocations), a mapping of provider
        uuids to amounts by resource class. The module claims exactly these. Their sum must be
        C(resources).
      - C(mappings), in addition to C(allocations), say which provider gives which PCI device, as
        the lookup returned them.
      - Without C(allocations) each class is claimed on the host's own providers, or else on a
        sharing provider.
    type: list
    elements: dict
  of_definitions:
    description:
      - The O(selections) are of definitions. A definition is one instance, identified by its
        project and name. If another run has already placed it, the module returns the claim of that
        run's instance, with its uuid.
    type: bool
    default: false
  force:
    description:
      - Names of rules to lift. By the rule V(unread_hosts), O(of_definitions) refuses new instances
        while a host has not been read since the store was created or restored from a backup.
    type: list
    elements: str
    default: []
  inventory_hosts:
    description:
      - The hypervisors of the inventory. In a store that is new or was restored from a backup,
        O(of_definitions) refuses new instances while one of them was never read.
    type: list
    elements: str
    default: []
  instances:
    description: Uuids of instances.
    type: list
    elements: str
  alternates:
    description: The remaining alternates, each with C(host) and C(node), and C(allocations) and
      C(mappings) if the lookup returned them.
    type: list
    elements: dict
  host:
    description: The destination of a move or of a resize.
    type: str
  node:
    description: The compute node of O(host), if it has several.
    type: str
  resources:
    description: The size of the instance after a resize, a mapping of resource classes to amounts.
    type: dict
  flavor:
    description: The name of the instance's flavor after a resize.
    type: str
  expires:
    description:
      - Seconds until a claim of V(claimed) or V(next) expires, unless the build or discovery has
        seen the instance. V(0) is never.
      - An expired claim keeps its allocations. An audit names it, and can release it.
    type: int
    default: 3600
  consumers:
    description:
      - The new allocations of consumers. A mapping of their uuids to C(allocations), which is a
        mapping of providers (name or uuid) to amounts by resource class; optionally C(project),
        C(user), C(type) (V(INSTANCE) by default) and C(consumer_generation).
      - Empty C(allocations) remove the consumer.
      - With C(consumer_generation) the consumer must still have that generation; with null it must
        be new. Each write adds one.
    type: dict
  inventories:
    description:
      - For O(state=reshaped). A mapping of providers (name or uuid) to their current C(generation)
        and all their new C(inventories), a mapping of resource classes to C(total) and optionally
        C(reserved), C(min_unit), C(max_unit), C(step_size) and C(allocation_ratio).
    type: dict
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Pick a host and claim its resources
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Schedule
      ansible.builtin.set_fact:
        selections: "{{ query('drover.compute.schedule', {'name': 'web1', 'vcpus': 1, 'memory_mb': 64}) }}"

    - name: Claim
      drover.compute.allocation:
        selections: "{{ selections }}"
      register: claimed

    - name: Release it
      drover.compute.allocation:
        state: released
        instances: "{{ claimed.claims | map(attribute='uuid') | list }}"

    - name: Remove all allocations of a consumer
      drover.compute.allocation:
        state: replaced
        consumers:
          6b1f9f0e-58a3-4a47-9c8e-0d6a4c1b7a11:
            allocations: {}
"""

RETURN = r"""
claims:
  description: One item per instance, in the order of the selections.
  returned: when O(state) is V(claimed) or V(next)
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid of the instance., type: str, returned: always, sample:
      818de00f-8cee-5999-b5b6-a4aa5bfed7ca}
    name: {description: Its name., type: str, returned: always, sample: db}
    host: {description: The host of the claim., type: str, returned: always, sample: kvm2}
    node: {description: The compute node., type: str, returned: always, sample: kvm2}
    provider: {description: The uuid of the resource provider., type: str, returned: always, sample:
      cf840ee9-2a9e-4340-8cad-4f043759e115}
    resources: {description: The claimed amounts., type: dict, returned: always, sample: {VCPU: 1,
      MEMORY_MB: 64, DISK_GB: 0}}
    alternates: {description: The remaining alternates., type: list, elements: dict, returned:
      always, sample: [{host: kvm1, node: kvm1}]}
    uri: {description: The libvirt URI of the compute node., type: str, returned: always, sample:
      'qemu:///system'}
    arch: {description: Its architecture., type: str, returned: always, sample: x86_64}
    domain_type: {description: "The domain type to use there, such as C(kvm) or C(qemu).", type:
      str, returned: always, sample: kvm}
    numa:
      description:
        - The CPUs, NUMA cells and pages that the domain must name, as
          M(drover.compute.hypervisor_info) returns C(numa) of a domain.
      returned: if the domain must name any
      type: dict
      sample: {cpuset: null, vcpu_pins: {'0': [4]}, emulator_pins: [4], iothread_pins: {}, memory:
        {mode: strict, nodes: [0]},
        cells: [{id: 0, cpus: [0], memory_mb: 64, mode: strict, nodes: [0]}], pages: [], locked:
          false}
    pci_devices:
      description:
        - The PCI devices of the instance. C(request) is the number of the request that a device
          meets, beginning with 0. C(managed) is true if libvirt changes its driver.
      returned: if it has any
      type: list
      elements: dict
      sample: [{address: '0000:3b:00.1', request: 0, managed: true, dev_type: type-VF}]
    new: {description: False if the instance had its allocations before., type: bool, returned:
      always, sample: true}
consumers:
  description: The result for each consumer, sorted by uuid.
  returned: when O(state) is V(replaced) or V(reshaped)
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid of the consumer., type: str, returned: always, sample:
      5f0c6a3e-7d0c-4c56-9f2e-0f6d5a9b1c01}
    generation: {description: "Its generation, null if it has no allocations and was removed.",
      type: int, returned: always, sample: 1}
    changed: {description: True if the module wrote anything., type: bool, returned: always, sample:
      true}
providers:
  description: The providers of a reshape with their new generations.
  returned: when O(state=reshaped)
  type: list
  elements: dict
  contains:
    name: {description: The name., type: str, returned: always, sample: kvm1}
    generation: {description: The generation., type: int, returned: always, sample: 2}
cause:
  description:
    - Why it failed, for a program. One of V(no_room), V(unfit), V(changed_meanwhile),
      V(unknown_class), V(unknown_provider), V(unknown_host), V(unknown_instance),
      V(unknown_migration), V(in_use).
  returned: on failure, if it is one of these
  type: str
  sample: no_room
places:
  description: The hosts that were tried, each with C(host), C(node), and for a lack of capacity
    C(resource_class), C(asked), C(used), C(capacity).
  returned: on failure, when O(state) is V(claimed) or V(next) and the free capacity is too small
  type: list
  elements: dict
  sample: [{host: kvm1, node: kvm1, resource_class: VCPU, asked: 9, used: 1, capacity: 4.0}]
released:
  description: Uuids of instances that had allocations.
  returned: when O(state=released)
  type: list
  elements: str
  sample: [818de00f-8cee-5999-b5b6-a4aa5bfed7ca]
migrations:
  description: The migrations that were opened or closed.
  returned: when O(state) is V(swapped), V(resized), V(moved), V(swapped_back), V(confirmed) or
    V(reverted)
  type: list
  elements: dict
  sample: [{uuid: da38fad3-fb08-45e4-b47c-3af88e34b8c5, instance_uuid:
    4678f48e-9e6e-53d3-9c13-dbd66056a5d1}]
"""
