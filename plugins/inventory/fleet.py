# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
name: fleet
short_description: Use the hosts and instances of the store as an inventory
version_added: 1.0.0
author:
  - The drover.compute authors (@drover-compute)
description:
  - Every discovered host, with its state and its figures in the variable C(drover_compute). The
    figures have the names that M(drover.compute.host_info) gives them. C(vcpus), C(memory_mb) and
    C(disk_gb) are the amounts of the host, C(vcpus_capacity) and so on the amounts for instances,
    and C(vcpus_used) and C(vcpus_free) the allocated and the free parts of these.
  - Hosts are in the group C(hypervisors), and in groups by state (C(state_up), C(state_down),
    C(state_enabled), C(state_disabled), C(state_maintenance), C(state_drained)), label
    (C(label_KEY_VALUE)), availability zone (C(zone_NAME)), aggregate (C(aggregate_NAME)), cell
    (C(cell_NAME)), hypervisor type (C(hypervisor_type_NAME)), its version
    (C(hypervisor_version_NUMBER)) and trait (C(trait_NAME)).
  - The store does not have the connection variables of a host. Use this plugin beside an inventory
    that has them, with the same names.
  - Files of this plugin end in C(drover.yml) or C(drover.yaml).
options:
  plugin:
    description: Has to be V(drover.compute.fleet).
    type: str
    required: true
    choices: [drover.compute.fleet]
  traits:
    description:
      - Traits of hosts that become groups and are in C(traits) of C(drover_compute), as shell
        patterns.
      - V(*) means all; a host has about a hundred.
    type: list
    elements: str
    default: [CUSTOM_*]
  instances:
    description:
      - Add instances as hosts of the inventory. They are in the group C(instances), by their names;
        if two have the same name, by name and uuid.
      - An instance never gets the name of a host or group of the inventory from any source, of a
        host of the store, or of this machine. It is then called by its name and the beginning of
        its uuid, with a warning. By O(keyed_groups) it joins no group that also has other members.
      - Instances are added after all other sources were read, so that other plugins that construct
        groups do not see them.
      - C(ansible_host) is the first address from libvirt's own networks, as of the last discovery.
    type: bool
    default: false
  service_down_time:
    description:
      - The greatest age of the last discovery, in seconds, for a host to count as up. With 0 the
        age does not count.
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
plugin: drover.compute.fleet
instances: true
keyed_groups:
  # Groups such as pool_nfs1.
  - key: drover_compute.disk_pool
    prefix: pool
  # Groups such as fleet_project_web, of instances and of hosts with that label.
  - key: drover_compute.labels
    prefix: fleet
groups:
  # Hosts with more than 64 GiB left.
  roomy: drover_compute.memory_mb_free is defined and drover_compute.memory_mb_free > 65536
compose:
  free_vcpus: drover_compute.vcpus_free
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ansible import constants as C
from ansible.errors import AnsibleParserError
from ansible.inventory.data import InventoryData
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (
    instance_names,
    options,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.validation import check_keys
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import inventory

HOSTS = "hypervisors"
INSTANCES = "instances"
VARIABLE = "drover_compute"
# Since ansible-core 2.19 only trusted texts are templates; before, all texts are templates unless
# marked as unsafe.
TRUST_IS_GIVEN = hasattr(BaseInventoryPlugin, "trusted_by_default")


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):
    NAME = "drover.compute.fleet"
    # Ansible's InventoryData.
    inventory: Any

    def verify_file(self, path: str) -> bool:
        return super().verify_file(path) and path.endswith(("drover.yml", "drover.yaml"))

    def parse(self, inventory: Any, loader: Any, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        known = C.config.get_configuration_definitions("inventory", self._load_name)
        check_keys(path, self._read_config_data(path), known, refuse=AnsibleParserError)
        contents = self._contents(path, cache)
        members: dict[str, list[str]] = {}
        for host in contents["hosts"]:
            self._add_host(host["host"], host)
            for group in [HOSTS, *_groups(host)]:
                members.setdefault(group, []).append(host["host"])
        self._add_members(members)
        if self._constructs():
            for host in contents["hosts"]:
                self._set_variables(host["host"])
                self._add_to_groups(host["host"])
                self._add_to_keyed_groups(host["host"])
        if contents["instances"]:
            _at_the_end(inventory, lambda: self._add_instances(contents["instances"]))

    def _add_instances(self, instances: list[dict[str, Any]]) -> None:
        """Add the instances; they change no host or group of any source."""
        groups = {
            *self.inventory.groups,
            INSTANCES,
            *(self._sanitize_group_name(name) for name in self.get_option("groups") or {}),
        }
        taken = {*self.inventory.hosts, *groups, *C.LOCALHOST}
        names = instance_names.choose(instances, taken)
        if names.changed:
            self.display.warning(
                "Instances with other names in the inventory, because theirs are names of hosts,"
                f" groups or this machine, or not usable with SSH: {', '.join(names.changed)}."
                " Rename the instances to find them by name."
            )
        for name, instance in names.names.items():
            self._add_host(name, instance)
            if instance_names.is_address(instance["addresses"]):
                self.inventory.hosts[name].set_variable(
                    "ansible_host", _no_templates(instance["addresses"][0])
                )
        self._add_members({INSTANCES: list(names.names)})
        if self._constructs():
            self._construct_instances(list(names.names), groups)

    def _construct_instances(self, names: list[str], there: set[str]) -> None:
        """Construct the variables and groups of instances in a separate inventory, then copy the
        allowed groups.
        """
        real = self.inventory
        try:
            for function in (self._set_variables, self._add_to_groups, self._add_to_keyed_groups):
                self.inventory = _beside(real, names)
                for name in names:
                    self._try(function, name)
                    real.hosts[name].vars = self.inventory.hosts[name].vars
                made = {
                    name: group
                    for name, group in self.inventory.groups.items()
                    if name not in ("all", "ungrouped", INSTANCES)
                }
                if function == self._add_to_keyed_groups:
                    made = self._own_groups(made, there, real)
                _copy(made, real)
        finally:
            self.inventory = real

    def _try(self, function: Callable[[str], None], name: str) -> None:
        """Construct for one instance; a failure, such as a group in itself, affects only this
        instance.
        """
        try:
            function(name)
        except Exception as problem:  # Ansible's own for a group in itself
            sentence = (
                f"Not all groups and variables of instance {name} could be constructed: {problem}"
            )
            if self.get_option("strict"):
                raise AnsibleParserError(sentence) from None
            self.display.warning(sentence)

    def _own_groups(self, made: dict[str, Any], there: set[str], real: Any) -> dict[str, Any]:
        """Remove instances from groups of other members. In these groups only a parent_group gets
        child groups.
        """
        foreign = sorted(
            name for name in made if name in there or name in real.hosts or name in C.LOCALHOST
        )
        refused = [name for name in foreign if made[name].hosts]
        if refused:
            self.display.warning(
                f"keyed_groups would put instances into {', '.join(refused)}, which is already a"
                " host or a group of other members. The instances were left out of it. Give the"
                " groups their own prefix."
            )
        written = {
            str(keyed.get("parent_group") or "") for keyed in self.get_option("keyed_groups") or ()
        }
        parents = {self._sanitize_group_name(name) for name in written if name} & there
        for name in refused:
            made[name].hosts = []
        return {
            name: group for name, group in made.items() if name not in foreign or name in parents
        }

    def _add_members(self, members: Mapping[str, Iterable[str]]) -> None:
        for name, names in sorted(members.items()):
            # Faster than add_child() of the inventory, which looks up both names and drops its
            # cache of groups each time.
            group = self.inventory.groups[self.inventory.add_group(self._sanitize_group_name(name))]
            for each in names:
                group.add_host(self.inventory.hosts[each])

    def _add_host(self, name: str, values: Mapping[str, Any]) -> None:
        """Add a host with its variable, which contains no templates.

        Not by set_variable() of the inventory: since ansible-core 2.19 it gives an origin to each
        text, number and list, which takes longer than all the rest.
        """
        self.inventory.add_host(name)
        self.inventory.hosts[name].set_variable(VARIABLE, _no_templates(values))

    def _constructs(self) -> bool:
        return any(self.get_option(name) for name in ("compose", "groups", "keyed_groups"))

    def _set_variables(self, name: str) -> None:
        variables = self.inventory.get_host(name).get_vars()
        self._set_composite_vars(
            self.get_option("compose"), variables, name, self.get_option("strict")
        )

    def _add_to_groups(self, name: str) -> None:
        self._add_host_to_composed_groups(
            self.get_option("groups"), {}, name, self.get_option("strict")
        )

    def _add_to_keyed_groups(self, name: str) -> None:
        self._add_host_to_keyed_groups(
            self.get_option("keyed_groups"), {}, name, self.get_option("strict")
        )

    def _contents(self, path: str, cache: bool) -> dict[str, Any]:
        """Read the hosts and instances from the cache or the store."""
        self.load_cache_plugin()
        key = self.get_cache_key(path)
        use_cache = self.get_option("cache")
        if use_cache and cache and key in self._cache:
            return self._cache[key]
        try:
            url = options.store_url(
                {"store_url": self.get_option("store_url")}, self._vars, self.templar
            )
            with Store.open(url).read() as connection:
                contents = inventory.read(
                    connection,
                    clock.now(connection),
                    self.get_option("service_down_time"),
                    self.get_option("traits"),
                    self.get_option("instances"),
                )
        except DroverError as problem:
            raise AnsibleParserError(f"{path}: {problem}") from None
        if use_cache:
            self._cache[key] = contents
        return contents


@functools.cache
def _trusted(text: str) -> Any:
    """Return a text with the mark of trust; the texts of hosts are mostly equal, so results are
    cached.
    """
    from ansible.template import trust_as_template

    return trust_as_template(text)


def _no_templates(value: Any) -> Any:
    """Mark each text that could be a template as none.

    A text without a brace is never a template. It gets no mark before ansible-core 2.19,
    and the mark of trust from then on: ansible-inventory shows all other texts as unsafe, and so
    does AWX.
    """
    if isinstance(value, str):
        if "{" in value:
            return value if TRUST_IS_GIVEN else wrap_var(value)
        return _trusted(value) if TRUST_IS_GIVEN else value
    if isinstance(value, Mapping):
        return {_no_templates(key): _no_templates(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_no_templates(each) for each in value]
    return value


def _groups(host: Mapping[str, Any]) -> Iterator[str]:
    yield f"state_{host['state']}"
    yield f"state_{host['status']}"
    if host["maintenance"]:
        yield "state_maintenance"
    if host["drained"]:
        yield "state_drained"
    for key, value in host["labels"].items():
        yield f"label_{key}_{value}"
    for kind in ("zone", "aggregate", "cell", "hypervisor_type", "hypervisor_version", "trait"):
        for name in host[f"{kind}s"]:
            yield f"{kind}_{name}"


def _at_the_end(inventory: Any, function: Callable[[], None]) -> None:
    """Call a function after all sources were read, before the inventory reconciles its groups."""
    reconcile = inventory.reconcile_inventory

    def first() -> None:
        inventory.reconcile_inventory = reconcile
        function()
        reconcile()

    inventory.reconcile_inventory = first


def _beside(real: Any, names: Iterable[str]) -> Any:
    """Return a new inventory with only these hosts, their variables and the group of instances."""
    beside = InventoryData()
    beside.add_group(INSTANCES)
    for name in names:
        beside.add_host(name, INSTANCES)
        beside.hosts[name].vars = dict(real.hosts[name].vars)
    return beside


def _copy(made: Mapping[str, Any], real: Any) -> None:
    """Copy groups, with their hosts and child groups, into an inventory."""
    for name, group in sorted(made.items()):
        copy = real.groups[real.add_group(name)]
        for host in group.hosts:
            copy.add_host(real.hosts[host.name])
    for name, group in sorted(made.items()):
        for child in group.child_groups:
            if child.name in made:
                real.groups[name].add_child_group(real.groups[child.name])
