#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: host
short_description: Enable or disable a host for the scheduler, rename it or remove it
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Enables or disables the service of a host, puts it into maintenance, or forces it down.
  - A host that is disabled or down gets no new instances. Its instances continue to run.
options:
  host:
    description:
      - The host, by its name in the inventory.
    type: str
    required: true
    aliases: [name]
  state:
    description:
      - V(enabled) allows new instances again. It also ends maintenance and deletes the record of a
        drain.
      - V(disabled) allows no new instances.
      - V(maintenance) is disabled and marked as in maintenance.
      - V(draining) is disabled, and records the state that the host had before. A second run
        records nothing new.
      - V(absent) takes a host out of the store that has left the fleet. The module refuses it while
        the host has an instance, a claim or an open operation. It forgets its compute nodes with
        their providers, its state, and that it is in host aggregates.
      - V(renamed) gives it O(new_name) and keeps all its records. The inventory must have the new
        name.
      - V(restored) restores the state that V(draining) has recorded, and changes nothing without
        such a record. It starts no instance but lists in RV(to_start) the instances to start. The
        record stays until M(drover.compute.instance) has started, stopped or removed them there.
    type: str
    choices: [enabled, disabled, maintenance, draining, restored, absent, renamed]
  new_name:
    description:
      - The new name of the host in the inventory. Only with V(renamed).
    type: str
  reason:
    description:
      - The reason, as shown in the store. Only with V(disabled), V(maintenance) and V(draining).
    type: str
  forced_down:
    description:
      - V(true) marks the service as down, regardless of its heartbeat. V(false) removes the mark.
    type: bool
  shuts_down:
    description:
      - The uuids of instances that are about to be shut down for the drain. The running ones are
        recorded, too.
      - Only with V(draining).
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
- name: Disable and enable a host
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Disable kvm1
      drover.compute.host:
        host: kvm1
        state: disabled
        reason: disk sdb reports errors

    - name: Enable it again
      drover.compute.host:
        host: kvm1
        state: enabled
"""

RETURN = r"""
host:
  description: The service after the change.
  returned: success, if the host is there with this name
  type: dict
  contains:
    host: {description: The host., type: str, returned: always, sample: kvm1}
    disabled: {description: True if it is disabled., type: bool, returned: always, sample: true}
    disabled_reason: {description: The reason., type: str, returned: always, sample: disk sdb
      reports errors}
    maintenance: {description: True if it is in maintenance., type: bool, returned: always, sample:
      false}
    forced_down: {description: True if it is forced down., type: bool, returned: always, sample:
      false}
removed:
  description: What was removed. C(evacuated) are instances that were evacuated from it; its disks
    may still have their old definitions.
  returned: with O(state=absent), if the host was there
  type: dict
  sample: {host: kvm1, nodes: [kvm1], aggregates: [], evacuated: []}
renamed:
  description: The old and the new name, and the number of the instances that are recorded there.
  returned: with O(state=renamed)
  type: dict
  sample: {host: kvm1, new_name: kvm9, instances: 3}
to_start:
  description: Instances that were shut down for the drain and are still off on the host, the
    highest priority first, each with C(uuid) and C(name).
  returned: with O(state=restored)
  type: list
  elements: dict
  sample: [{uuid: 818de00f-8cee-5999-b5b6-a4aa5bfed7ca, name: db}]
"""
