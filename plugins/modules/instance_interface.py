#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance_interface
short_description: Attach a network interface to an instance, or detach it
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Brings a network interface to a state in the running instance and in its definition, on any
    host. If the instance is off, the module changes its definition. Run it on localhost. It takes
    the lease of the host.
  - Its MAC address identifies an interface. Without O(mac), an instance that has an interface in
    O(network) or O(bridge) is left as it is. For a second interface there, give O(mac).
  - The guest must release an interface before the module can detach it. If the guest does not
    release it within O(timeout), the task fails, and the interface stays attached. Run the task
    again later.
options:
  network:
    description: The network of libvirt. It must exist on the host.
    type: str
  bridge:
    description: The bridge of the host. It must exist there.
    type: str
  mac:
    description:
      - The MAC address. A new interface without it gets an address that is always the same for this
        instance and O(network) or O(bridge).
      - One of O(network), O(bridge) and O(mac) is required; with O(state=present) one of O(network)
        and O(bridge).
    type: str
  model:
    description: The model of the interface. An existing interface must have it.
    type: str
    default: virtio
  timeout:
    description: Seconds for the guest to release the interface.
    type: int
    default: 60
extends_documentation_fragment:
  - drover.compute.instance_device
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.full
  - drover.compute.attributes.actiongroup
seealso:
  - module: drover.compute.instance_disk
  - module: drover.compute.instance_cdrom
"""

EXAMPLES = r"""
- name: Interfaces of an instance
  hosts: localhost
  gather_facts: false
  tasks:
    - name: Connect it to the storage network
      drover.compute.instance_interface:
        name: web1
        network: storage

    - name: Disconnect it
      drover.compute.instance_interface:
        name: web1
        network: storage
        state: absent
"""

RETURN = r"""
host:
  description: The host of the instance.
  returned: success
  type: str
  sample: kvm1
name:
  description: The name of the instance.
  returned: success
  type: str
  sample: web1
uuid:
  description: The uuid of the instance.
  returned: success
  type: str
  sample: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
device:
  description: The interface, as in the interfaces of M(drover.compute.hypervisor_info). Null if it
    is detached.
  returned: success
  type: dict
  sample: {mac: "52:54:00:8a:11:02", type: network, source: storage, model: virtio}
"""
