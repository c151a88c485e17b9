#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: instance
short_description: Build the instance of a claim on its hypervisor
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Makes the disks, defines and starts the domain, sees it running, and records that it is there. It runs on the
    hypervisor where M(drover.compute.allocation) claimed the room, so delegate it there.
  - What a failed build made is removed again. When the host is lost in the middle of a build it is not known what runs there; the
    failure then says so in RV(uncertain), and the instance must not be built elsewhere.
options:
  uuid:
    description: The uuid of the instance.
    type: str
    required: true
  name:
    description: Its name.
    type: str
    required: true
  xml:
    description: The domain XML, with the same uuid and name.
    type: str
    required: true
  disks:
    description:
      - Disks to make, as the option of the same name of M(drover.compute.domain).
    type: list
    elements: dict
    default: []
  seed:
    description:
      - A cloud-init seed to write, as the option of the same name of M(drover.compute.domain).
    type: dict
  autostart:
    description: Whether the domain starts with its host.
    type: bool
    default: false
  uri:
    description: The libvirt URI.
    type: str
    default: qemu:///system
  timeout:
    description: How long to wait for the domain to run, in seconds.
    type: int
    default: 60
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
"""

EXAMPLES = r"""
- name: Build an instance on libvirt's test driver
  hosts: localhost
  gather_facts: false
  vars:
    xml: >-
      <domain type='test'><name>web1</name><uuid>5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01</uuid>
      <memory unit='MiB'>64</memory><os><type>hvm</type></os></domain>
  tasks:
    - name: Record the fake host
      drover.compute.compute_node:
        uris: ["test:///default"]

    - name: Claim the room
      drover.compute.allocation:
        selections:
          - name: web1
            uuid: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
            host: localhost
            resources: {VCPU: 1}

    - name: Build it
      drover.compute.instance:
        name: web1
        uuid: 5e0ae0b4-92a5-4d10-a1f5-5b0a3a7b6d01
        uri: test:///default
        xml: "{{ xml }}"
"""

RETURN = r"""
host:
  description: The host it is on.
  returned: success
  type: str
domain:
  description: The domain, as M(drover.compute.hypervisor_info) shows it.
  returned: success
  type: dict
uncertain:
  description: True when the host was lost in the middle, so that the instance may run there.
  returned: failure
  type: bool
"""
