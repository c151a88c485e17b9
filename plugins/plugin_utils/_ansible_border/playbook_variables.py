# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The variables that each playbook reads, without ``drover_``. Made by make pages. Do not edit."""

from __future__ import annotations

#: The variables that describe a host.
OF_HOSTS = """
availability_zone cell cpu cpu_allocation_ratio cpu_dedicated_set cpu_shared_set disk_allocation_ratio domain_type hypervisors
instances_path ip_pools labels mdev_types migration_address migration_uri numa_report_in_placement pci_device_specs
pci_report_in_placement probe_kvm ram_allocation_ratio reason reserved_host_cpus reserved_host_disk_mb reserved_host_memory_mb
reserved_huge_pages shared_block_devices shared_pools storage_pools uris vcpu_pin_set
"""
READ: dict[str, str] = {
    "audit": """
audit_heal audit_release_expired audit_strict notify reason store_url
""",
    "awx_setup": """
awx_approval_timeout awx_approvers awx_audit_rrule awx_credentials awx_discover_forks awx_discover_rrule awx_discover_slices
awx_hypervisors awx_image awx_inventory_variables awx_metrics_push awx_notifications awx_operators awx_organization awx_playbooks
awx_power awx_prefix awx_project_branch awx_project_credential awx_project_url awx_report awx_report_host awx_report_rrule awx_store_url
awx_viewers
""",
    "capacity": """
controller disk_gb flavor memory_mb scheduler scheduler_file service_down_time store_machine store_url vcpus
""",
    "check": """
controller domain_type hypervisors instances_path migration migration_address migration_source migration_trust_peers migration_uri reason
store_machine store_url uris
""",
    "discover": """
awx_discover_slices max_age service_down_time store_url
"""
    + OF_HOSTS,
    "drain": """
absent_hosts backup_folder backup_incremental backup_timeout before_drain controller destination_pool drain_rounds extra_moves host
max_migrations max_migrations_overall max_migrations_per_destination max_wait migration notify plan_only pool scheduler scheduler_file
service_down_time shutdown_timeout solver_seconds start_max_age store_machine store_url unmovable
"""
    + OF_HOSTS,
    "evacuate": """
absent_hosts ceph_admin ceph_arguments controller evacuate_down_percent evacuate_down_seconds evacuate_force evacuate_quiet_seconds
evacuate_rounds evacuate_start_seconds host host_is_off max_evacuations notify plan_only power_address power_broadcast power_ca_path
power_confirmations power_domain power_driver power_force power_mac power_password power_resource_id power_shutdown_command power_timeout
power_user power_uuid power_validate_certs scheduler scheduler_file service_down_time start_max_age start_timeout storage_addresses
storage_fence store_machine store_url unmovable
"""
    + OF_HOSTS,
    "fleet_cpu": """
absent_hosts controller fleet_cpu_hosts fleet_cpu_renew start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "history": """
history_day history_rows host instance instances store_url
""",
    "host_disable": """
host reason service_down_time store_url
""",
    "host_enable": """
host reason service_down_time store_url
""",
    "host_remove": """
host new_name reason service_down_time store_url
""",
    "host_replace": """
host service_down_time store_url
"""
    + OF_HOSTS,
    "hosts": """
host selector service_down_time store_url
""",
    "image_cache_clean": """
absent_hosts controller start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_cdrom": """
absent_hosts controller disk disk_path disk_state instance start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_delete": """
absent_hosts controller definitions delete_keep_disks instance instance_definitions instance_force instance_timeout instances selector
start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_disk": """
absent_hosts controller disk disk_gb disk_path disk_state instance instance_timeout start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_disk_move": """
abort absent_hosts controller disk instance migration pool start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_migrate": """
absent_hosts controller despite_policy destination instance instance_force instance_timeout instances max_migrations
max_migrations_overall max_migrations_per_destination max_wait migrate_cold migration scheduler scheduler_file selector service_down_time
shutdown_timeout start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_reboot": """
absent_hosts controller instance instance_timeout instances reboot_hard selector start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_resize": """
absent_hosts controller despite_policy destination disk_gb flavor instance instance_force instance_timeout instances memory_mb migration
resize scheduler scheduler_file selector service_down_time start_max_age store_machine store_url vcpus
"""
    + OF_HOSTS,
    "instance_show": """
instance instances selector store_url
""",
    "instance_snapshot": """
absent_hosts controller instance instances selector snapshot_description snapshot_discard snapshot_name snapshot_state snapshot_timeout
start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_start": """
absent_hosts controller instance instance_timeout instances selector start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instance_stop": """
absent_hosts controller instance instance_force instance_timeout instances selector start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "instances": """
host instance_state project selector store_url
""",
    "libvirt_restart": """
host libvirt_service store_url
"""
    + OF_HOSTS,
    "metrics": """
metrics metrics_host metrics_push scheduler scheduler_file service_down_time store_url
""",
    "migration_abort": """
absent_hosts controller host instance instances max_migrations max_migrations_overall max_migrations_per_destination max_wait selector
shutdown_timeout start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "migration_trust": """
host hypervisors migration_source migration_trust_peers migration_trust_state migration_uri store_url
""",
    "place": """
absent_hosts apply_changes build_timeout controller definitions delete_keep_disks despite_policy domain_template instance_definitions
instance_force instance_timeout migration place_force remove_absent scheduler scheduler_file server_groups service_down_time start_max_age
store_machine store_url
"""
    + OF_HOSTS,
    "power": """
absent_hosts controller host power_action power_address power_boot_timeout power_broadcast power_ca_path power_domain power_driver
power_force power_mac power_password power_reboot_command power_resource_id power_shutdown_command power_timeout power_user power_uuid
power_validate_certs service_down_time start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "rebalance": """
absent_hosts controller max_migrations max_migrations_overall max_migrations_per_destination max_wait migration plan_file plan_only
rebalance_cooldown rebalance_cost_per_gib rebalance_despite_maintenance rebalance_margin rebalance_max_moves rebalance_threshold
rebalance_weights scheduler scheduler_file service_down_time shutdown_timeout start_max_age store_machine store_url
"""
    + OF_HOSTS,
    "report": """
controller extra_moves fleet max_migrations max_migrations_overall max_migrations_per_destination metrics metrics_host metrics_push
migration plan plan_drain report report_host scheduler scheduler_file service_down_time solver_seconds store_machine store_url
""",
    "rolling_maintenance": """
absent_hosts backup_folder backup_incremental backup_timeout controller drain_rounds max_migrations max_migrations_overall
max_migrations_per_destination max_wait migration notify plan_only power_address power_boot_timeout power_broadcast power_ca_path
power_domain power_driver power_force power_mac power_password power_reboot_command power_resource_id power_shutdown_command power_timeout
power_user power_uuid power_validate_certs reboot_sentinel rolling_all_hosts rolling_batch_size rolling_blocked rolling_bring_back
rolling_hooks rolling_reboot rolling_restart rolling_spare_hosts scheduler scheduler_file service_down_time shutdown_timeout
solver_seconds start_max_age store_machine store_url unmovable
"""
    + OF_HOSTS,
    "schedule": """
controller disk_gb flavor memory_mb num_instances scheduler scheduler_file service_down_time store_machine store_url vcpus
""",
    "simulate": """
changes flavor fleet rebalance_max_moves replay scheduler scheduler_file service_down_time simulation_page store_export store_url
""",
    "undrain": """
absent_hosts controller host max_migrations pool shutdown_timeout start_max_age store_machine store_url
"""
    + OF_HOSTS,
}
