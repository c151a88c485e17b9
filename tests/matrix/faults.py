# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of the matrix: the event at a moment of a run, the repair of the world, and the next
run.

A fault names the moments when it can happen, and makes a function that is called at each moment of
the run.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import sqlite3
import threading

import libvirt
from ansible.errors import AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.module_utils._images import images
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import LibvirtProblem
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.tests.matrix.world import FAILURES, Killed, Run, TimedOut
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

SECONDS = 0.3


class Fault:
    """One fault, at one moment of one run."""

    #: When an abandoned module continues: False for at once, True for late.
    late = False
    #: True if the repeated command must end well; otherwise it may refuse, with a sentence.
    ends_well = True
    #: The number of discoveries that bring the store up to date.
    discoveries = 1

    def __init__(self, world, operation, moment):
        self.world, self.operation, self.moment, self.happened = world, operation, moment, False

    @staticmethod
    def can_happen(moment):
        """Return True if the fault makes a difference at a moment."""
        return True

    def __call__(self, name):
        if name == self.moment and not self.happened:
            self.happened = True
            self.happen()

    def happen(self):
        """Let the fault happen. An exception ends the run, or its module."""
        raise NotImplementedError

    def mend(self):
        """Repair the world, as it is when the command is repeated."""

    def again(self):
        """Repeat the command; nothing else fails."""
        run = Run(self.world, name="next")
        try:
            self.operation.run(run)
        except FAILURES as problem:
            if self.ends_well:
                raise AssertionError(f"given again it fails: {problem}") from problem
            return str(problem)
        return None


class ControllerKilled(Fault):
    """kill -9 of the playbook; a running module ends first."""

    gone = False

    def __call__(self, name):
        # A killed process cleans nothing up, and releases no lease. A module continues.
        if self.gone and not name.startswith("in call"):
            raise Killed
        super().__call__(name)

    def happen(self):
        self.gone = True
        self.world.dead.add("run")
        raise Killed


class ControllerKilledLate(ControllerKilled):
    """The same kill; the module is still running when the command is repeated."""

    late = True

    @staticmethod
    def can_happen(moment):
        return moment.startswith("in call")


class TaskTimeout(Fault):
    """Ansible's time limit for a task; the play continues with its rescue."""

    def happen(self):
        raise TimedOut


class TaskTimeoutLate(TaskTimeout):
    late = True
    can_happen = ControllerKilledLate.can_happen


def _at_writes(moment):
    return " write " in moment


class StoreLocked(Fault):
    """One write cannot begin, fails before its commit, or is committed and the answer is lost."""

    can_happen = staticmethod(_at_writes)

    def happen(self):
        raise DroverError("The store cannot be used: database is locked.")


class StoreLost(StoreLocked):
    """From this write on the store does not answer in this run."""

    def __call__(self, name):
        self.happened = self.happened or name == self.moment
        if self.happened and _at_writes(name):
            self.happen()


class HostLost(Fault):
    """The network between the controller and the host is cut; a running module continues."""

    def happen(self):
        for host in self.world.fleet.hosts.values():
            host.reached = False
        if self.moment.startswith("in call"):
            raise AnsibleConnectionFailure("Timeout, server kvm1 not responding.")

    def mend(self):
        for host in self.world.fleet.hosts.values():
            host.reached = True


class HostLostLate(HostLost):
    late = True
    can_happen = ControllerKilledLate.can_happen


class HostsCut(Fault):
    """The network between the hypervisors is cut."""

    def happen(self):
        self.world.fleet.sees = lambda one, other: one is other

    def mend(self):
        del self.world.fleet.sees


class _HostDies(Fault):
    host = None

    def happen(self):
        host = self.world.fleet.hosts[self.host]
        host.power_off()
        here = hypervisors.HERE.get(None)
        if here is not None and not here.on:
            raise hypervisors.Ended

    def mend(self):
        """Start the host, with its guests off; start each guest of it that runs on no other host,
        as its owner would."""
        host = self.world.fleet.hosts[self.host]
        host.power_on()
        for domain in host.connection.listAllDomains(0):
            if domain.name() in ("beside", "db") and not self.world.fleet.running(
                domain.UUIDString()
            ):
                domain.create()


class SourceDies(_HostDies):
    """kvm1 loses its power, and is back when the command is repeated."""

    host = "kvm1"
    ends_well = False


class DestinationDies(_HostDies):
    """kvm2 loses its power."""

    host = "kvm2"
    ends_well = False


class _LibvirtFails(Fault):
    """A call of libvirt fails, and libvirt does not answer for the rest of the module."""

    done = False

    def __init__(self, world, operation, moment):
        super().__init__(world, operation, moment)
        # In the middle of a migration the result may be a guest that is stopped at the source and
        # runs at the destination: a person must settle that.
        self.ends_well = "_domain_migration" not in moment

    @staticmethod
    def can_happen(moment):
        return moment.startswith("in call")

    def happen(self):
        self.failed = host = hypervisors.HERE.get()
        if self.done:
            # The call is carried out although its caller gets an error.
            self.world.fleet.libvirt_answers.append(self._fail)
        else:
            host.libvirt = False
            raise self.problem()

    def _fail(self, *dummy):
        if self.failed.libvirt:
            self.failed.libvirt = False
            raise self.problem()

    def problem(self):
        raise NotImplementedError

    def mend(self):
        self.world.fleet.libvirt_answers.clear()
        if self.happened:
            self.failed.libvirt = True


class LibvirtDies(_LibvirtFails):
    """libvirtd of the host ends before the call."""

    def problem(self):
        return hypervisors.error(
            "End of file while reading data: Input/output error",
            libvirt.VIR_ERR_SYSTEM_ERROR,
            errno.EIO,
        )


class OtherLanguage(LibvirtDies):
    """The same fault, and libvirt of all hosts speaks another language: its codes are the same, its
    words are not."""

    def __init__(self, world, operation, moment):
        super().__init__(world, operation, moment)
        world.foreign_language()


class LibvirtDiesAfter(LibvirtDies):
    """libvirtd ends when the call is done and the answer is on its way."""

    done = True


class LibvirtHangs(_LibvirtFails):
    """libvirt does not answer in time, and does nothing."""

    def problem(self):
        return LibvirtProblem("libvirt did not answer within 60 s")


class LibvirtHangsAfter(LibvirtHangs):
    """libvirt does not answer in time, but carries the call out."""

    done = True


class DiskFull(Fault):
    """There is no room for a disk on the host that is tried first."""

    @staticmethod
    def can_happen(moment):
        return moment.startswith("before call")

    def happen(self):
        full = []

        def no_room(module, disk):
            full.append(hypervisors.HERE.get())
            if full[-1] is full[0]:
                raise images.ImageProblem(
                    "On kvm1, making the disk failed: No space left on device."
                )
            return self.make(module, disk)

        self.make, images.make_disk = images.make_disk, no_room

    def mend(self):
        images.make_disk = self.make


class TwiceAtOnce(Fault):
    """Another run gives the same command a second time while this run is at this moment."""

    late = False

    def happen(self):
        self.meanwhile(Run(self.world, name="other"))

    def meanwhile(self, run):
        """Give the command in another run. It may wait for this very run; then this run
        continues.
        """

        def other():
            # The other run may wait or refuse; its user sees that.
            with contextlib.suppress(*FAILURES):
                self.operation.run(run)

        self.thread = threading.Thread(target=other, daemon=True)
        self.thread.start()
        self.thread.join(SECONDS)

    @staticmethod
    def can_happen(moment):
        # During a write of SQLite no other process writes.
        return not moment.startswith("in write")

    def mend(self):
        if self.happened:
            self.thread.join(30)


class Discovered(TwiceAtOnce):
    """A discovery of the fleet runs at this moment."""

    def happen(self):
        self.thread = threading.Thread(target=self.world.discover, daemon=True)
        self.thread.start()
        self.thread.join(SECONDS)


class SecondStore(TwiceAtOnce):
    """Another controller with another store has read the fleet and does the same at this moment."""

    ends_well = False

    def happen(self):
        self.world.by_hand.add("web" if self.operation.before is None else "")
        url = f"sqlite:///{self.world.folder}/other.db"
        self.world.discover(url)
        self.meanwhile(Run(self.world, name="elsewhere", url=url))


class BroughtBack(ControllerKilled):
    """The run is killed, and the store comes back from a backup that was made before it began."""

    ends_well = False

    def __init__(self, world, operation, moment):
        super().__init__(world, operation, moment)
        self.backup = f"{world.path}.backup"
        world.close_stores()
        shutil.copyfile(world.path, self.backup)

    def mend(self):
        self.world.close_stores()
        for ending in ("-wal", "-shm"):
            if os.path.exists(self.world.path + ending):
                os.unlink(self.world.path + ending)
        shutil.copyfile(self.backup, self.world.path)

    def again(self):
        first = super().again()
        self.world.check_running()
        if first is not None:
            self.world.discover()
            return super().again()
        return None


class LittleBehind(BroughtBack):
    """The store returns to its state at this moment, after the end of the run."""

    can_happen = staticmethod(lambda moment: not moment.startswith("in write"))

    def happen(self):
        self.backup = f"{self.world.path}.backup"
        with (
            contextlib.closing(sqlite3.connect(self.world.path)) as one,
            contextlib.closing(sqlite3.connect(self.backup)) as other,
        ):
            one.backup(other)


class MadeAnew(ControllerKilled):
    """The run is killed and the store is lost; the new one is made while kvm1 cannot be reached."""

    ends_well = False

    def mend(self):
        self.world.close_stores()
        for ending in ("", "-wal", "-shm", ".claims"):
            if os.path.exists(self.world.path + ending):
                os.unlink(self.world.path + ending)
        self.world.fleet.hosts["kvm1"].reached = False
        self.world.discover()

    def again(self):
        first = super().again()
        self.world.check_running()
        self.world.fleet.hosts["kvm1"].reached = True
        self.world.discover()
        super().again()
        return first


class ClockJump(Fault):
    """The controller's clock jumps an hour ahead, and stays there."""

    seconds = 3600

    def happen(self):
        self.world.ahead = self.seconds


class ClockJumpBack(ClockJump):
    seconds = -3600


class TwoNames(Fault):
    """kvm1 is in the inventory twice, as kvm1 and as kvm1-old, and both are discovered at this
    moment.
    """

    ends_well = False
    can_happen = staticmethod(TwiceAtOnce.can_happen)

    def happen(self):
        self.world.aliases["kvm1-old"] = "kvm1"
        self.world.discover()

    def mend(self):
        """Remove the second name from the inventory."""
        self.world.aliases.clear()


class AddressesSwapped(Fault):
    """The addresses of kvm1 and kvm2 are exchanged, as after new leases of DHCP."""

    ends_well = False

    def happen(self):
        self.world.fleet.addresses.update(kvm1="kvm2", kvm2="kvm1")

    def mend(self):
        self.world.fleet.addresses.clear()


class _ByHand(Fault):
    """A person changes the domain with virsh."""

    ends_well = False
    can_happen = staticmethod(TwiceAtOnce.can_happen)

    def happen(self):
        for host in self.world.fleet.hosts.values():
            if not host.on:
                continue
            domain = host.domains().get(uuid_of("web"))
            if domain is None:
                domain = next(
                    (each for each in host.domains().values() if each.name() == "web"), None
                )
            if domain is not None:
                self.by_hand(host, domain)
                return

    def by_hand(self, host, domain):
        raise NotImplementedError


class CutByHand(_ByHand):
    def by_hand(self, host, domain):
        if domain.isActive():
            domain.destroy()


class StartedByHand(_ByHand):
    def by_hand(self, host, domain):
        # A domain that moves has a job, and libvirt refuses to start it during the job.
        if not domain.isActive() and domain.UUIDString() not in self.world.fleet.moving:
            domain.create()


class MovedByHand(_ByHand):
    """A person moves it to kvm3 with virsh migrate."""

    # The source host of the evacuation reads the new host, which is known after a reading of kvm3.
    discoveries = 2

    def by_hand(self, host, domain):
        # A domain that moves has a job, and libvirt refuses a second one; libvirt moves no domain
        # with snapshots.
        if (
            host.name != "kvm3"
            and not domain.snapshotNum(0)
            and domain.UUIDString() not in self.world.fleet.moving
        ):
            self.world.fleet.moved(host, self.world.fleet.hosts["kvm3"], domain)


class CarriedByHand(_ByHand):
    """A person starts it on kvm3 from the same definition, and leaves the old one: between the plan
    and the look before a start."""

    @staticmethod
    def can_happen(moment):
        # After the look nothing can stop a person; the locks of disks do.
        return moment.startswith("before call") and "_domain_sightings" in moment

    def by_hand(self, host, domain):
        if (
            host.name != "kvm3"
            and not domain.isActive()
            and domain.UUIDString() not in self.world.fleet.moving
        ):
            self.world.fleet.hosts["kvm3"].connection.defineXML(
                domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            ).create()


class DefinedSince(_ByHand):
    """Since the last discovery a person has defined a domain on kvm3 that has the same disks:
    between the plan and the look before a removal.
    """

    @staticmethod
    def can_happen(moment):
        return moment.startswith("before call") and "_file_users" in moment

    def by_hand(self, host, domain):
        disks = hypervisors.disks_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE)
        if "other" not in self.world.fleet.where():
            self.world.fleet.hosts["kvm3"].define("other", uuid_of("other"), "shutoff", disks)
            for path in disks:
                if os.path.isfile(path):
                    self.world.keep(path)


class UndefinedByHand(_ByHand):
    """A person removes it, with its disk."""

    def by_hand(self, host, domain):
        if domain.isActive():
            domain.destroy()
        if domain.UUIDString() in self.world.fleet.moving:
            return
        for path in hypervisors.disks_of(domain):
            self.world.contents.pop(path, None)
        self.world.removed.add(domain.UUIDString())
        domain.undefineFlags(libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA)


FAULTS = {
    "controller killed": ControllerKilled,
    "controller killed, module late": ControllerKilledLate,
    "task timeout": TaskTimeout,
    "task timeout, module late": TaskTimeoutLate,
    "store locked": StoreLocked,
    "store lost": StoreLost,
    "host lost": HostLost,
    "host lost, module late": HostLostLate,
    "hosts cut": HostsCut,
    "source dies": SourceDies,
    "destination dies": DestinationDies,
    "libvirtd dies": LibvirtDies,
    "libvirtd dies, call done": LibvirtDiesAfter,
    "libvirtd dies, other language": OtherLanguage,
    "libvirtd hangs": LibvirtHangs,
    "libvirtd hangs, call done": LibvirtHangsAfter,
    "disk full": DiskFull,
    "twice at once": TwiceAtOnce,
    "discovered": Discovered,
    "second store": SecondStore,
    "store from a backup": BroughtBack,
    "store a little behind": LittleBehind,
    "store made anew": MadeAnew,
    "clock ahead": ClockJump,
    "clock back": ClockJumpBack,
    "two names": TwoNames,
    "addresses swapped": AddressesSwapped,
    "cut by hand": CutByHand,
    "started by hand": StartedByHand,
    "moved by hand": MovedByHand,
    "carried by hand": CarriedByHand,
    "defined since": DefinedSince,
    "undefined by hand": UndefinedByHand,
}
