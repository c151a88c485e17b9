# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The promises of modules about check mode, diff mode and similar attributes."""

from __future__ import annotations


class ModuleDocFragment:
    """Documentation fragments ``drover.compute.attributes`` and ``drover.compute.attributes.*``."""

    # Every module must override support and details if its support is not full.
    DOCUMENTATION = r"""
options: {}
attributes:
  check_mode:
    description: Can run in C(check_mode) and return changed status prediction without modifying
      target.
  diff_mode:
    description: Will return details on what has changed (or possibly needs changing in
      C(check_mode)), when in diff mode.
  idempotent:
    description: When run twice in a row outside check mode, with the same arguments, the second
      invocation indicates no change.
"""

    # Modules that predict, show and repeat their changes.
    FULL = r"""
options: {}
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
"""

    # Modules that read and change nothing.
    INFO_MODULE = r"""
options: {}
attributes:
  check_mode:
    support: full
    details:
      - The module reads only, so that check mode makes no difference.
  diff_mode:
    support: N/A
    details:
      - The module changes nothing.
  idempotent:
    support: full
    details:
      - The module changes nothing.
"""

    # Modules that run on a hypervisor.
    PLATFORM = r"""
options: {}
attributes:
  platform:
    description: Target OS/families that can be operated against.
    support: full
    platforms: posix
"""

    # Members of the action group.
    ACTIONGROUP = r"""
options: {}
attributes:
  action_group:
    description: Use C(group/drover.compute.all) in C(module_defaults) to set defaults for this
      module.
    support: full
    membership:
      - drover.compute.all
"""
