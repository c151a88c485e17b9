# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of modules that attach a device to an instance."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragment ``drover.compute.instance_device``."""

    DOCUMENTATION = r"""
options:
  name:
    description:
      - The name of the instance, or its uuid. It is not changed if libvirt has its uuid under
        another name.
      - One of O(name) and O(uuid) is required.
    type: str
  uuid:
    description: The uuid of the instance. With O(name), both must agree.
    type: str
  state:
    description: V(present) attaches or inserts, V(absent) detaches or ejects.
    type: str
    choices: [present, absent]
    default: present
"""
