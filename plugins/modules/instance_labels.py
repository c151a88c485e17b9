#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_labels
short_description: Set and remove labels of instances
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Changes the labels of instances of the store, on any host. Run it on localhost. The option
    C(selector) of other modules, and the variable C(drover_selector) of playbooks, select instances
    by their labels.
  - The labels are in the metadata of the domain, of the running guest and of its definition. They
    stay after a shutdown, go with a migration, and a discovery with a new store finds them again.
  - It works host after host, and takes the lease of each. A failure on one host does not stop the
    work on the others.
  - The module refuses an instance that is on several hosts, is moving, has an unconfirmed resize,
    or has its memory saved.
  - The playbook C(drover.compute.place) gives new instances the labels of their definitions.
options:
  name:
    description: The name of the instance. It is not changed if libvirt has its uuid under another
      name.
    type: str
  uuid:
    description: The uuid of the instance. With O(name), both must agree.
    type: str
  instances:
    description: Several instances. Each is a name, a uuid, or a mapping with C(name) and C(uuid),
      which must agree.
    type: list
    elements: raw
  selector:
    description:
      - Instances with these labels, such as V(project=web,tier!=db,backup,!old). A comma means and.
        V(tier!=db) and V(!old) are also met by instances without that label.
      - Not together with names. A selector that selects none is an error, and so is an excluded key
        that no instance has.
    type: str
  labels:
    description:
      - The labels to set. A label with the value V(null) is removed. Labels that are not named
        stay.
      - The key and the value of a label have 1 to 63 letters, digits and C(-), C(_), C(.), C(/),
        with a letter or digit at both ends. An instance has at most 64.
    type: dict
    required: true
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.instance
  - module: drover.compute.instance_info
"""

EXAMPLES = r"""
- name: Labels of instances
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Set two labels, and remove one
      drover.compute.instance_labels:
        name: web1
        labels:
          project: web
          tier: front
          old: null

    - name: Set a label of all that have another one
      drover.compute.instance_labels:
        selector: project=web
        labels:
          backup: daily

    - name: See that all with both run
      drover.compute.instance:
        selector: project=web,backup=daily
        state: running
"""

RETURN = r"""
host:
  description: The host of the instances.
  returned: success, in a play on a hypervisor
  type: str
  sample: kvm1
instances:
  description: The result for each instance.
  returned: always
  type: list
  elements: dict
  sample:
    - uuid: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
      name: web1
      changed: true
      status: done
      message: ""
      labels: {project: web, tier: front}
  contains:
    uuid: {description: The uuid., type: str, returned: always, sample:
      5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01}
    name: {description: Its name., type: str, returned: always, sample: web1}
    changed: {description: True if it was changed., type: bool, returned: always, sample: true}
    status: {description: "V(done), V(absent) (it is not on this host) or V(failed).", type: str,
      returned: always, sample: done}
    message: {description: The error., type: str, returned: always, sample: the host cannot be
      reached}
    labels: {description: Its labels afterwards., type: dict, returned: always, sample: {project:
      web, tier: front}}
"""
