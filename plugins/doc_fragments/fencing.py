# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When a host may be fenced."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragment ``drover.compute.fencing``."""

    DOCUMENTATION = r"""
options:
  down_seconds:
    description: A host that was seen up within this number of seconds is not fenced.
    type: int
    default: 60
  start_seconds:
    description: No host is fenced within this number of seconds after the start of this controller.
    type: int
    default: 300
  quiet_seconds:
    description: No host is fenced within this number of seconds after another one.
    type: int
    default: 180
  down_percent:
    description: No host is fenced if this share of the fleet, and more than one host, looks dead at
      the same time.
    type: int
    default: 50
"""
