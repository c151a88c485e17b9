# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables of a host, from Ansible's own hostvars."""

from __future__ import annotations

from ansible.inventory.manager import InventoryManager
from ansible.parsing.dataloader import DataLoader
from ansible.vars.hostvars import HostVars
from ansible.vars.manager import VariableManager

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    variables_of,
)


def test_a_host_outside_the_inventory_has_no_variables():
    loader = DataLoader()
    inventory = InventoryManager(loader, sources="kvm1,")
    inventory.get_host("kvm1").set_variable("drover_power_driver", "ssh")
    found = HostVars(inventory, VariableManager(loader, inventory), loader)
    assert variables_of({"hostvars": found}, "kvm1").get("drover_power_driver") == "ssh"
    assert variables_of({"hostvars": found}, "gone") == {} == variables_of({}, "kvm1")
