# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All variables that the collection reads or sets. A test compares them with code and pages."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean

from .._common.plain import to_plain
from .._common.validation import did_you_mean, shown

PREFIX = "drover_"
_NAMES = """
abort absent_hosts apply_changes audit audit_data audit_heal audit_release_expired audit_strict availability_zone awx_approval_timeout awx_approvers
awx_audit_rrule awx_credentials awx_discover_forks awx_discover_rrule awx_discover_slices awx_hypervisors awx_image awx_inventory_variables
awx_notifications awx_operators awx_organization awx_playbooks awx_power awx_prefix awx_project awx_project_branch awx_project_credential
awx_metrics_push awx_project_url awx_report awx_report_host awx_report_rrule awx_roles awx_store_url awx_viewers backup_folder
backup_incremental backup_timeout before_drain build_timeout cell changes ceph_admin ceph_arguments controller
check_result compute cpu cpu_allocation_ratio cpu_dedicated_set cpu_shared_set definitions delete_keep_disks despite_policy destination destination_pool disk
disk_allocation_ratio disk_gb disk_path disk_state domain_template domain_type drain_result drain_rounds evacuate_down_percent evacuate_down_seconds
evacuate_force evacuate_quiet_seconds evacuate_result evacuate_rounds evacuate_start_seconds extra_moves flavor fleet fleet_cpu_hosts fleet_cpu_renew host
host_is_off history_day
history_rows hosts_result hypervisors instance instance_action instance_definitions instance_force instance_state instance_timeout instances
instances_path ip_pools labels libvirt_service max_age max_evacuations max_migrations max_migrations_overall max_migrations_per_destination max_wait
mdev_types memory_mb metrics metrics_host metrics_push migrate_cold migration migration_address new_name
migration_source migration_trust_peers migration_trust_state migration_uri
notify num_instances numa_report_in_placement pci_device_specs pci_report_in_placement place_force place_result plan plan_drain plan_file plan_only
pool power_action power_address power_boot_timeout power_broadcast power_ca_path power_confirmations power_domain power_driver power_force
power_mac power_password power_reboot_command power_resource_id power_shutdown_command power_timeout power_user power_uuid power_validate_certs
probe_kvm project ram_allocation_ratio reason rebalance_cooldown rebalance_cost_per_gib rebalance_despite_maintenance rebalance_margin
rebalance_max_moves rebalance_result rebalance_threshold rebalance_weights reboot_hard reboot_sentinel remove_absent report report_host
replay report_result reserved_host_cpus reserved_host_disk_mb reserved_host_memory_mb reserved_huge_pages resize rolling rolling_all_hosts
rolling_batch_size rolling_blocked rolling_bring_back rolling_hooks rolling_reboot rolling_restart rolling_spare_hosts scheduler
scheduler_file selector server_groups service_down_time shared_block_devices shared_pools shutdown_timeout simulation_page simulation_result
snapshot_description snapshot_discard snapshot_name snapshot_state snapshot_timeout solver_seconds start_max_age start_timeout storage_addresses storage_fence
storage_pools store_export store_machine store_url unmovable uris vcpu_pin_set vcpus
"""
KNOWN = frozenset(PREFIX + name for name in _NAMES.split())
_YES_OR_NO = """
abort apply_changes audit_heal audit_release_expired audit_strict backup_incremental delete_keep_disks despite_policy fleet_cpu_renew instance_force
migrate_cold
numa_report_in_placement pci_report_in_placement plan_only power_validate_certs probe_kvm rebalance_despite_maintenance reboot_hard
remove_absent rolling_all_hosts rolling_bring_back rolling_restart snapshot_discard
"""
#: The variables with the values true or false. Ansible's filter bool takes any other word as false.
YES_OR_NO = frozenset(PREFIX + name for name in _YES_OR_NO.split())
_WHOLE = """
backup_timeout build_timeout drain_rounds evacuate_down_percent evacuate_down_seconds evacuate_quiet_seconds evacuate_rounds evacuate_start_seconds
extra_moves history_rows instance_timeout max_evacuations max_migrations max_migrations_overall max_migrations_per_destination max_wait
migration_trust_peers power_boot_timeout power_confirmations power_timeout rebalance_cooldown rebalance_max_moves reserved_host_cpus
rolling_batch_size rolling_spare_hosts service_down_time shutdown_timeout snapshot_timeout start_timeout
"""
#: The variables with whole numbers. For another value, Ansible lists all variables of the role.
WHOLE = frozenset(PREFIX + name for name in _WHOLE.split())
#: Former names without a likeness to the new ones.
_RENAMED = {"apply": "plan_only", "bandwidth_mib": "migration"}
#: The likeness, from 0 to 1, that makes a name mistyped instead of a name without its scope.
_MISTYPED = 0.85


def unknown(names: Iterable[str]) -> list[str]:
    """Return a warning for each name with the prefix that is no variable of the collection."""
    return [
        f"drover.compute has no variable {name}{_meant(name)}, so that it changes nothing. "
        f"Correct its name; the name of a variable of your own must not begin with {PREFIX}."
        for name in sorted(each for each in names if each.startswith(PREFIX) and each not in KNOWN)
    ]


def neither_yes_nor_no(variables: Mapping[str, Any], template: Callable[[Any], Any]) -> list[str]:
    """Return a sentence for each variable that must be true or false and is neither.

    A misspelt ``drover_plan_only=ture`` would count as false, and begin a real run.

    :param template: evaluates a value that may be a template.
    """
    found = []
    for name in sorted(each for each in YES_OR_NO if each in variables):
        try:
            value = to_plain(template(variables[name]))
        except AnsibleError:
            # The task that reads it fails with Ansible's own message.
            continue
        try:
            boolean(value)
        except TypeError:
            found.append(
                f"{name} is {shown(value)}, which is neither true nor false. Write true, yes, on or 1, or false, no, off or 0."
            )
    return found


def no_numbers(
    variables: Mapping[str, Any], template: Callable[[Any], Any], wanted: Callable[[str], bool]
) -> list[str]:
    """Return a sentence for each variable that must be a whole number and is none.

    :param template: evaluates a value that may be a template.
    :param wanted: tells whether a variable is read.
    """
    found = []
    for name in sorted(each for each in WHOLE if each in variables and wanted(each)):
        try:
            value = to_plain(template(variables[name]))
        except AnsibleError:
            # The reader of the variable fails, in Ansible's own words.
            continue
        if value is not None and not (
            not isinstance(value, bool) and re.fullmatch("[0-9]+", str(value).strip())
        ):
            found.append(
                f"{name} is {shown(value)}, which is no whole number from 0 on. Write one, or leave it out."
            )
    return found


def _meant(name: str) -> str:
    """Return a question in brackets with the names that may be meant; empty without such names.

    Names have a scope: "hooks" lacks its scope and may be "rolling_hooks". "hook" may be the same,
    and is mistyped too.
    """
    bare = name.removeprefix(PREFIX).lower()
    whole = [each.removeprefix(PREFIX) for each in KNOWN]
    if bare in _RENAMED:
        scoped = [PREFIX + _RENAMED[bare]]
    else:
        ends = {each.partition("_")[2] for each in whole} - {""}
        near = (
            [bare]
            if any(each.endswith(f"_{bare}") for each in whole)
            else difflib.get_close_matches(bare, sorted(ends), 1, _MISTYPED)
        )
        scoped = sorted(each for each in KNOWN if near and each.endswith(f"_{near[0]}"))
    if not scoped or difflib.get_close_matches(bare, whole, 1, _MISTYPED):
        return did_you_mean(name, KNOWN, PREFIX)
    return f" (did you mean {' or '.join(scoped)}?)"
