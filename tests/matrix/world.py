# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A small fleet, its store and the runs of commands on it, for the cells of the fault matrix.

The runs use the shipped code: the action plugins on the controller and the modules on the
hypervisors, which are libvirt's test driver (tests/unit/hypervisors.py). A run passes moments:
before, in and after each write of the store, and before, in and after each call of a module. A
fault may happen at one of them.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import threading
import time

import libvirt
import pytest
import sqlalchemy as sa
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.module_utils._domain import hotplug, power
from ansible_collections.drover.compute.plugins.module_utils._domain.numa import (
    parse_numa,
    pinned_cpus,
)
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._orders import (
    records as migration_record,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (
    lease_holder as actor_module,
)
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.action import (
    DroverAction,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    building,
    instance_devices,
    instance_snapshots,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store, engine
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action import running
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

#: The run of a thread of the controller.
RUN = contextvars.ContextVar("run")
#: The call of a module of a thread.
MODULE = contextvars.ContextVar("module")
#: Seconds that a thread waits for another one before the test fails.
PATIENCE = 20
#: A folder in memory, because the store's file is synced at every step.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Killed(BaseException):
    """The end of the run, as by kill -9: it catches nothing and cleans nothing up."""


class TimedOut(BaseException):
    """Ansible's time limit for a task: the task ends at once, and the play continues with its
    rescue."""


class Violation(BaseException):
    """A state that must never happen."""


class Moments:
    """A counter of the moments of a run; it lets a fault happen at one of them.

    :param fault: a function (name of a moment) for each moment; it may raise.
    """

    def __init__(self, fault=None):
        self.passed, self.fault = [], fault or (lambda name: None)

    def __call__(self, name):
        self.passed.append(name)
        self.fault(name)


class WatchedStore:
    """A store in a file; its writes are moments."""

    server = None

    def __init__(self, store, moments):
        self._store, self._moments, self._writes = store, moments, 0
        self.check_mode = store.check_mode

    def read(self):
        return self._store.read()

    def rehearsal(self):
        return self._store.rehearsal()

    @contextlib.contextmanager
    def write(self, **options):
        self._writes += 1
        name = f"write {self._writes}"
        self._moments(f"before {name}")
        with self._store.write(**options) as connection:
            yield connection
            self._moments(f"in {name}")
        self._moments(f"after {name}")


class Run:
    """One run of a command by a controller.

    :param fault: function for its moments, see Moments.
    :param name: name of the process in leases.
    :param late: True if an abandoned module continues when another thread waits for it, False if it
        continues at once.
    """

    def __init__(self, world, fault=None, name="run", url=None, late=False):
        self.world, self.name, self.moments, self.late = world, name, Moments(fault), late
        self.store = WatchedStore(Store.open(url or world.url), self.moments)
        self.url, self.calls, self.said = url or world.url, 0, []

    def task(self, where, what, /, **args):
        """Run a module or an action at a host; return its result.

        :raises AnsibleActionFail: as the plugin does.
        """
        token = RUN.set(self)
        try:
            return running.run(
                what,
                {"inventory_hostname": where, **self.world.fleet.variables},
                store_url=self.url,
                **args,
            )
        finally:
            RUN.reset(token)


class Behind:
    """A module that continues after its controller has abandoned it: at once, or when a thread
    waits for it."""

    def __init__(self, late):
        self.late, self.go, self.ended = late, threading.Event(), threading.Event()
        if not late:
            self.go.set()

    def wait(self):
        """Let it continue, and wait for its end."""
        self.go.set()
        if not self.ended.wait(PATIENCE):
            raise Violation("a module that was left behind does not end")


class World:
    """Hosts kvm1 to kvm3, a store that has read them, and instances on shared storage.

    :param folder: folder for the files of this world alone.
    :param patch: pytest's monkeypatch.
    :param prepared: the file of an empty store.
    :param url: the URL of an empty store on PostgreSQL, in place of the file.
    """

    HOSTS = ("kvm1", "kvm2", "kvm3")

    def __init__(self, folder, patch, prepared, url=None):
        self.folder, self._patch = str(folder), patch
        self.disks = os.path.join(self.folder, "disks")
        os.makedirs(self.disks)
        self.fleet = hypervisors.Fleet(os.path.join(self.folder, "hosts"), patch, self.HOSTS)
        self.path = os.path.join(self.folder, "store.db")
        shutil.copyfile(prepared, self.path)
        self.url = url or f"sqlite:///{self.path}"
        self.names, self.contents, self.behind, self.dead = {}, {}, [], set()
        #: Images of Ceph instead of files: dict uuid of an instance -> images. None: the disks are
        #: files.
        self.images = None
        #: Names that may run twice, because a store without the first made the second.
        self.by_hand = set()
        #: Uuids of instances that a person removed: their room is held until a person decides.
        self.removed = set()
        #: Other names in the inventory: dict name -> host.
        self.aliases = {}
        #: Seconds that the clocks of the controllers' machine, and of the store, are ahead.
        self.ahead = 0
        self.fleet.variables.update(
            drover_instances_path=self.disks, drover_cpu_allocation_ratio=4.0
        )
        hypervisors.connect_actions(self.fleet, patch)
        self._run_by_itself = self.fleet.run
        patch.setattr(self.fleet, "run", self._run)
        clock = time.time
        patch.setattr(time, "time", lambda: clock() + self.ahead)
        # The engine of each store, by the URL.
        self._engines = {}
        patch.setattr(engine, "_engine", self._engine)
        patch.setattr(engine, "_dispose", lambda made, process: None)
        patch.setattr(DroverAction, "store", lambda action, args, variables: RUN.get().store)
        patch.setattr(DroverAction, "show", lambda action, line: RUN.get().said.append(line))
        patch.setattr(
            actor_module.LeaseHolder,
            "of_this_task",
            classmethod(lambda kind: _Actor(RUN.get().name, self.dead)),
        )
        patch.setattr(building, "GRACE", 5)
        patch.setattr(instance_devices, "GRACE", 5)
        patch.setattr(instance_snapshots, "GRACE", 5)
        patch.setattr(hotplug, "POLL", 0.002)
        patch.setattr(power, "POLL", 0.002)
        lock = migration_record.Records.lock

        def locked(records, uuid, patience=0.0):
            # A thread that waits for a domain lets the module with this domain continue.
            for each in self.behind:
                each.go.set()
            return lock(records, uuid, patience)

        patch.setattr(migration_record.Records, "lock", locked)

    def close(self):
        for each in self.behind:
            each.wait()
        self.close_stores()
        self.fleet.close()

    def _engine(self, url, in_memory):
        if (url, in_memory) not in self._engines:
            self._engines[url, in_memory] = _engine_with_one_connection(url, in_memory)
        return self._engines[url, in_memory]

    def at_commit(self, function):
        """Call function(connection of the driver) right after the next commit, before anybody knows
        of it."""
        for made in self._engines.values():
            made.dialect.do_commit = functools.partial(self._commit, made.dialect, function)

    @staticmethod
    def _commit(dialect, function, connection):
        del dialect.do_commit
        dialect.do_commit(connection)
        function(connection)

    def close_stores(self):
        """Close the idle connections: the file of a store is complete then, and may be replaced."""
        for made in self._engines.values():
            made.dispose()

    # The fleet before an operation

    def instance(self, name, host, state="running"):
        """Make an instance with a disk on the storage that all hosts see."""
        disk = self.disk(name) if self.images is None else f"vms/{name}"
        if self.images is not None:
            self.images[uuid_of(name)] = [disk]
        self.fleet.hosts[host].define(name, uuid_of(name), state, [disk])
        self.names[uuid_of(name)] = name

    def use_ceph(self):
        """Make the disks images of Ceph from here on: no operation copies, makes or removes one."""
        self.images = {}

        def never(*dummy):
            raise Violation("a volume is made or removed")

        for kind, names in {
            libvirt.virStorageVol: ("delete", "wipe"),
            libvirt.virStoragePool: ("createXML", "createXMLFrom"),
        }.items():
            for name in names:
                self._patch.setattr(kind, name, never)

    def foreign_language(self):
        """Let libvirt's messages be in a language that our code does not know."""
        self._patch.setattr(libvirt.libvirtError, "__str__", lambda error: "Vorgang fehlgeschlagen")
        self._patch.setattr(
            libvirt.libvirtError, "get_error_message", lambda error: "Vorgang fehlgeschlagen"
        )

    def share(self):
        """Declare that the disks are on storage that all hosts see."""
        pool = (
            f"<pool type='dir'><name>shared</name><target><path>{self.disks}</path></target></pool>"
        )
        for host in self.fleet.hosts.values():
            host.connection.storagePoolDefineXML(pool).create()
        self.fleet.variables["drover_shared_pools"] = ["shared"]

    def disk(self, name):
        """Make a disk that an instance needs."""
        path = os.path.join(self.disks, f"{name}.qcow2")
        shutil.copyfile(_empty_disk(), path)
        self.keep(path)
        return path

    def keep(self, path):
        """Record the content of a file."""
        self.contents[path] = _digest(path)

    def discover(self, url=None):
        """Read the hosts, each as a discovery does."""
        run = Run(self, name="discovery", url=url)
        for name in (*self.HOSTS, *self.aliases):
            with contextlib.suppress(AnsibleActionFail, AnsibleConnectionFailure):
                run.task(name, "compute_node")

    # The run of a module

    def _run(self, name, module, arguments, check_mode=False, diff=False, environment=()):
        run = RUN.get(None)
        if run is None:
            return self._run_by_itself(name, module, arguments, check_mode, diff, environment)
        run.calls += 1
        named = self.aliases.get(name, name)
        host, call = (
            self.fleet.hosts[self.fleet.addresses.get(named, named)],
            f"call {run.calls} ({module.rpartition('.')[2]})",
        )
        run.moments(f"before {call}")
        self._reach(host)
        answer = self._carry_out(
            run, host, (module, arguments, check_mode, diff, environment), call
        )
        run.moments(f"after {call}")
        if answer is None or not host.on:
            raise AnsibleConnectionFailure(f"Connection to {name} closed by remote host")
        self._reach(host)
        return answer

    def are_cut(self):
        """Return True if the network between the hypervisors is cut."""
        return "sees" in vars(self.fleet)

    def _reach(self, host):
        if not (host.on and host.reached):
            raise AnsibleConnectionFailure(
                f"ssh: connect to host {host.name} port 22: Connection timed out"
            )

    def _carry_out(self, run, host, given, call):
        """Run a module in a separate thread, so that the controller can abandon it."""
        results, problem, changes = [], [], [0]
        news, me = threading.Event(), object()

        def hook(here, there, method):
            if MODULE.get(None) is me:
                changes[0] += 1
                try:
                    run.moments(f"in {call}, change {changes[0]} ({method} on {there})")
                except (Killed, TimedOut, AnsibleConnectionFailure) as given_up:
                    # The controller is killed; the module continues.
                    behind = Behind(run.late)
                    self.behind.append(behind)
                    problem.append((given_up, behind))
                    news.set()
                    if not behind.go.wait(PATIENCE):
                        raise Violation("nobody lets the module go on") from None

        def work():
            MODULE.set(me)
            try:
                results.append(self.fleet.carry_out(host, *given))
            except BaseException as error:  # pylint: disable=broad-exception-caught
                problem.append((error, None))
            finally:
                self.fleet.libvirt_calls.remove(hook)
                for _dummy, behind in problem:
                    if behind is not None:
                        behind.ended.set()
                news.set()

        self.fleet.libvirt_calls.append(hook)
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        if not news.wait(60):
            raise Violation(f"{given[0]} does not end")
        if problem:
            error, behind = problem[0]
            if behind is not None and not behind.late:
                behind.wait()
            raise error
        thread.join()
        return results[0]

    # Conditions that must be true

    def _check_images(self, domain):
        """Check that a domain has the images of its instance, running and at its next start, and no
        file."""
        for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
            found, known = hypervisors.disks_of(domain, flags), self.images.get(domain.UUIDString())
            if known is not None and found != known:
                raise Violation(f"{domain.name()} has the disks {found}, not {known}")
        if files := os.listdir(self.disks):
            raise Violation(f"{files} were made")

    def check_running(self):
        """Check that no instance and no definition runs twice, that no two definitions of a host
        have one CPU, and that every file of a domain is unchanged."""
        names = {}
        for host in self.fleet.hosts.values():
            users = {}
            for uuid, domain in host.domains().items():
                for cpu in pinned_cpus(
                    parse_numa(parse(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))
                ):
                    users.setdefault(cpu, []).append(domain.name())
                if host.on and domain.state()[0] == libvirt.VIR_DOMAIN_RUNNING:
                    names.setdefault(domain.name(), []).append((host.name, uuid))
                if self.images is not None:
                    self._check_images(domain)
                for path in hypervisors.disks_of(domain):
                    if path in self.contents and not os.path.exists(path):
                        raise Violation(
                            f"{path}, which {domain.name()} on {host.name} needs, is gone"
                        )
            for cpu, pinned in users.items():
                if len(pinned) > 1:
                    raise Violation(f"CPU {cpu} of {host.name} is in the definitions of {pinned}")
        for name, places in names.items():
            if len(places) > 1 and name not in self.by_hand:
                raise Violation(f"{name} runs on {places}")
        for path, digest in self.contents.items():
            if os.path.exists(path) and _digest(path) != digest:
                raise Violation(f"the content of {path} is another one")

    def check_end(self):
        """Check the end: room is held on the hosts of the instances, and nothing else is left."""
        self.check_running()
        places = {}
        for name, host in self.fleet.hosts.items():
            for uuid in host.domains():
                places.setdefault(uuid, []).append(name)
        # An allocation of a pool belongs to no host.
        hosts_by_uuid = {
            uuid: sorted(host for host in hosts if host is not None)
            for uuid, hosts in fleets.holdings(self.url).items()
            if uuid in places or uuid not in self.removed
        }
        # A domain that is off may be defined twice, by a person who moved it at the same time.
        if set(hosts_by_uuid) != set(places) or any(
            len(hosts) != 1 or hosts[0] not in places[uuid] for uuid, hosts in hosts_by_uuid.items()
        ):
            raise Violation(f"room is held {hosts_by_uuid}, and instances are {places}")
        with Store.open(self.url).read() as connection:
            instances = connection.execute(sa.select(tables.instances)).all()
            open_moves = connection.execute(
                sa.select(tables.migrations.c.uuid).where(
                    tables.migrations.c.status.in_(tables.HOLDING_MIGRATION)
                )
            ).all()
            leases = connection.execute(sa.select(tables.leases.c.name)).all()
        for row in instances:
            if row.uuid in self.removed and row.state == "missing":
                continue
            if row.state != "active" or row.order_uuid is not None:
                raise Violation(f"{row.name} is {row.state} with an order to be {row.task_state}")
        if open_moves or leases:
            raise Violation(f"open migrations {open_moves}, leases {leases}")
        odd = [name for name in os.listdir(self.disks) if name.startswith(".")]
        if odd:
            raise Violation(f"part files are left: {odd}")


#: All engines share these: statements are compiled once for all worlds.
_COMPILED = {}
_make_engine = engine._engine


class _OneConnection(sa.pool.QueuePool):
    """A pool that keeps one connection: to open one takes longer than most transactions."""

    def __init__(self, creator, **options):
        super().__init__(creator, **{"pool_size": 1, "max_overflow": -1, **options})


def _engine_with_one_connection(url, in_memory):
    if url.get_backend_name() == "postgresql":
        return _make_engine(url, in_memory)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sa.pool, "NullPool", _OneConnection)
        made = _make_engine(url, in_memory)
    if not _COMPILED:
        # At its first connection the dialect reads the facts of the database.
        made.connect().close()
        _COMPILED.update(dialect=made.dialect, _compiled_cache=made._compiled_cache)
    made.dialect, made._compiled_cache = _COMPILED["dialect"], _COMPILED["_compiled_cache"]
    return made


class _Actor:
    """Return the actor of a run in leases."""

    def __init__(self, name, dead):
        self.holder = self.process = name
        self._dead = dead

    def lives(self, process):
        return False if process in self._dead else None


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


FAILURES = (AnsibleActionFail, DroverError, AnsibleConnectionFailure)


@contextlib.contextmanager
def world_of(operation, url=None):
    """Yield a world for the begin of an operation; its store is a file, or at the URL."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, pytest.MonkeyPatch.context() as patch:
        world = World(folder, patch, prepared(), url)
        try:
            operation.prepare(world)
            yield world
        finally:
            world.close()


@functools.cache
def _empty_disk():
    """Return the file of an empty disk."""
    path = os.path.join(tempfile.mkdtemp(dir=MEMORY), "empty.qcow2")
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1M"], check=True)
    return path


@functools.cache
def prepared():
    """Return the file of an empty store."""
    path = os.path.join(tempfile.mkdtemp(dir=MEMORY), "empty.db")
    Store.open(f"sqlite:///{path}").upgrade()
    return path
