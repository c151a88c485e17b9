#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: allocation
short_description: Pick hosts, claim room for instances, release it, or swap it for a move
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Writes down who holds which room, in one transaction that can never hand out more than there is, whoever else is claiming.
  - A claim is idempotent by the uuid of the instance. An instance that has its room already keeps it.
  - What the scheduler decided is kept with the claim, with its explanation, and shown by M(drover.compute.report).
options:
  state:
    description:
      - V(scheduled) picks hosts for O(requests) as the lookup P(drover.compute.schedule#lookup) does, and claims nothing. Where there
        is no valid host, that and why is kept in the store, which a lookup cannot do, and the task fails. O(policy), O(policy_file)
        and O(service_down_time) are for this state.
      - V(claimed) claims the destination of each of O(selections), or else its first alternate with room. All or none.
      - V(next) gives up the room of one instance that is being built and claims the first of O(alternates) with room.
      - V(released) gives back the room of O(instances) that have no domain, and forgets them.
      - V(swapped) begins a move of O(instances) to O(host). The room at the source goes to the migration, the destination's is claimed.
      - V(resized) begins a resize of one of O(instances) to O(resources), on its host or on O(host). The migration holds the old size, the
        instance the new one.
      - V(moved) ends a move. The room at the source is free, but for a resize only when it is confirmed.
      - V(swapped_back) undoes a move that has not ended. The instance has its room at the source again.
      - V(confirmed) keeps the new size of a resize that ended, V(reverted) gives the instance its old size and place again.
      - V(replaced) makes O(consumers) hold exactly what is said, all in one transaction, within the capacity.
      - V(reshaped) changes O(inventories) and what O(consumers) hold in one transaction, as when a host's room becomes that of a child
        provider.
    type: str
    choices: [scheduled, claimed, next, released, swapped, resized, moved, swapped_back, confirmed, reverted, replaced, reshaped]
    default: claimed
  requests:
    description: Requests as the lookup P(drover.compute.schedule#lookup) takes them.
    type: list
    elements: dict
  selections:
    description:
      - Selections as the lookup P(drover.compute.schedule#lookup) returns them. Each has at least C(name), C(uuid), C(host) and
        C(resources) (a mapping such as C(VCPU), C(MEMORY_MB), C(DISK_GB)); and may have C(node), C(alternates), C(server_group),
        C(project), C(user), C(availability_zone).
      - One with an C(explanation) is kept as a decision of the scheduler.
      - A selection, and each of its alternates, may have C(allocations), a mapping of provider uuids to amounts by resource class. It is
        claimed as it is, and must be what C(resources) says in all.
      - Without it each class is taken from the host's own providers, or else from one that shares with it.
    type: list
    elements: dict
  of_definitions:
    description:
      - Whether O(selections) are of definitions. A definition is one instance, by its project and name, whichever run places it
        first. Where another run was faster, the claim that is returned is that of its instance, with that instance's uuid.
    type: bool
    default: false
  force:
    description:
      - Rules that the operator lifts, by name. V(unread_hosts) is the one by which O(of_definitions) refuses new instances while a host
        has not been read since the store was made or was brought back from a backup.
    type: list
    elements: str
    default: []
  inventory_hosts:
    description:
      - The hypervisors of the inventory. In a store that is new or was brought back from a backup O(of_definitions) refuses new instances
        while one of them was never read.
    type: list
    elements: str
    default: []
  instances:
    description: Uuids of instances.
    type: list
    elements: str
  alternates:
    description: The alternates that are left, each with C(host) and C(node), and C(allocations) if the lookup gave them.
    type: list
    elements: dict
  host:
    description: The destination of a move or of a resize.
    type: str
  node:
    description: The compute node of O(host), where it has several.
    type: str
  resources:
    description: What the instance shall have after a resize, a mapping of resource classes to amounts.
    type: dict
  flavor:
    description: The name of the flavor the instance shall have after a resize.
    type: str
  expires:
    description:
      - Seconds until what is V(claimed) or V(next) expires when neither the build nor discovery has seen the instance. V(0) is never.
      - An expired claim still holds its room. An audit names it, and releases it when told to.
    type: int
    default: 3600
  consumers:
    description:
      - What consumers shall hold. A mapping of their uuids to C(allocations), which is a mapping of providers (name or uuid) to amounts by
        resource class; and maybe C(project), C(user), C(type) (V(INSTANCE) when new) and C(consumer_generation).
      - Empty C(allocations) remove the consumer.
      - With C(consumer_generation) the consumer must still have that one, or be new when it is null. Each write makes it one more.
    type: dict
  inventories:
    description:
      - For O(state=reshaped). A mapping of providers (name or uuid) to their current C(generation) and all C(inventories) they shall have,
        which is a mapping of resource classes to C(total) and maybe C(reserved), C(min_unit), C(max_unit), C(step_size) and
        C(allocation_ratio).
    type: dict
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.scheduler
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Pick a host and claim its room
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

    - name: Schedule, and keep in the store why if there is no host
      drover.compute.allocation:
        state: scheduled
        requests:
          - {name: web2, vcpus: 1, memory_mb: 64}

    - name: Give it back
      drover.compute.allocation:
        state: released
        instances: "{{ claimed.claims | map(attribute='uuid') | list }}"

    - name: Let a consumer hold nothing
      drover.compute.allocation:
        state: replaced
        consumers:
          6b1f9f0e-58a3-4a47-9c8e-0d6a4c1b7a11:
            allocations: {}
"""

RETURN = r"""
selections:
  description: Selections as the lookup P(drover.compute.schedule#lookup) returns them.
  returned: when O(state=scheduled)
  type: list
  elements: dict
explanation:
  description: How many hosts were looked at, which host filters rejected how many, and the nearest misses.
  returned: on failure, when O(state=scheduled) and there is no valid host
  type: dict
claims:
  description: One item per instance, in the order of the selections.
  returned: when O(state) is V(claimed) or V(next)
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid of the instance., type: str, returned: always}
    name: {description: Its name., type: str, returned: always}
    host: {description: Where its room is., type: str, returned: always}
    node: {description: The compute node., type: str, returned: always}
    provider: {description: The uuid of the resource provider., type: str, returned: always}
    resources: {description: What was claimed., type: dict, returned: always}
    alternates: {description: The alternates that are left., type: list, elements: dict, returned: always}
    uri: {description: The libvirt URI of the compute node., type: str, returned: always}
    arch: {description: Its architecture., type: str, returned: always}
    domain_type: {description: "The domain type to use there, such as C(kvm) or C(qemu).", type: str, returned: always}
    new: {description: False when the instance had its room before., type: bool, returned: always}
consumers:
  description: What became of each consumer, sorted by uuid.
  returned: when O(state) is V(replaced) or V(reshaped)
  type: list
  elements: dict
  contains:
    uuid: {description: The uuid of the consumer., type: str, returned: always}
    generation: {description: "Its generation, null when it holds nothing and is gone.", type: int, returned: always}
    changed: {description: Whether anything was written., type: bool, returned: always}
providers:
  description: The providers of a reshape with their new generations.
  returned: when O(state=reshaped)
  type: list
  elements: dict
  contains:
    name: {description: The name., type: str, returned: always}
    generation: {description: The generation., type: int, returned: always}
cause:
  description:
    - Why it failed, for a program. One of V(no_room), V(unfit), V(changed_meanwhile), V(unknown_class), V(unknown_provider),
      V(unknown_host), V(unknown_instance), V(unknown_migration), V(in_use).
  returned: on failure, where it is one of these
  type: str
places:
  description: The places that were tried, each with C(host), C(node), and for a lack of room C(resource_class), C(asked), C(used), C(capacity).
  returned: on failure, when O(state) is V(claimed) or V(next) and there is no room
  type: list
  elements: dict
released:
  description: Uuids that held something.
  returned: when O(state=released)
  type: list
  elements: str
migrations:
  description: The migrations that were opened or closed.
  returned: when O(state) is V(swapped), V(resized), V(moved), V(swapped_back), V(confirmed) or V(reverted)
  type: list
  elements: dict
"""
