# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of plugins that simulate changes."""

from __future__ import annotations


class ModuleDocFragment:
    """The documentation fragment ``drover.compute.simulation``."""

    DOCUMENTATION = r"""
options:
  flavors:
    description:
      - The sizes for the count of further instances that fit. Names of flavors in the store, or
        requests as in the lookup P(drover.compute.schedule#lookup). By default all flavors.
    type: list
    elements: raw
  max_moves:
    description: The most moves of the plan of a rebalance after the changes. With V(0) there is no
      such plan, which is faster in a large fleet.
    type: int
    default: 100
  export:
    description: A file that M(drover.compute.store) with
      O(drover.compute.store#module:state=exported) wrote, to be taken instead of the store.
    type: path
"""
