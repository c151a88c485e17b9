#!/usr/bin/python
# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: _boot_info
short_description: Read the id of the boot that a hypervisor runs
author:
  - The drover.compute authors (@drover-compute)
description:
  - Runs on a hypervisor and changes nothing. An evacuation, a rolling maintenance and a drain run
    it.
options: {}
extends_documentation_fragment:
  - drover.compute.attributes
  - drover.compute.attributes.platform
  - drover.compute.attributes.info_module
seealso:
  - module: drover.compute._reboot_info
"""

EXAMPLES = r"""
# Only the roles and playbooks of this collection call this module.
[]
"""

from ansible_collections.drover.compute.plugins.module_utils._host import boot
from ansible_collections.drover.compute.plugins.module_utils._host.module import HostModule


def main() -> None:
    """Run the module."""
    module = HostModule(argument_spec={}, supports_check_mode=True)
    boot_id = boot.read()
    if boot_id is None:
        module.fail_json(msg=f"{boot.BOOT_ID} cannot be read.")
    module.exit_json(changed=False, boot_id=boot_id)


if __name__ == "__main__":
    main()
