#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _reboot_info
short_description: Find out if a hypervisor needs a reboot
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor and changes nothing. A rolling maintenance runs it.
  - It looks for C(/run/reboot-required) and C(/run/reboot-needed), compares the running kernel with
    the installed ones, and asks the tool of the system, C(dnf needs-restarting -r) or
    C(zypper needs-rebooting). One sign is enough for a yes.
options:
  sentinels:
    description: Files to look for instead. The host needs a reboot if one of them exists.
    type: list
    elements: str
    default: []
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute._rolling
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

from ansible_collections.drover.compute.plugins.module_utils._host import reboot_signs
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule


def main() -> None:
    """Run the module."""
    module = HostModule(
        argument_spec={"sentinels": {"type": "list", "elements": "str", "default": []}},
        supports_check_mode=True,
    )
    sentinels = module.params["sentinels"]
    try:
        answer = reboot_signs.of_files(sentinels) if sentinels else reboot_signs.of_system()
    except OSError as problem:
        answer = reboot_signs.RebootAnswer(None, str(problem))
    module.exit_json(changed=False, **answer._asdict())


if __name__ == "__main__":
    main()
