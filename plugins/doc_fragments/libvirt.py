# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Options that every module which talks to libvirt has."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragment ``drover.compute.libvirt``."""

    DOCUMENTATION = r"""
options:
  uri:
    description:
      - The libvirt URI of the hypervisor, seen from the machine that runs the module.
      - The modules are meant to run on the hypervisor itself, where V(qemu:///system) is right.
      - V(test:///default) is libvirt's own driver for tests, which needs no daemon.
    type: str
    default: qemu:///system
requirements:
  - Python 3.9 or later on the host that runs the module
  - libvirt on the hypervisor, 6.0 or later
  - python3-libvirt, the Python binding of libvirt, on the host that runs the module
"""
