#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _definitions
short_description: Read instance definitions, and write host and uuid back into their file
author:
  - The drover.compute authors (@drover-compute)
description:
  - Reads and checks definitions of instances from a YAML file or from variables, and finds the ones that are in the store.
  - With O(write_back=true) it writes the host and the uuid of each instance back into the file. Comments, order and quoting do not change,
    so that the file can be in git.
options:
  keep:
    description:
      - Only keep the flavors, images, aggregates and server groups of the definitions in the store. What is there already is changed where the
        definitions differ; nothing is removed.
      - The room of instances that an earlier run claimed, and that the definitions do not have any more, is given back if that run was on this
        controller and has ended before it had them built.
    type: bool
    default: false
  write_back:
    description:
      - Write host and uuid of each instance that is in the store back into O(path).
    type: bool
    default: false
  mark_absent:
    description:
      - Only write C(state) V(absent) into O(path) at these instances, which were removed. Each is a name, a uuid, or a mapping with C(name)
        and C(uuid). Remove that line to have an instance built again. A definition with C(count) is marked if all its instances were removed.
    type: list
    elements: raw
    default: []
  differences:
    description: RV(drover.compute._alignment#module:lines), in place of the differences to what the store knows of the instances.
    type: list
    elements: str
extends_documentation_fragment:
  - drover.compute.scheduler.show
  - drover.compute.definitions
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
- name: Check a definitions file
  hosts: localhost
  gather_facts: false
  vars:
    path: "{{ playbook_dir }}/fleet.yml"
  tasks:
    - name: Write a definitions file
      ansible.builtin.copy:
        dest: "{{ path }}"
        mode: "0644"
        content: |
          instances:
            # The first web server
            - name: web1
              memory_mb: 64
              disks:
                - size_gb: 1

    - name: Read it
      drover.compute._definitions:
        path: "{{ path }}"
      register: wanted

    - name: Show which instances are new
      ansible.builtin.debug:
        msg: "{{ wanted.instances | selectattr('state', 'eq', 'new') | map(attribute='name') | list }}"
"""

RETURN = r"""
instances:
  description:
    - The definitions with defaults filled in, one for each instance of a C(count), without those with the C(state) V(absent).
    - Their figures are not those of the instances, see RV(differences).
    - Each has C(uuid), C(disk_gb), the names C(flavor) and C(image), C(metadata) (the texts of the policy and of the labels), the C(host),
      C(node) and C(state) of the store (C(new) for an instance that is not in it), C(request) for P(drover.compute.schedule#lookup) and
      C(selection) for M(drover.compute.allocation). One that is not built yet has C(images), those that its disks name.
  returned: success
  type: list
  elements: dict
server_groups:
  description: The server groups.
  returned: success
  type: list
  elements: dict
sections:
  description: What is kept in the store, the lists C(flavors), C(images), C(aggregates) and C(server_groups).
  returned: success
  type: dict
released:
  description: Names of the instances that gave their room back.
  returned: with O(keep)
  type: list
  elements: str
unmarked:
  description: Names of removed instances of a C(count) that were not marked, because its definition still wants others.
  returned: with O(mark_absent)
  type: list
  elements: str
absent:
  description: Names of the instances that are marked as absent.
  returned: success
  type: list
  elements: str
still_there:
  description: Those of RV(absent) that are still in the store. Remove them with the playbook C(drover.compute.instance_delete).
  returned: success
  type: list
  elements: str
removable:
  description: The instances of RV(still_there) that provably are of their definitions, by the uuid or built from them, with C(uuid) and C(name).
  returned: success
  type: list
  elements: dict
  sample: []
unproven:
  description: A sentence for each instance that only has the name of a definition that is marked as absent.
  returned: success
  type: list
  elements: str
  sample: []
table:
  description:
    - The instances that are in the store, as lines of a plain text table. All figures are those of the store. The lines of
      RV(differences) follow.
  returned: success
  type: list
  elements: str
differences:
  description:
    - Lines that name where an instance of the store differs from its definition, in C(vcpus), C(memory_mb), C(disk_gb), C(flavor), C(image),
      C(server_group), C(availability_zone), C(user), C(autostart), C(policy) and C(labels), and instances that were not built from their
      definition but have its name. The last line says what to do. Empty if there is no difference.
    - With the option O(differences) its lines, and those instances.
  returned: success
  type: list
  elements: str
  sample:
    - "web-041: vcpus 2, the definition says 16."
    - >-
      Nothing of an instance that is there was changed. drover.compute.place with -e drover_apply_changes=true changes those that differ; or correct
      the definition.
"""
