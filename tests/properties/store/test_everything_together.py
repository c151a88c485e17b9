# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plain, pinned, huge-page and device instances through all operations, in any order: no resource
is given twice.

The hosts of the test have domains as the orders of the store make them. After each step the store
and the hosts must agree about the resources. At the end one discovery by an empty store must give
the same.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.module_utils._domain.numa import pinned_cpus
from ansible_collections.drover.compute.plugins.module_utils._domain.numa_xml import with_numa
from ansible_collections.drover.compute.plugins.plugin_utils._common import capacity_rule, certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    resize_destination,
    scheduling,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import orders, resizes
from ansible_collections.drover.compute.plugins.plugin_utils._placement import audit, claims
from ansible_collections.drover.compute.plugins.plugin_utils._records.orders import NewSize
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import devices, numa
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    flavors,
    instance_lookup,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, uuid_of
from ansible_collections.drover.compute.tests.unit.tracker import machines

PROOF = certainty.word("a test")
PARENT, MADE_MDEVS = "pci_0000_84_00_0", 2

#: vcpus, memory_mb, extra specs. A resize is possible between flavors of one row of devices.
FLAVORS = {
    "plain": (2, 64, {}),
    "plain-large": (3, 128, {}),
    "pinned": (2, 64, {"hw:cpu_policy": "dedicated"}),
    "pinned-large": (4, 128, {"hw:cpu_policy": "dedicated", "hw:numa_nodes": "2"}),
    "cores": (2, 64, {"hw:cpu_policy": "dedicated", "hw:cpu_thread_policy": "isolate"}),
    "threads": (
        2,
        64,
        {
            "hw:cpu_policy": "dedicated",
            "hw:cpu_thread_policy": "require",
            "hw:emulator_threads_policy": "share",
        },
    ),
    "emulator": (1, 64, {"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "isolate"}),
    "mixed": (3, 64, {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}),
    "mixed-cells": (
        4,
        128,
        {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "1,3", "hw:numa_nodes": "2"},
    ),
    "pages": (1, 64, {"hw:mem_page_size": "2048"}),
    "pages-cells": (2, 128, {"hw:mem_page_size": "large", "hw:numa_nodes": "2"}),
    "pages-pinned": (2, 128, {"hw:mem_page_size": "2048", "hw:cpu_policy": "dedicated"}),
    "gpu": (1, 64, {"pci_passthrough:alias": "gpu:1"}),
    "gpu-pinned": (
        2,
        64,
        {
            "pci_passthrough:alias": "gpu:1",
            "hw:cpu_policy": "dedicated",
            "hw:mem_page_size": "2048",
        },
    ),
    "function": (1, 64, {"pci_passthrough:alias": "function:1"}),
    "card": (1, 64, {"pci_passthrough:alias": "card:1"}),
    "vgpu": (1, 64, {"resources:VGPU": "1"}),
    "vgpu-pinned": (2, 64, {"resources:VGPU": "1", "hw:cpu_policy": "dedicated"}),
}
#: Sizes of resizes that keep the flavor.
SIZES = {"smaller": {"memory_mb": 32}, "larger": {"memory_mb": 192}, "wider": {"vcpus": 3}}
ALIASES = [
    {"name": "gpu", "vendor_id": "10de", "product_id": "2204"},
    {"name": "function", "vendor_id": "8086", "product_id": "154c", "device_type": "type-VF"},
    {"name": "card", "vendor_id": "8086", "product_id": "1572", "device_type": "type-PF"},
]
SPECS = [{key: alias[key] for key in ("vendor_id", "product_id")} for alias in ALIASES]
#: CPU sets of hosts with CPUs 0-3 and 8-11 in one cell and 4-7 and 12-15 in the other.
HOSTS = {
    "kvm1": {"cpu_shared_set": "0,8,4,12", "cpu_dedicated_set": "1-3,9-11,5-7,13-15"},
    "kvm2": {"cpu_shared_set": "0,1,4,5", "cpu_dedicated_set": "2,10,3,11,6,14"},
    "kvm3": {"cpu_dedicated_set": "0-3,8-11"},
    "kvm4": {},
}
NAMES = ("a", "b", "c", "d", "e", "f")
KEEP = ("host", "guest", "memory_mb", "shared", "pins", "reserved")

hosts, kinds, any_of_them = (
    st.sampled_from(sorted(HOSTS)),
    st.sampled_from(sorted(FLAVORS)),
    st.integers(0, len(NAMES) - 1),
)
steps = st.one_of(
    st.tuples(st.sampled_from(["make", "make", "place"]), any_of_them, kinds),
    st.tuples(
        st.sampled_from(["build", "fail", "undo", "revert", "delete", "stop", "start"]), any_of_them
    ),
    st.tuples(st.sampled_from(["go_on", "end", "end"]), any_of_them),
    st.tuples(st.just("move"), any_of_them, hosts),
    st.tuples(
        st.just("resize"),
        any_of_them,
        st.sampled_from([*sorted(FLAVORS), *SIZES]),
        st.one_of(st.none(), hosts),
    ),
    st.tuples(st.sampled_from(["die", "back"]), hosts),
    st.tuples(st.just("discover"), st.lists(hosts, min_size=1, max_size=4, unique=True)),
)


class Domain:
    """A domain of a host, as its orders have made it."""

    def __init__(self, name, vcpus, memory_mb, facts, pci=(), mdevs=(), state="running"):
        self.name, self.vcpus, self.memory_mb, self.state = name, vcpus, memory_mb, state
        self.pci, self.mdevs = list(pci), list(mdevs)
        self.xml = with_numa(f"<domain><vcpu>{vcpus}</vcpu></domain>", facts or {})

    def facts(self):
        inner = "".join(ET.tostring(each, encoding="unicode") for each in ET.fromstring(self.xml))
        found = [("pci", each) for each in self.pci] + [("mdev", each) for each in self.mdevs]
        return machines.domain(
            self.name, self.vcpus, self.memory_mb, inner, found, state=self.state
        )

    def there(self, order, size=None):
        """Return the domain as the order of a move leaves it at its destination."""
        fact = order.get("devices") or {"pci": [], "mdevs": []}
        pci = {each["address"]: each["address_there"] for each in fact["pci"]}
        mdevs = {each["uuid"]: each["there"]["uuid"] for each in fact["mdevs"]}
        assert set(pci) == set(self.pci) and set(mdevs) == set(self.mdevs)
        vcpus, memory_mb = (
            (size["vcpus"], size["memory_mb"]) if size else (self.vcpus, self.memory_mb)
        )
        return Domain(
            self.name, vcpus, memory_mb, order.get("numa"), pci.values(), mdevs.values(), self.state
        )

    def sized(self, size):
        facts = size.get("numa", self.facts()["numa"])
        return Domain(
            self.name, size["vcpus"], size["memory_mb"], facts, self.pci, self.mdevs, self.state
        )


class World:
    """Hosts with their domains, and a store that reads them now and then."""

    def __init__(self, url, in_placement):
        self.url, self.in_placement = url, in_placement
        self.domains = {host: {} for host in HOSTS}
        self.dead, self.alternates, self._reading = set(), {}, None
        self.policy = Policy.from_mapping({"pci_alias": ALIASES, "pci_in_placement": in_placement})
        self.discover(HOSTS)
        with Store.open(url).write() as connection:
            for name, (vcpus, memory_mb, specs) in FLAVORS.items():
                flavors.ensure(
                    connection,
                    name,
                    {"vcpus": vcpus, "memory_mb": memory_mb, "extra_specs": specs},
                    NOW,
                )

    # The content of the hosts

    def node(self, host):
        domain_facts = [each.facts() for each in self.domains[host].values()]
        taken = Counter()
        for each in domain_facts:
            facts = each["numa"] or {}
            if facts.get("pages") and each["state"] == "running":
                huge = {
                    cell
                    for page in facts["pages"]
                    if page["size_kb"] == 2048
                    for cell in page["cells"]
                }
                taken.update(
                    {
                        cell["nodes"][0]: cell["memory_mb"] // 2
                        for cell in facts["cells"]
                        if cell["id"] in huge
                    }
                )
        cells = [
            {
                **cell,
                # One host has a core for each CPU.
                "cpus": [
                    {**cpu, "core": cpu["id"], "siblings": [cpu["id"]]} if host == "kvm3" else cpu
                    for cpu in cell["cpus"]
                ],
                "memory_mb": 512,
                "pages": [
                    cell["pages"][0],
                    {"size_kb": 2048, "count": 96, "free": 96 - taken[cell["id"]]},
                ],
            }
            for cell in machines.CELLS
        ]
        more = machines.devices()
        made = {mdev for each in self.domains[host].values() for mdev in each.mdevs}
        there_anyhow = [each for each in more["mdev_devices"] if each["type"] == "nvidia-11"]
        more["mdev_devices"] = there_anyhow + [
            {
                "name": f"mdev_{each}",
                "uuid": each,
                "type": "nvidia-11",
                "parent": PARENT,
                "iommu_group": 200,
                "active": True,
            }
            for each in sorted(made - {each["uuid"] for each in there_anyhow})
        ]
        free = MADE_MDEVS - (len(more["mdev_devices"]) - len(there_anyhow))
        more["mdev_types"] = [
            {**each, "available_instances": free}
            for each in more["mdev_types"]
            if each["type"] == "nvidia-11"
        ]
        # Providers belong to cards or to their functions.
        specs = SPECS[: 2 if self.in_placement else 3]
        options = {
            "pci_device_specs": specs,
            "mdev_types": ["nvidia-11"],
            "cpu_allocation_ratio": 2.0,
            "reserved_host_memory_mb": 0,
        }
        options |= {**HOSTS[host], "pci_report_in_placement": self.in_placement}
        return machines.node(
            *domain_facts,
            host=host,
            options=options,
            **{"memory_mb": 1024, "numa_cells": cells, **more},
        )

    def discover(self, some):
        alive = [host for host in sorted(some) if host not in self.dead]
        if alive:
            fleets.discover(self.url, *(self.node(host) for host in alive))

    # The content of the store

    def read(self, function, *arguments):
        if self._reading is not None:
            return function(self._reading, *arguments)
        with Store.open(self.url).read() as connection:
            return function(connection, *arguments)

    def write(self, function, *arguments):
        with Store.open(self.url).write(together=True) as connection:
            return function(connection, *arguments)

    def _try(self, function, *arguments):
        """Return the result of a function, or None if it refuses with a sentence."""
        try:
            return function(*arguments)
        except DroverError as problem:
            assert "defect of drover" not in str(problem), problem
            return None

    def row(self, name):
        return self.read(
            lambda c: c.execute(
                sa.select(tables.instances).where(tables.instances.c.uuid == uuid_of(name))
            ).one_or_none()
        )

    def host(self, name):
        """Return the host of an instance in the store; None without a host."""
        row, nodes = self.row(name), tables.compute_nodes
        return row and self.read(
            lambda c: c.execute(
                sa.select(nodes.c.host).where(nodes.c.id == row.compute_node_id)
            ).scalar()
        )

    def open(self, name):
        """Return the migration that holds room; an evacuation that waits for its dead host comes
        last."""
        table = tables.migrations
        query = sa.select(table).where(
            table.c.instance_uuid == uuid_of(name), table.c.status.in_(tables.HOLDING_MIGRATION)
        )
        found = self.read(lambda c: c.execute(query).all())
        return min(found, key=lambda row: row.status == "done", default=None)

    def under_way(self, name):
        found = self.open(name)
        return found if found is not None and found.status != "done" else None

    # Steps

    def step(self, verb, which, *arguments):
        """Take a step with one of the possible instances; return True if there is one."""
        if verb in ("die", "back", "discover"):
            getattr(self, verb)(which)
            return True
        with Store.open(self.url).read() as self._reading:
            able = [name for name in NAMES if self._can(verb, name)]
        self._reading = None
        if able:
            getattr(self, verb)(able[which % len(able)], *arguments)
        return bool(able)

    def _can(self, verb, name):
        row = self.row(name)
        if row is None or verb in ("make", "place"):
            return (
                row is None
                and verb in ("make", "place")
                and not any(name in there for there in self.domains.values())
            )
        moving = self.under_way(name)
        if verb in ("build", "fail"):
            return row.state == "building" and self.host(name) not in self.dead
        if verb in ("go_on", "end", "undo", "revert"):
            closed = moving is not None and moving.status == "finished"
            return (
                moving is not None
                and (verb == "end" or closed == (verb == "revert"))
                and not (verb == "undo" and moving.type == "evacuation")
            )
        return row.state == "active" and moving is None and self.host(name) not in self.dead

    def place(self, name, kind):
        wanted = {"name": name, "uuid": uuid_of(name), "flavor": kind}
        found = self._try(self.read, scheduling.decide, [wanted], self.policy, NOW)
        claimed = found and self._try(fleets.claim, self.url, {**found[0], "flavor": kind})
        if claimed:
            self.alternates[name] = claimed[0]

    def make(self, name, kind):
        self.place(name, kind)
        if self._can("build", name):
            self.build(name)

    def build(self, name):
        alternate, row = self.alternates[name], self.row(name)
        pci = [each["address"] for each in alternate.get("pci_devices", ())]
        mdevs = [each["uuid"] for each in alternate.get("mdevs", ())]
        self.domains[alternate["host"]][name] = Domain(
            name, row.vcpus, row.memory_mb, alternate.get("numa"), pci, mdevs
        )
        self.discover([alternate["host"]])

    def fail(self, name):
        """Let its build fail: it takes an alternate, or is released."""
        again = self._try(
            self.write,
            claims.reclaim,
            uuid_of(name),
            self.alternates[name]["alternates"],
            PROOF,
            NOW,
        )
        if again:
            self.alternates[name] = again
        else:
            self.write(claims.release, [uuid_of(name)], PROOF, NOW)

    def move(self, name, host):
        if host not in self.dead and name not in self.domains[host]:
            self._try(
                self.write, migration_claims.begin, uuid_of(name), host, None, "migration", NOW
            )

    def die(self, host):
        """Let a host die. Its instances are claimed on other hosts; moves from or to it stay
        open.
        """
        open_moves = [
            each
            for each in map(self.under_way, NAMES)
            if each and each.status in tables.OPEN_MIGRATION
        ]
        if len(self.dead) == 2 or any(
            host in (each.source, each.destination) for each in open_moves
        ):
            return
        self.dead.add(host)
        self._force_down(host, True)
        for name in NAMES:
            row = self.row(name)
            if (
                row is not None
                and row.state == "active"
                and self.host(name) == host
                and self.open(name) is None
            ):
                others = (each for each in HOSTS if each not in self.dead)
                any(
                    self._try(
                        self.write,
                        migration_claims.begin,
                        uuid_of(name),
                        each,
                        None,
                        "evacuation",
                        NOW,
                    )
                    for each in others
                )

    def _force_down(self, host, down):
        table = tables.services
        self.write(
            lambda connection: connection.execute(
                sa.update(table).where(table.c.host == host).values(forced_down=down)
            )
        )

    def back(self, host):
        """Bring the host back with its domains, shut off. Evacuated ones of some instances are
        removed, as a person would do."""
        found = [each for each in map(self.under_way, NAMES) if each]
        if host in self.dead and not any(host == each.source for each in found):
            self.dead.remove(host)
            for name, domain in list(self.domains[host].items()):
                domain.state = "shutoff"
                if self.host(name) != host and name < "d":
                    del self.domains[host][name]
            if all(self.host(name) == host for name in self.domains[host]):
                self._force_down(host, False)
            self.discover([host])

    def resize(self, name, kind, host):
        def begin(connection):
            (instance,) = instance_lookup.find(connection, [name])
            new = NewSize(None, SIZES[kind]) if kind in SIZES else NewSize(kind, {})
            selection, size = resize_destination.find_destination(
                connection, instance, new, host, self.policy, NOW
            )
            if name in self.domains[selection["host"]] and selection["host"] != self.host(name):
                raise DroverError("Its host from which it was evacuated has it still.")
            target = {
                "flavor": size["flavor"],
                "resources": selection["resources"],
                "running": True,
            }
            target["sizes"] = {
                "old": resize_destination.size_of(instance),
                "new": {key: size[key] for key in ("vcpus", "memory_mb", "disk_gb")},
            }
            if selection.get("host_request"):
                target["host_request"] = selection["host_request"]
            return migration_claims.begin_resize(
                connection, uuid_of(name), selection["host"], None, target, NOW
            )

        self._try(self.write, begin)

    def _carry(self, name, migration):
        """Let the hypervisors carry out the order, once."""
        source_domains, destination_domains = (
            self.domains[migration.source],
            self.domains[migration.destination],
        )
        if migration.type == "resize":
            resize = self.read(resizes.describe, migration.uuid)
            if migration.source == migration.destination:
                source_domains[name] = source_domains[name].sized(resize["new"])
            elif name not in destination_domains:
                destination_domains[name] = source_domains.pop(name).there(
                    resize["order"], resize["new"]
                )
        elif name not in destination_domains:
            destination_domains[name] = source_domains[name].there(
                self.read(orders.order, migration.uuid)
            )
            if migration.type != "evacuation":
                del source_domains[name]

    def go_on(self, name):
        """Kill the run after the hypervisors have done their work."""
        self._carry(name, self.under_way(name))

    def end(self, name):
        migration = self.under_way(name)
        if migration.status in tables.OPEN_MIGRATION:
            self._carry(name, migration)
            self.write(migration_claims.finish, migration.uuid, PROOF, None, NOW)
        else:
            self.write(migration_claims.confirm, migration.uuid, PROOF, NOW)

    def undo(self, name):
        migration = self.under_way(name)
        if migration.source == migration.destination:
            self.domains[migration.source][name] = self.domains[migration.source][name].sized(
                self.read(resizes.describe, migration.uuid)["old"]
            )
        if name in self.domains[migration.source]:
            self.write(migration_claims.undo, migration.uuid, PROOF, "no", NOW)

    def revert(self, name):
        migration = self.under_way(name)
        described = self.read(resizes.describe, migration.uuid)
        now = self.domains[migration.destination].pop(name)
        back = (
            now.sized(described["old"])
            if migration.source == migration.destination
            else now.there(described["back"], described["old"])
        )
        self.domains[migration.source][name] = back
        self.write(migration_claims.revert, migration.uuid, PROOF, None, NOW)

    def delete(self, name):
        if self.open(name) is None:
            del self.domains[self.host(name)][name]
            self.write(claims.forget, [uuid_of(name)], PROOF, NOW)

    def _power(self, name, state):
        self.domains[self.host(name)][name].state = state

    def stop(self, name):
        self._power(name, "shutoff")

    def start(self, name):
        self._power(name, "running")

    def settle(self):
        """End all open operations, and bring dead hosts back without the evacuated domains."""
        for host in HOSTS:
            self._force_down(host, False)
        self.dead = set()
        for name in NAMES:
            for verb in ("build", "end", "end"):
                if self._can(verb, name):
                    getattr(self, verb)(name)
            for host, there in self.domains.items():
                if name in there and self.host(name) != host:
                    del there[name]
        self.discover(HOSTS)

    # Conditions that must be true

    def check(self):
        sums, problems = Counter(), []
        with Store.open(self.url).read() as connection:
            for row in connection.execute(sa.select(tables.allocations)):
                sums[row.provider_id, row.class_id] += row.used
            for row in connection.execute(sa.select(tables.inventories)):
                used = sums.pop((row.provider_id, row.class_id), 0)
                capacity = capacity_rule.capacity(row.total, row.reserved, row.allocation_ratio)
                if row.used != used or used > capacity:
                    problems.append(f"{row} has {used} of {capacity}")
            migrations = connection.execute(sa.select(tables.migrations)).all()
            places = {
                (row.uuid, row.compute_node_id)
                for row in connection.execute(sa.select(tables.instances))
            }
            nodes = {row.id: row for row in connection.execute(sa.select(tables.compute_nodes))}
            numa_by_node, pci, mdevs = (
                numa.read(connection),
                devices.read_pci(connection),
                devices.read_mdevs(connection),
            )
        problems += [f"{key} of no inventory" for key in sums]
        owner = {row.uuid: row.instance_uuid for row in migrations}
        for row in migrations:
            if row.status in tables.HOLDING_MIGRATION:
                places |= {
                    (row.instance_uuid, row.source_node_id),
                    (row.instance_uuid, row.destination_node_id),
                }
        for node, row in nodes.items():
            having = [each["uuid"] for each in numa_by_node.get(node, ())]
            having += [
                each["owner"]
                for each in (*pci.get(node, ()), *mdevs.get(node, ()))
                if each["owner"]
            ]
            problems += [
                f"{each} has something of {row.host}"
                for each in having
                if (owner.get(each, each), node) not in places
            ]
            problems += self._of_node(
                row, numa_by_node.get(node, ()), pci.get(node, ()), mdevs.get(node, ()), owner
            )
        assert not problems, problems

    def _of_node(self, node, held, pci, mdevs, owner):
        problems, taken, pages, cells = (
            [],
            {},
            Counter(),
            {cell["id"]: cell for cell in node.numa_cells},
        )
        pinnable = {cpu for cell in cells.values() for cpu in cell["pcpus"]}
        shared = {cpu for cell in cells.values() for cpu in cell["cpus"]}
        for entry in held:
            uuid = owner.get(entry["uuid"], entry["uuid"])
            for cell in entry["cells"]:
                for cpu in (*cell["pins"].values(), *cell["reserved"]):
                    if cpu in taken or cpu not in pinnable:
                        problems.append(
                            f"CPU {cpu} of {node.host} is of {taken.get(cpu)} and {uuid}"
                        )
                    taken[cpu] = uuid
                if cell["page_kb"]:
                    pages[cell["host"], cell["page_kb"]] += (
                        cell["memory_mb"] * 1024 // cell["page_kb"]
                    )
        for (cell, size), count in pages.items():
            total = sum(page["total"] for page in cells[cell]["pages"] if page["size_kb"] == size)
            if count > total:
                problems.append(f"{count} pages of {size} KiB in cell {cell} of {node.host}")
        owners = {each["address"]: each["owner"] for each in pci} | {
            each["uuid"]: each["owner"] for each in mdevs
        }
        for entry in pci:
            if entry["owner"] and entry["parent_addr"] and owners.get(entry["parent_addr"]):
                problems.append(f"{entry['address']} of {node.host} is given away twice")
        # The resources of a domain belong to its instance in the store.
        for name, domain in self.domains[node.host].items():
            facts = domain.facts()["numa"]
            own = {cpu for cpu in pinned_cpus(facts) if cpu in pinnable - shared or domain.state}
            if any(taken.get(cpu) != uuid_of(name) for cpu in own):
                problems.append(
                    f"{name} has CPUs {sorted(own)} of {node.host}, and the store {taken}"
                )
            if any(
                owner.get(owners.get(each), owners.get(each)) != uuid_of(name)
                for each in (*domain.pci, *domain.mdevs)
            ):
                problems.append(
                    f"{name} has {domain.pci, domain.mdevs} of {node.host}, and the store {owners}"
                )
        return problems

    def all(self):
        """Return the resources of each instance."""
        with Store.open(self.url).read() as connection:
            nodes = {
                row.id: row.host for row in connection.execute(sa.select(tables.compute_nodes))
            }
            cells = {
                (nodes[node], each["uuid"]): [
                    {
                        **{key: cell[key] for key in KEEP},
                        "page_kb": cell["page_kb"] if cell["page_kb"] != 4 else None,
                    }
                    for cell in each["cells"]
                ]
                for node, held in numa.read(connection).items()
                for each in held
            }
            owners = {
                (nodes[node], each.get("address") or each["uuid"]): each["owner"]
                for found in (devices.read_pci(connection), devices.read_mdevs(connection))
                for node, some in found.items()
                for each in some
                if each["owner"]
            }
        return {
            "holdings": fleets.holdings(self.url),
            "cells": cells,
            "owners": owners,
            "where": fleets.where(self.url),
        }


def walk(url, in_placement, sequence):
    fleets.empty(url)
    world = World(url, in_placement)
    for each in sequence:
        if world.step(*each):
            world.check()
    world.settle()
    world.check()
    with Store.open(url).read() as connection:
        found = audit.audit(connection, NOW)["findings"]
    assert not found, found
    recorded = world.all()
    fleets.empty(url)
    world.discover(HOSTS)
    assert world.all() == recorded


@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(in_placement=st.booleans(), sequence=st.lists(steps, min_size=10, max_size=30))
def test_nothing_is_given_twice(prepared_url, in_placement, sequence):
    walk(prepared_url, in_placement, sequence)
