# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: compute
short_description: The hosts of the store, and its instances, as an inventory
version_added: 0.1.0
author:
  - The drover.compute authors (@drover)
description:
  - Every host that discovery has seen, with what is free and used, as the variable C(drover_compute).
  - Hosts are in the group C(hypervisors), and in groups by state (C(state_up), C(state_down), C(state_enabled), C(state_disabled),
    C(state_maintenance), C(state_drained)), availability zone (C(zone_NAME)), aggregate (C(aggregate_NAME)), cell (C(cell_NAME)),
    hypervisor type (C(hypervisor_type_NAME)), its version (C(hypervisor_version_NUMBER)) and trait (C(trait_NAME)).
  - How a host is reached is not in the store. Use it beside the inventory that says so, of the same names.
  - Files of this plugin end in C(drover.yml) or C(drover.yaml).
options:
  plugin:
    description: Has to be V(drover.compute.compute).
    type: str
    required: true
    choices: [drover.compute.compute]
  traits:
    description:
      - Which traits of hosts become groups and are among the C(traits) of C(drover_compute), as shell patterns.
      - V(*) gives all, of which a host has a hundred.
    type: list
    elements: str
    default: [CUSTOM_*]
  instances:
    description:
      - Whether instances are hosts of the inventory, too. They are in the group C(instances), by the names that they have; where two
        have one name, by name and uuid.
      - C(ansible_host) is the first address that libvirt's own networks gave them, as of the last discovery.
    type: bool
    default: false
  service_down_time:
    description:
      - For how many seconds the last discovery of a host may lie back until it counts as down; 0 for ever.
    type: int
    default: 0
    vars:
      - name: drover_service_down_time
extends_documentation_fragment:
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
  - drover.compute.store
  - drover.compute.store.plugin
"""

EXAMPLES = r"""
# fleet.drover.yml
plugin: drover.compute.compute
instances: true
keyed_groups:
  # Groups such as pool_nfs1.
  - key: drover_compute.disk_pool
    prefix: pool
groups:
  # Hosts with more than 64 GiB left.
  roomy: drover_compute.memory_mb_free is defined and drover_compute.memory_mb_free > 65536
compose:
  free_vcpus: drover_compute.vcpus_free
"""

import time

from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.drover.compute.plugins.plugin_utils import options
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store, inventory

HOSTS = "hypervisors"
INSTANCES = "instances"
VARIABLE = "drover_compute"
# Since ansible-core 2.19 a text is a template only where it is said to be one; before, unless it is said not to be.
TRUST_IS_GIVEN = hasattr(BaseInventoryPlugin, "trusted_by_default")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "drover.compute.compute"

    def verify_file(self, path):
        return super().verify_file(path) and path.endswith(("drover.yml", "drover.yaml"))

    def parse(self, inventory, loader, path, cache=True):
        super().parse(inventory, loader, path, cache)
        self._read_config_data(path)
        contents = self._contents(path, cache)
        own = not (self.get_option("compose") or self.get_option("groups") or self.get_option("keyed_groups"))
        members = {}
        for host in contents["hosts"]:
            self._add(host["host"], host)
            for group in [HOSTS, *_groups(host)]:
                members.setdefault(group, []).append(host["host"])
        for name, instance in _named(contents["instances"]).items():
            self._add(name, instance)
            if instance["addresses"]:
                self.inventory.set_variable(name, "ansible_host", instance["addresses"][0])
            members.setdefault(INSTANCES, []).append(name)
        for name, names in sorted(members.items()):
            # With add_child() the inventory would look up both of them, and forget what it knows of groups, each time.
            group = self.inventory.groups[self.inventory.add_group(self._sanitize_group_name(name))]
            for each in names:
                group.add_host(self.inventory.hosts[each])
        if not own:
            for name in [*(host["host"] for host in contents["hosts"]), *members.get(INSTANCES, ())]:
                self._construct(name)

    def _add(self, name, values):
        """A host with its variable, no text of which is ever a template.

        Not by set_variable() of the inventory: of ansible-core 2.19 and later it gives each text, number and list
        of each host an origin, which takes longer than all the rest; and what has none is no template there.
        """
        self.inventory.add_host(name)
        self.inventory.hosts[name].set_variable(VARIABLE, values if TRUST_IS_GIVEN else _no_templates(values))

    def _construct(self, name):
        strict, variables = self.get_option("strict"), self.inventory.get_host(name).get_vars()
        self._set_composite_vars(self.get_option("compose"), variables, name, strict)
        self._add_host_to_composed_groups(self.get_option("groups"), {}, name, strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), {}, name, strict)

    def _contents(self, path, cache):
        """What the store has, or the cache of an earlier run."""
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        wanted = self.get_option("cache")
        if wanted and cache and key in self._cache:
            return self._cache[key]
        try:
            url = options.store_url({"store_url": self.get_option("store_url")}, self._vars, self.templar)
            with Store.open(url).read() as connection:
                found = inventory.read(
                    connection,
                    time.time(),
                    self.get_option("service_down_time"),
                    self.get_option("traits"),
                    self.get_option("instances"),
                )
        except DroverError as problem:
            raise AnsibleParserError(f"{path}: {problem}") from None
        if wanted:
            self._cache[key] = found
        return found


def _no_templates(values):
    # Only those that might be one: to wrap all of them takes as long as the rest.
    return {name: wrap_var(value) if "{" in str(value) else value for name, value in values.items()}


def _groups(host):
    yield f"state_{host['state']}"
    yield f"state_{host['status']}"
    if host["maintenance"]:
        yield "state_maintenance"
    if host["drained"]:
        yield "state_drained"
    for kind in ("zone", "aggregate", "cell", "hypervisor_type", "hypervisor_version", "trait"):
        for name in host[f"{kind}s"]:
            yield f"{kind}_{name}"


def _named(instances):
    """dict name in the inventory -> instance."""
    count = {}
    for each in instances:
        count[each["name"]] = count.get(each["name"], 0) + 1
    return {each["name"] if count[each["name"]] == 1 else f"{each['name']}-{each['uuid']}": each for each in instances}
