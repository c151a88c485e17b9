#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# Documentation only: the action plugin of the same name does the work, on the controller.

from __future__ import annotations

DOCUMENTATION = r"""
module: _instance_build
short_description: Build the instance of a claim on its hypervisor
author:
  - The drover.compute authors (@drover-compute)
description:
  - A step of the role P(drover.compute.place#role). It is private to the collection and may change
    in any release.
  - Works on the hypervisor of the claim of M(drover.compute.allocation), so delegate the task
    there. The store records the result.
  - The files and the domain of a failed build are removed again. Any other failure during a build
    (a time limit, a lost host, a store that cannot be written) proves nothing. Only if C(uncertain)
    is false, nothing of the instance is there for certain; O(state=settled) finds out.
options:
  state:
    description:
      - V(built) creates the disks, defines and starts the domain of a claim, checks that it runs,
        and records it.
      - V(settled) finds out the result of a build that failed or was interrupted. It withdraws the
        orders on the hypervisor and reads the domain. An instance that runs there is recorded. If
        nothing of it is there, the module claims its resources on the first of the alternates in
        O(claim). Without alternates they are released, and the module fails with O(message). If the
        result is not certain, it fails and changes nothing.
    type: str
    choices: [built, settled]
    default: built
  uuid:
    description: The uuid of the instance.
    type: str
    required: true
  name:
    description: Its name.
    type: str
  xml:
    description: The domain XML, with the same uuid and name.
    type: str
  numa:
    description: The claimed pins, NUMA cells and huge pages. They replace the ones in O(xml). By
      default O(xml) stays as it is.
    type: dict
  disks:
    description:
      - Disks to create, as in the option of the same name of M(drover.compute.domain).
    type: list
    elements: dict
    default: []
  defined_disks:
    description:
      - The disks as the definition has them. The module refuses a disk that discovery would count
        on another storage pool than the definition.
    type: list
    elements: dict
    default: []
  seed:
    description:
      - A cloud-init seed to write, as in the option of the same name of M(drover.compute.domain).
    type: dict
  autostart:
    description: Start the domain with its host.
    type: bool
    default: false
  mdevs:
    description: The mediated devices of its claim, as in the option of the same name of
      M(drover.compute.domain).
    type: list
    elements: dict
    default: []
  graphics_password:
    description: The password of the graphical console, as in the option of the same name of
      M(drover.compute.domain).
    type: str
  uri:
    description: The libvirt URI of the hypervisor.
    type: str
    default: qemu:///system
  looked_at:
    description: When the hosts were read for what is new, as M(drover.compute._schedule) returns
      it. Without it the module reads them for this instance.
    type: float
  timeout:
    description: Seconds for the start.
    type: int
    default: 60
  claim:
    description:
      - With O(state=settled), the claim of the build, as M(drover.compute.allocation) returns it,
        with its alternates. It may have more keys, such as those of the definition.
    type: dict
    default: {}
  expires:
    description: With O(state=settled), seconds until a new claim expires; 0 for never.
    type: int
    default: 3600
  message:
    description: With O(state=settled), the reason of the failed build, a sentence for the error.
    type: str
    default: It was not built.
extends_documentation_fragment:
  - drover.compute.store
  - drover.compute.attributes
  - drover.compute.attributes.actiongroup
  - drover.compute.attributes.full
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""
