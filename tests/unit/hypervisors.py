# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hypervisors in this process: the shipped modules, on libvirt's test driver.

Each host is a separate connection to the test driver, with a separate folder for its records. The
tests replace only Ansible's transport of a module to a host and of its result. The hosts share the
file system of the machine: every file on it is on shared storage.

libvirt's test driver cannot migrate; functions with libvirt's effect replace migrateToURI3, as in
test_migration.py.
"""

from __future__ import annotations

import contextlib
import contextvars
import errno
import hashlib
import importlib
import json
import os
import re
import socket
import subprocess
import threading
import time
import types
import urllib.parse
import xml.etree.ElementTree as ET

import libvirt
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.module_utils import basic

from ansible_collections.drover.compute.plugins.module_utils._changes import power as power_change
from ansible_collections.drover.compute.plugins.module_utils._disk_move import (
    destination as disk_destination,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.numa_xml import with_numa
from ansible_collections.drover.compute.plugins.module_utils._files import access, child, detach
from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding, calls, machine
from ansible_collections.drover.compute.plugins.module_utils._migration import reach, state
from ansible_collections.drover.compute.plugins.module_utils._migration import (
    worker as migration_worker,
)
from ansible_collections.drover.compute.plugins.module_utils._orders import (
    records as migration_record,
)
from ansible_collections.drover.compute.plugins.module_utils._restart import call as restart_call
from ansible_collections.drover.compute.plugins.modules import hypervisor_info
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import delegation
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.remote_module import (
    Hand,
    plain_result,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.ports import Ports
from ansible_collections.drover.compute.tests.unit import devices, disk_snapshots
from ansible_collections.drover.compute.tests.unit.action import running
from ansible_collections.drover.compute.tests.unit.module_args import patch_module_args

#: Actions of this collection that conductors delegate.
ACTIONS = ("compute_node",)
#: Delegated modules that read the machine itself, and their results on a reached host.
BUILTIN = {
    "raw": lambda host: {},
    "service": lambda host: {},
    "_boot_info": lambda host: {"boot_id": host.boot_id()},
    "stat": lambda host: {"stat": {"exists": False}},
}
LOOKS = ("_domain_sightings", "_file_users")
MODULES = "ansible_collections.drover.compute.plugins.modules"
NODE = """<node>
  <cpu><mhz>2000</mhz><model>x86_64</model><active>{cpus}</active><nodes>1</nodes><sockets>1</sockets><cores>{cpus}</cores><threads>1</threads></cpu>
  <memory>{memory}</memory>
</node>
"""

#: The calls of libvirt that change something.
CHANGING = {
    libvirt.virDomain: (
        *(
            "create",
            "createWithFlags",
            "destroy",
            "shutdown",
            "suspend",
            "resume",
            "undefine",
            "undefineFlags",
        ),
        *(
            "setAutostart",
            "setMetadata",
            "blockResize",
            "migrateToURI3",
            "attachDeviceFlags",
            "detachDeviceFlags",
            "updateDeviceFlags",
        ),
        *("blockCopy", "blockJobAbort"),
        "snapshotCreateXML",
    ),
    libvirt.virDomainSnapshot: ("delete",),
    libvirt.virConnect: ("defineXML", "defineXMLFlags", "createXML"),
}

#: The host of the running module; a thread that the module makes has the same host.
HERE = contextvars.ContextVar("host")
#: The machine that the caller of a module expects, as JSON. Modules of several runs are threads of
#: one process here.
EXPECTED = contextvars.ContextVar("expected machine")
#: The locks that a worker has; they are free after the end of its process.
LOCKS = contextvars.ContextVar("locks")


class Ended(BaseException):
    """The end of a module's process, as when its host loses its power."""


def error(text, code, number=0):
    """Make an error of the connection to libvirt, as libvirt makes it: with its code, and the errno
    of the system."""
    found = libvirt.libvirtError(text)
    found.err = (code, libvirt.VIR_FROM_RPC, text, libvirt.VIR_ERR_ERROR, "", None, None, number, 0)
    return found


class _Exit(BaseException):
    """The exception that exit_json and fail_json raise, with the module's result."""

    def __init__(self, result):
        super().__init__()
        self.result = result


class _SameThread:
    """A thread pool that runs each call at once: the tests do not cover the scheduling of
    threads.
    """

    def __init__(self, dummy):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *dummy):
        return False

    map = staticmethod(map)


class Host:
    """One host. ``on``: it has power; ``reached``: the controller reaches it; ``libvirt``: its
    libvirtd answers.
    """

    def __init__(self, fleet, name, cpus, memory_mb):
        self.fleet, self.name = fleet, name
        self.on = self.reached = self.libvirt = True
        self.boots = 0
        self.folder = os.path.join(fleet.folder, name)
        os.makedirs(self.folder)
        path = os.path.join(self.folder, "node.xml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(NODE.format(cpus=cpus, memory=memory_mb * 1024))
        self.connection = fleet.open(f"test://{path}")
        self.connection.getHostname = lambda: name
        # The module closes its connection at its end, and the host would disappear.
        self.connection.close = lambda: 0
        # All hosts of the test driver have the same uuid.
        capabilities = self.connection.getCapabilities()
        self.connection.getCapabilities = lambda: capabilities.replace(
            "<host>", f"<host><uuid>{fleet.uuid_of(name)}</uuid>", 1
        )

    @property
    def records(self):
        return os.path.join(self.folder, "run")

    def domains(self):
        """Return dict uuid -> virDomain."""
        return {each.UUIDString(): each for each in self.connection.listAllDomains(0)}

    def states(self):
        """Return dict name -> state, of all domains."""
        return {
            each.name(): state.state_word(state.look(self.connection, uuid))
            for uuid, each in self.domains().items()
        }

    def define(self, name, uuid, state="running", disks=(), memory_mb=64):
        """Define a domain that exists before the test begins."""
        domain = self.connection.defineXML(xml(name, uuid, disks, memory_mb))
        if state != "shutoff":
            domain.create()
        if state == "paused":
            domain.suspend()
        return domain

    def show_cells(self, cpus):
        """Report one NUMA cell of 1 GiB with these CPUs, each a core; the test driver itself
        reports a cell without CPUs."""
        cpu_elements = "".join(
            f"<cpu id='{cpu}' socket_id='0' core_id='{cpu}' siblings='{cpu}'/>" for cpu in cpus
        )
        cell = (
            "<cell id='0'><memory unit='MiB'>1024</memory><cpus"
            f" num='{len(cpus)}'>{cpu_elements}</cpus></cell>"
        )
        text = re.sub(
            r"<cells num='0'>\s*</cells>",
            f"<cells num='1'>{cell}</cells>",
            self.connection.getCapabilities(),
        )
        assert cell in text
        self.connection.getCapabilities = lambda: text

    def pin(self, uuid, vcpus, cpu, memory_mb=64):
        """Pin all vCPUs of a running domain to a CPU and its memory to the cell."""
        domain = self.domains()[uuid]
        text = domain.XMLDesc(0)
        domain.destroy()
        cell = {
            "id": 0,
            "cpus": list(range(vcpus)),
            "memory_mb": memory_mb,
            "mode": "strict",
            "nodes": [0],
        }
        pins = {str(vcpu): [cpu] for vcpu in range(vcpus)}
        facts = {
            "vcpu_pins": pins,
            "emulator_pins": [cpu],
            "memory": {"mode": "strict", "nodes": [0]},
            "cells": [cell],
        }
        self.connection.defineXML(with_numa(text, facts)).create()

    def power_off(self):
        """End all domains and remove the records of running operations."""
        self.on = False
        for domain in self.connection.listAllDomains(0):
            if domain.isActive():
                domain.destroy()
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(self.records):
                if os.path.isfile(os.path.join(self.records, name)):
                    os.unlink(os.path.join(self.records, name))

    def power_on(self):
        self.on = True
        self.boots += 1

    def boot_id(self):
        """Return the content of /proc/sys/kernel/random/boot_id."""
        return f"{self.name}, boot {self.boots}"


_FILE = (
    "<disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/><source"
    " file='{}'/>"
)
_RBD = (
    "<disk type='network' device='disk'><driver name='qemu' type='raw' cache='none'/><source"
    " protocol='rbd' name='{}'><host name='192.0.2.9' port='6789'/></source>"
)


def xml(name, uuid, disks=(), memory_mb=64, metadata=""):
    """Return the XML of a domain for the test driver. disks: paths of files, or images of Ceph as
    pool/image."""
    devices = "".join(
        f"{(_FILE if disk.startswith('/') else _RBD).format(disk)}<target"
        f" dev='vd{chr(97 + number)}'/></disk>"
        for number, disk in enumerate(disks)
    )
    return (
        "<domain"
        f" type='test'><name>{name}</name><uuid>{uuid}</uuid><metadata>{metadata}</metadata><memory"
        f" unit='MiB'>{memory_mb}</memory>"
        f"<vcpu>1</vcpu><os><type>hvm</type></os><devices>{devices}</devices></domain>"
    )


class Hosts:
    """A stand-in for conductor.ports.Hosts, with the part that a start needs."""

    def __init__(self, fleet):
        self._fleet = fleet

    def names(self):
        return list(self._fleet.hosts)

    def hand(self, name, limit=None):
        return self._fleet.hand(name)

    def at_once(self, questions, limit):
        return ask_each(
            {
                host: lambda host=host, question=question: question(self.hand(host))
                for host, question in questions.items()
            },
            1,
            limit,
        )


def ask_each(questions, most, limit, show=None):
    """A stand-in for at_once.ask_each() in the process of the hosts; it calls one host after the
    other."""
    answers = {}
    for host, question in questions.items():
        try:
            answers[host] = question()
        except DroverError as problem:
            answers[host] = problem
    return answers


class Fleet:
    """All hosts.

    :param folder: the folder of their files.
    :param patch: pytest's monkeypatch.
    :param names: names of the hosts.
    """

    def __init__(self, folder, patch, names=("kvm1", "kvm2", "kvm3"), cpus=8, memory_mb=8192):
        self.folder, self.open = os.fspath(folder), libvirt.open
        self.hosts = {name: Host(self, name, cpus, memory_mb) for name in names}
        #: Called (host name, module, arguments) before a module begins there, and (host name,
        #: module, result) when its result is on its way.
        self.before, self.after = [], []
        #: The migration: a function (source Host, destination Host, virDomain).
        self.migrate = self.moved
        #: The source host of each domain that moves, by its uuid.
        self.moving = {}
        self.calls = []
        self.unread = set()
        #: {name of a host: the host that its address leads to}, if that is another one.
        self.addresses = {}
        #: Variables that the inventory has for all hosts.
        self.variables = {}
        #: {uuid of a domain that moves: libvirt's parameters with its XML for the destination}.
        self.definitions = {}
        patch.setattr(libvirt, "open", self._open)
        patch.setattr(
            libvirt.virDomain,
            "migrateToURI3",
            lambda domain, uri, parameters, flags: self._migrate(domain, uri, parameters),
        )
        patch.setattr(libvirt.virDomain, "blockResize", _resize)
        self.devices = devices.Devices(patch)
        disk_snapshots.install(patch)
        patch.setattr(libvirt.virDomain, "jobInfo", self._job(libvirt.virDomain.jobInfo))
        #: Called (host name of the caller, host name of the callee, name of the method) before each
        #: call of libvirt that may change something.
        self.libvirt_calls = []
        #: Called (host name of the caller, host name of the callee, name of the method) when such a
        #: call is done and its answer is on its way.
        self.libvirt_answers = []
        for kind, names in CHANGING.items():
            for name in names:
                patch.setattr(kind, name, self._guarded(getattr(kind, name), name))
        own_name = socket.gethostname()
        patch.setattr(
            machine,
            "here",
            lambda: _identity(self.uuid_of(HERE.get().name) if HERE.get(None) else None),
        )
        # The folder of the tests may be in memory; for the hosts it is a disk.
        patch.setattr(disk_destination, "MEMORY", ())
        patch.setattr(machine, "given", lambda: EXPECTED.get(None))
        patch.setattr(
            socket, "gethostname", lambda: HERE.get().name if HERE.get(None) else own_name
        )
        patch.setattr(migration_record, "default_folder", lambda: HERE.get().records)
        patch.setattr(
            migration_record.Records,
            "_lock_name",
            lambda records, uuid: _lock_name(HERE.get().folder, uuid),
        )
        _remember_locks(patch)
        patch.setattr(detach, "spawn", self._spawn)
        patch.setattr(detach, "hear", self._hear)
        patch.setattr(binding, "start_event_loop", lambda: None)
        _inherit_the_host(patch)
        # Threads and processes that wait for others belong to no host.
        for module in (binding, calls, hypervisor_info, reach):
            patch.setattr(module, "within", lambda dummy, call, alive=None: call())
        patch.setattr(access, "call_each", _each_at_once)
        for module in (power_change, restart_call):
            patch.setattr(module, "ThreadPoolExecutor", _SameThread)
        for name, seconds in (
            ("SETTLE", 0.2),
            ("SETTLE_BEFORE", 0.1),
            ("RECONNECT", 0.1),
            ("POLL", 0.01),
            ("POLL_TURN", 0.01),
        ):
            patch.setattr(migration_worker, name, seconds)
        patch.setattr(
            basic.AnsibleModule,
            "exit_json",
            lambda module, **result: _leave({"changed": False, **result}),
        )
        patch.setattr(
            basic.AnsibleModule,
            "fail_json",
            lambda module, msg="", **result: _leave({"failed": True, "msg": msg, **result}),
        )

    @staticmethod
    def uuid_of(name):
        from ansible_collections.drover.compute.tests.unit.store import fleets

        return fleets.uuid_of(name)

    def close(self):
        """Close the connections to the hosts."""
        for host in self.hosts.values():
            libvirt.virConnect.close(host.connection)

    # The state that the tests read

    def where(self):
        """Return dict name -> sorted list of (host, state), with hosts that are off."""
        by_name = {}
        for host in self.hosts.values():
            for name, word in host.states().items():
                by_name.setdefault(name, []).append((host.name, word))
        return {name: sorted(places) for name, places in by_name.items()}

    def running(self, uuid):
        """Return the hosts with a domain that is active now."""
        return [
            name
            for name, host in self.hosts.items()
            for domain in host.connection.listAllDomains(0)
            if host.on and domain.UUIDString() == uuid and domain.isActive()
        ]

    # The transport of a module

    def hand(self, name, check_mode=False, task_vars=None):
        """Return remote_module.Hand for a host."""
        return Hand(_Action(self, name, check_mode), name, task_vars or {}, Unknown())

    def ports(self, store):
        """Return conductor.ports.Ports with these hosts, without leases."""
        return Ports(store, Hosts(self), None, lambda line: None, time)

    def run(self, name, module, arguments, check_mode=False, diff=False, environment=()):
        """Run a module on a host; return its result, as Ansible gives it.

        :raises AnsibleConnectionFailure: the host is not reached, or was lost during the call.
        """
        if name not in self.hosts:
            raise AnsibleConnectionFailure(f"ssh: Could not resolve hostname {name}")
        host = self.hosts[self.addresses.get(name, name)]
        if module.endswith(LOOKS):
            # A look before a start or a removal changes nothing, and is not a step of the test.
            return self._look(host, module, arguments, (check_mode, diff), environment)
        self._reach(host)
        self.calls.append((name, module, arguments, check_mode))
        for hook in self.before:
            hook(name, module, arguments)
        result = self.carry_out(host, module, arguments, check_mode, diff, environment)
        for hook in self.after:
            hook(name, module, result)
        if result is None or not host.on:
            raise AnsibleConnectionFailure(f"Connection to {name} closed by remote host")
        self._reach(host)
        return result

    def _look(self, host, module, arguments, modes, environment):
        """Run a module that changes nothing. Hosts that did not answer about files are in
        ``unread``.
        """
        result = None
        try:
            self._reach(host)
            result = self.carry_out(host, module, arguments, *modes, environment)
            return result
        finally:
            if module.endswith("_file_users") and (result is None or result.get("failed")):
                self.unread.add(host.name)

    def carry_out(self, host, module, arguments, check_mode, diff, environment=()):
        """Run the module itself; return its result, or None if its process was ended."""
        code = importlib.import_module(f"{MODULES}.{module.rpartition('.')[2]}")
        named = urllib.parse.urlsplit(arguments.get("uri") or "").hostname
        if named not in (None, host.name):
            # The libvirt of another machine has another host_uuid than the one of this host.
            said = f"{arguments['uri']}, a libvirt of {host.name}, is on another machine"
            return {"failed": True, "msg": said, "not_this_host": True, "begun": False}
        parameters = json.loads(
            json.dumps({**arguments, "_ansible_check_mode": check_mode, "_ansible_diff": diff})
        )
        token = HERE.set(host)
        expecting = EXPECTED.set(
            next(
                (each[machine.EXPECTED] for each in environment or () if machine.EXPECTED in each),
                None,
            )
        )
        try:
            with patch_module_args(parameters):
                code.main()
        except _Exit as ended:
            return json.loads(json.dumps(ended.result))
        except Ended:
            return None
        finally:
            EXPECTED.reset(expecting)
            HERE.reset(token)
        raise AssertionError(f"{module} ended without a result")

    def _reach(self, host):
        if not (host.on and host.reached):
            raise AnsibleConnectionFailure(
                f"ssh: connect to host {host.name} port 22: Connection timed out"
            )

    # The replaced parts of libvirt and of processes

    def _guarded(self, method, name):
        """Return a method that ends the process of a host without power, and fails if the callee
        cannot be reached."""

        def call(target, *arguments, **keywords):
            caller = HERE.get(None)
            if caller is not None:
                target_host = self._host_of(target)
                for hook in self.libvirt_calls:
                    hook(caller.name, target_host.name, name)
                if not caller.on:
                    raise Ended
                if (
                    not target_host.on
                    or not target_host.libvirt
                    or not self.sees(caller, target_host)
                ):
                    raise error("client socket is closed", libvirt.VIR_ERR_INTERNAL_ERROR)
            answer = method(target, *arguments, **keywords)
            if caller is not None:
                for hook in self.libvirt_answers:
                    hook(caller.name, target_host.name, name)
            return answer

        return call

    def _host_of(self, target):
        if isinstance(target, libvirt.virDomainSnapshot):
            target = target.getDomain()
        connection = target if isinstance(target, libvirt.virConnect) else target.connect()
        return next(host for host in self.hosts.values() if host.connection is connection)

    def _open(self, uri):
        caller, parts = HERE.get(None), urllib.parse.urlsplit(uri)
        if caller is None:
            return self.open(uri)
        host = (
            self.hosts.get(self.addresses.get(parts.hostname, parts.hostname) or "")
            if parts.netloc
            else caller
        )
        if host is None or not (host.on and host.libvirt) or not self.sees(caller, host):
            raise error(
                f"Failed to connect socket to {uri}", libvirt.VIR_ERR_SYSTEM_ERROR, errno.ENOENT
            )
        return host.connection

    def sees(self, one, other):
        """Return True if two hosts reach each other."""
        return one.on and other.on

    def _migrate(self, domain, uri, parameters):
        self.definitions[domain.UUIDString()] = parameters
        source, name = HERE.get(), urllib.parse.urlsplit(uri).hostname
        destination = self.hosts[self.addresses.get(name, name)]
        if not destination.on or not self.sees(source, destination):
            raise error("client socket is closed", libvirt.VIR_ERR_INTERNAL_ERROR)
        self.migrate(source, destination, domain)
        return 0

    def moved(self, source, destination, domain):
        """Act as libvirt does: the domain runs at the destination after its stop at the source, and
        continues at the source if that fails."""
        uuid = domain.UUIDString()
        parameters = self.definitions.get(uuid, {})
        text = parameters.get(libvirt.VIR_MIGRATE_PARAM_DEST_XML) or domain.XMLDesc(0)
        if not domain.isActive():
            destination.connection.defineXML(text)
            domain.undefine()
            return
        # An offline move has one definition for both, also if a person has just started the domain.
        one = parameters.get(libvirt.VIR_MIGRATE_PARAM_DEST_XML) or domain.XMLDesc(
            libvirt.VIR_DOMAIN_XML_INACTIVE
        )
        texts = text, parameters.get(libvirt.VIR_MIGRATE_PARAM_PERSIST_XML) or one
        paused = domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED
        self.moving[uuid] = source
        try:
            self._carried(destination, domain, uuid, texts, paused)
            domain.destroy()
            domain.undefine()
        finally:
            del self.moving[uuid]

    def _carried(self, destination, domain, uuid, texts, paused):
        """The source keeps it until it runs at the destination; after a failure it continues
        here.
        """
        try:
            guest = destination.connection.createXML(texts[0], 0)
            self._unseen(guest.suspend)
            _require_active(domain)
            domain.suspend()
            destination.connection.defineXML(texts[1])
            _require_active(domain)
            if not paused:
                guest.resume()
        except BaseException:
            # The connection between the hosts breaks: nothing has begun to run at the destination.
            self._unseen(lambda: self._given_up(domain, destination.domains().get(uuid), paused))
            raise

    @staticmethod
    def _given_up(domain, there, paused):
        if there is not None:
            if there.isActive():
                there.destroy()
            with contextlib.suppress(libvirt.libvirtError):
                there.undefine()
        if domain.isActive() and domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED and not paused:
            domain.resume()

    @staticmethod
    def _unseen(work):
        """Do libvirt's part without a calling host, so that no host can stop it."""
        token = HERE.set(None)
        try:
            work()
        finally:
            HERE.reset(token)

    def _job(self, info):
        def job_info(domain):
            source = self.moving.get(domain.UUIDString())
            if source is None:
                return info(domain)
            if self._host_of(domain) is source:
                return [libvirt.VIR_DOMAIN_JOB_UNBOUNDED, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
            unsupported = libvirt.libvirtError(
                "migration statistics are available only on the source host"
            )
            unsupported.err = (libvirt.VIR_ERR_OPERATION_UNSUPPORTED,)
            raise unsupported

        return job_info

    @staticmethod
    def _spawn(work):
        """A worker as a thread of the host; the module waits for it before it answers."""
        words = []
        thread = threading.Thread(target=_quietly, args=(work, words.append), daemon=True)
        thread.start()
        return thread, words

    @staticmethod
    def _hear(ears, dummy):
        for thread, _dummy in ears.values():
            thread.join(30)
        return {key: words[0] if words else None for key, (dummy, words) in ears.items()}


def disks_of(domain, flags=0):
    """Return the files or devices of a domain's disks, or the images of Ceph."""
    sources = ET.fromstring(domain.XMLDesc(flags)).iterfind("devices/disk/source")
    return [
        found
        for each in sources
        if (found := each.get("file") or each.get("dev") or each.get("name"))
    ]


def _require_active(domain):
    if not domain.isActive():
        raise libvirt.libvirtError("operation failed: domain is not running")


def _resize(domain, target, size, flags):
    """Resize the image of a running guest as QEMU does; the test driver does not."""
    disk = next(
        each
        for each in ET.fromstring(domain.XMLDesc(0)).iter("disk")
        if each.find("target").get("dev") == target
    )
    subprocess.run(
        ["qemu-img", "resize", "-q", disk.find("source").get("file"), str(size)], check=True
    )
    return 0


def _inherit_the_host(patch):
    """A thread that runs on the host of its creator."""
    make, run = threading.Thread.__init__, threading.Thread.run

    def made(thread, *arguments, **keywords):
        make(thread, *arguments, **keywords)
        thread.made_in = contextvars.copy_context()

    patch.setattr(threading.Thread, "__init__", made)
    patch.setattr(threading.Thread, "run", lambda thread: thread.made_in.run(run, thread))


def _lock_name(folder, uuid):
    """A lock of one host: all hosts of this process's machine share one namespace of locks."""
    return f"\0drover.tests/{hashlib.sha256(folder.encode()).hexdigest()[:16]}/{uuid}"


def _each_at_once(function, many, limit=None):
    """Read files in the thread of a host itself."""
    return [child.outcome(function, args) for args in many]


def _remember_locks(patch):
    """Record the locks of a worker: its thread does not free them, as its process would."""
    lock = migration_record.Records.lock

    def noted(records, uuid, patience=0.0):
        descriptor = lock(records, uuid, patience)
        if descriptor is not None and LOCKS.get(None) is not None:
            LOCKS.get().append(descriptor)
        return descriptor

    patch.setattr(migration_record.Records, "lock", noted)


def _quietly(work, say):
    LOCKS.set([])
    try:
        with contextlib.suppress(Ended):
            work(say)
    finally:
        for descriptor in LOCKS.get():
            os.close(descriptor)


def _leave(result):
    raise _Exit(result)


def _identity(uuid):
    """Return the machine of a host, as _machine.here() reads it."""
    machine_id = uuid and uuid.replace("-", "")
    return {
        "uuids": [uuid] if uuid else [],
        "firmware": uuid,
        "machine_id": machine_id,
        "read": True,
        "verdict": None,
    }


class Unknown:
    """Return machines.Machines of a store that knows none: all hosts here are one machine."""

    def environment(self, host):
        return {}

    def refusal(self, host, result):
        return None


class _Action:
    """The part of an action plugin that remote_module needs."""

    def __init__(self, fleet, name, check_mode):
        self._fleet, self._name = fleet, name
        self._task = types.SimpleNamespace(
            check_mode=check_mode, diff=False, environment=None, timeout=0
        )
        self._connection = types.SimpleNamespace(transport="local")

    def _execute_module(self, module_name, module_args, task_vars):
        return self._fleet.run(
            self._name,
            module_name,
            module_args,
            self._task.check_mode,
            self._task.diff,
            self._task.environment,
        )

    def _low_level_execute_command(self, command):
        host = self._fleet.hosts[self._name]
        if not (host.on and host.reached):
            raise AnsibleConnectionFailure(
                f"ssh: connect to host {self._name} port 22: Connection timed out"
            )


def connect_actions(fleet, patch):
    """Let action plugins that run in this process reach the hosts of a fleet, by the name of their
    target.
    """
    from ansible.plugins.action import ActionBase

    def execute(action, module_name, module_args, task_vars):
        name = action.target(task_vars)
        return fleet.run(
            name,
            module_name,
            module_args,
            action._task.check_mode,
            action._task.diff,
            action._task.environment,
        )

    def command(action, dummy):
        fleet._reach(fleet.hosts[action._connection.host])

    patch.setattr(ActionBase, "_execute_module", execute)
    patch.setattr(ActionBase, "_low_level_execute_command", command)
    patch.setattr(delegation.at_once, "ask_each", ask_each)
    patch.setattr(
        delegation.Delegation,
        "run",
        lambda self, *args, **options: _delegated(self, fleet, *args, **options),
    )


def _delegated(
    delegation_,
    fleet,
    host,
    name,
    args,
    check_mode=None,
    limit=None,
    environment=None,
    _probe=False,
):
    """Run a task of an action plugin on another host, in the action's check mode unless another is
    given."""
    module = name.rpartition(".")[2]
    if check_mode is None:
        check_mode = delegation_._action._task.check_mode
    try:
        if module in BUILTIN:
            fleet._reach(fleet.hosts[host])
            return {"changed": False, **BUILTIN[module](fleet.hosts[host])}
        if module in ACTIONS:
            answer = running.run(
                module,
                {"inventory_hostname": host, **fleet.variables},
                check=bool(check_mode),
                **args,
            )
        else:
            answer = fleet.run(
                host,
                name,
                args,
                bool(check_mode),
                bool(delegation_._action._task.diff),
                [environment or {}],
            )
    except AnsibleConnectionFailure as problem:
        return {"unreachable": True, "changed": False, "msg": str(problem)}
    except AnsibleActionFail as problem:
        return {**problem.result, "failed": True, "msg": str(problem)}
    return plain_result(answer)
