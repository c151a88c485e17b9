# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The allocations of instances on each pool are equal to the list of the storage itself, for all
operations in any order.

Each host has one local pool, and all share two. Random operations of the product make, attach,
grow, move, detach and delete; some are refused. After each one the store is compared with the image
files in the folders of the pools, without a discovery between.
"""

from __future__ import annotations

import json
import os
import random
import subprocess

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.matrix.operations import Operation
from ansible_collections.drover.compute.tests.matrix.world import Run, world_of
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

GIB = 2**30
NAMES = ("app", "db", "web")
STEPS, SEEDS = 12, 24


class Pools(Operation):
    """Three hosts: the folder ``local`` of each is a local pool; all have the folders ``disks``,
    the default for instances, and ``fast``."""

    def prepare(self, world):
        self.folders = {"disks": world.disks, "fast": os.path.join(world.disks, "fast")}
        self.folders.update(
            {name: os.path.join(world.folder, "hosts", name, "local") for name in world.HOSTS}
        )
        for folder in self.folders.values():
            os.makedirs(folder, exist_ok=True)
        for name, host in world.fleet.hosts.items():
            for pool, folder in (("shared", "disks"), ("fast", "fast"), ("local", name)):
                text = (
                    "<pool"
                    f" type='dir'><name>{pool}</name><target><path>{self.folders[folder]}</path></target></pool>"
                )
                host.connection.storagePoolDefineXML(text).create()
        world.fleet.variables.update(
            drover_shared_pools=["shared", "fast"], drover_storage_pools=["fast", "local"]
        )
        for name, host in zip(NAMES, world.HOSTS, strict=True):
            self.define(world, name, host)
        world.discover()

    def define(self, world, name, host):
        """Make an instance with a disk of 1 GiB."""
        path = os.path.join(self.folders["disks"], f"{name}.qcow2")
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1G"], check=True)
        world.fleet.hosts[host].define(name, uuid_of(name), "running", [path])


class Person:
    """A source of random commands."""

    def __init__(self, world, operation, seed):
        self.world, self.operation, self.random = world, operation, random.Random(seed)
        self.made = 0
        self.done = set()

    def step(self):
        """Run one operation; return (its name, the reason of a refusal or None)."""
        kind = self.random.choice(
            (
                "attach",
                "attach",
                "grow",
                "move the disk",
                "move the disk",
                "move",
                "detach",
                "delete",
                "again",
            )
        )
        places = self.world.fleet.where()
        name = self.random.choice(NAMES)
        if (name in places) == (kind == "again"):
            return f"no {kind} of {name}", None
        host = places[name][0][0] if name in places else self.random.choice(self.world.HOSTS)
        try:
            getattr(self, "_" + kind.replace(" ", "_"))(name, host)
        except AnsibleActionFail as problem:
            return f"{kind} of {name} at {host}", str(problem)
        self.done.add(kind)
        return f"{kind} of {name} at {host}", None

    def _task(self, what, **given):
        Run(self.world).task("localhost", what, **given)

    def _domain(self, name, host):
        return self.world.fleet.hosts[host].domains()[uuid_of(name)]

    def _disk(self, name, host):
        """Return one of its disks: (target, path)."""
        paths = hypervisors.disks_of(self._domain(name, host))
        at = self.random.randrange(len(paths))
        return f"vd{chr(97 + at)}", paths[at]

    def _folder(self, host):
        return self.operation.folders[self.random.choice(("disks", "fast", host))]

    def _attach(self, name, host):
        self.made += 1
        path = os.path.join(self._folder(host), f"{name}-{self.made}.qcow2")
        self._task(
            "instance_disk", name=name, path=path, size=f"{self.random.randint(1, 4)}GiB", timeout=1
        )

    def _detach(self, name, host):
        target, path = self._disk(name, host)
        if target != "vda":
            self._task("instance_disk", name=name, path=path, state="absent", timeout=1)
            # The file of the disk stays, and belongs to a person.
            os.unlink(path)

    def _grow(self, name, host):
        target, path = self._disk(name, host)
        self._task(
            "instance_disk",
            name=name,
            target=target,
            size=f"{size_of(path) // GIB + 1}GiB",
            state="resized",
            timeout=1,
        )

    def _move_the_disk(self, name, host):
        target, dummy = self._disk(name, host)
        self._task("_disk_move", instance=name, disk=target, pool=self._folder(host))

    def _move(self, name, host):
        if any(
            path.startswith(self.operation.folders[host])
            for path in hypervisors.disks_of(self._domain(name, host))
        ):
            # All files are on one machine here; a copy to another host would have a path of the
            # first one.
            return
        to = self.random.choice([each for each in self.world.HOSTS if each != host])
        self._task(
            "instance_migrate", instances=[name], host=to, timeout=1, force=True, shutdown_timeout=1
        )

    def _delete(self, name, host):
        self._task("instance", state="absent", instances=[name], timeout=1, force=True)
        self._task("instance", state="absent", instances=[name], timeout=1, force=True)

    def _again(self, name, host):
        self.operation.define(self.world, name, host)
        self.world.discover()


def size_of(path):
    """Return the virtual size in bytes."""
    return json.loads(
        subprocess.run(
            ["qemu-img", "info", "--output=json", path], check=True, capture_output=True
        ).stdout
    )["virtual-size"]


def listed(operation):
    """Return dict pool -> dict instance -> GiB, from the image files in the folders."""
    by_pool = {}
    for pool, folder in operation.folders.items():
        for entry in os.scandir(folder):
            if entry.is_file():
                amounts = by_pool.setdefault(pool, {})
                name = entry.name.removesuffix(".qcow2").partition("-")[0]
                amounts[name] = amounts.get(name, 0) + size_of(entry.path) // GIB
    return by_pool


def held(world):
    """Return the same from the store."""
    allocations, providers, classes, consumers = (
        tables.allocations,
        tables.resource_providers,
        tables.resource_classes,
        tables.consumers,
    )
    query = (
        sa.select(providers.c.name, classes.c.name, consumers.c.uuid, allocations.c.used)
        .join(providers, providers.c.id == allocations.c.provider_id)
        .join(classes, classes.c.id == allocations.c.class_id)
        .join(consumers, consumers.c.id == allocations.c.consumer_id)
        .where(classes.c.name.contains("DISK_GB"), allocations.c.used > 0)
    )
    names = {uuid_of(name): name for name in NAMES}
    by_pool = {}
    with Store.open(world.url).read() as connection:
        for provider, _dummy, uuid, used in connection.execute(query):
            # The class DISK_GB counts the storage of instances_path; each pool has another class.
            pool = next(
                (
                    each
                    for each in (*world.HOSTS, "fast")
                    if provider in (f"pool/{each}", f"{each}_pool_local")
                ),
                "disks",
            )
            by_pool.setdefault(pool, {})[names[uuid]] = used
    return by_pool


def pytest_generate_tests(metafunc):
    metafunc.parametrize("seed", range(max(2, SEEDS // metafunc.config.getoption("one_in"))))


def test_what_is_held_is_what_the_storage_lists(seed):
    operation = Pools()
    with world_of(operation) as world:
        person, history = Person(world, operation, seed), []
        assert held(world) == listed(operation)
        for _dummy in range(STEPS):
            history.append(person.step())
            assert held(world) == listed(operation), history
        world.discover()
        assert held(world) == listed(operation), history
        assert len(person.done) >= 3, history
