# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of the real part of the fault matrix: the operations and the moments of each, its
effect, its repair.

A fault that is added to FAULTS has a cell with each possible operation, at each of its moments.
"""

from __future__ import annotations

import contextlib
import json
import re
import shlex
import shutil
import subprocess

#: Run on a host: end the working modules; not the host itself, the watch, or this script.
KILL_MODULES = """
import glob, os, signal
for path in glob.glob("/proc/[0-9]*"):
    number = int(path[6:])
    try:
        words = open(path + "/cmdline").read()
        if "python" in words.split("\\0")[0] and number not in (1, os.getpid()) and "watched" not in words:
            os.kill(number, signal.SIGKILL)
    except OSError:
        pass
"""
RESTARTED = "/usr/sbin/libvirtd -d && virsh list"


class Fault:
    """One fault.

    moments: "before" and "after" the task of the operation, and "during" it; with the name of a
    task behind it, the moment of that task. environment: environment of the run with the fault.
    exact: True if the hosts and states of the instances at the end are the same as without the
    fault. gone: True if it removes the instance for good. namesakes: True if two stores, which do
    not know each other's instances, may each make an instance of one name.
    """

    moments: tuple[str, ...] = ("during",)
    #: True if it concerns the content of the store and not the progress of the operation: it
    #: happens to the first operation of each kind.
    of_kinds = False
    environment: dict[str, str] = {}
    exact, gone, namesakes = True, False, False

    def __init__(self, world) -> None:
        self.world, self.operation, self.fleet = world, world.operation, world.fleet

    @staticmethod
    def applies(operation) -> bool:
        """Return True if it can happen to an operation, and makes a difference."""
        return True

    @classmethod
    def moments_of(cls, operation) -> tuple[str, ...]:
        return cls.moments

    def strike(self, run, watch) -> None:
        """Let it happen; the run continues after it."""
        raise NotImplementedError

    def mend(self, watch) -> None:
        """Remove the fault after the end of the run."""

    def again(self) -> list:
        """Follow the documents, and give the command again; return the runs, the last one
        counts.
        """
        return [self.give()]

    def back(self, discovered) -> None:
        """Follow the message of the discovery after the dead host came back."""

    def give(self):
        run = self.world.start()
        run.finish()
        return run


class ControllerKilled(Fault):
    """kill -9 of all processes of ansible-playbook; its work on a hypervisor continues."""

    @classmethod
    def moments_of(cls, operation):
        return (
            *(("before", "during", "after") if operation.thorough else cls.moments),
            *operation.moments,
        )

    def strike(self, run, watch):
        run.kill()


class ModuleKilled(Fault):
    """kill -9 of the module on the hypervisor; libvirt continues its operation."""

    of_kinds = True

    def strike(self, run, watch):
        self.fleet.run(self.operation.at, f"/usr/bin/python3 -c {shlex.quote(KILL_MODULES)}")

    def again(self):
        """Remove volumes with data as the messages say, because no run may overwrite them; give the
        command again."""
        run = self.give()
        leftovers = {
            command
            for each in self.world.runs
            for command in re.findall(r"If nobody needs it: (virsh vol-delete \S+ \w+)", each.said)
        }
        for command in leftovers:
            self.fleet.run(self.operation.at, command)
        return [run, self.give()] if leftovers else [run]


class TwiceAtOnce(Fault):
    """Another run gives the same command during the operation."""

    def strike(self, run, watch):
        self.other = self.world.start()
        # It may wait for the first run.
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.other.process.wait(8)

    def mend(self, watch):
        self.other.finish()


class TaskTimeout(Fault):
    """Ansible ends the task. libvirt does not answer for 2 s longer, and then carries out the
    order."""

    SECONDS = 10

    def __init__(self, world):
        super().__init__(world)
        task, limit = self.operation.task, str(self.SECONDS)
        # A task that is named after its module on a host has the name of all such tasks.
        self.environment = (
            {"ANSIBLE_TASK_TIMEOUT": limit}
            if " at " in task
            else {"DROVER_STOPS_TASK": task, "DROVER_STOPS_SECONDS": limit}
        )

    def strike(self, run, watch):
        stopped = self.SECONDS + 2
        self.fleet.run(
            self.operation.at,
            f"pid=$(cat /run/libvirtd.pid); kill -STOP $pid; (sleep {stopped}; kill -CONT $pid) >"
            " /dev/null 2>&1 &",
        )


class StoreLocked(Fault):
    """Another process has locked the store for longer than any run waits."""

    @staticmethod
    def applies(operation):
        return operation.thorough

    def strike(self, run, watch):
        hold = (
            "import sqlite3, sys; connection = sqlite3.connect(sys.argv[1], timeout=30);"
            "connection.execute('BEGIN EXCLUSIVE'); print(flush=True); sys.stdin.read()"
        )
        self.holder = subprocess.Popen(
            ["python3", "-c", hold, self.world.folder / "store.db"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.holder.stdout.readline()

    def mend(self, watch):
        self.holder.communicate()


class StoreLost(Fault):
    """The folder of the store is moved away, and is back when the run has ended."""

    @staticmethod
    def applies(operation):
        return operation.destination is not None

    def strike(self, run, watch):
        self.world.folder.rename(self.world.folder.with_name("away"))

    def mend(self, watch):
        shutil.rmtree(self.world.folder, ignore_errors=True)
        self.world.folder.with_name("away").rename(self.world.folder)


class LibvirtDies(Fault):
    """The libvirtd of the host is killed, and started again after the run."""

    @staticmethod
    def applies(operation):
        return operation.destination is not None or operation.faults is not None

    def strike(self, run, watch):
        self.fleet.run(self.operation.at, "kill -9 $(cat /run/libvirtd.pid)")

    def mend(self, watch):
        self.fleet.run(self.operation.at, RESTARTED)
        # A starting libvirtd stops a pool that it cannot read at that moment. A build says so, with
        # the command for a start of the pool.
        self.world.storage.again(self.operation.at)

    #: The start may have left a volume with data.
    again = ModuleKilled.again


class LibvirtHangs(Fault):
    """The libvirtd of the host stands still until the run has ended."""

    @staticmethod
    def applies(operation):
        return operation.thorough

    def strike(self, run, watch):
        self.fleet.run(self.operation.at, "kill -STOP $(cat /run/libvirtd.pid)")

    def mend(self, watch):
        self.fleet.run(self.operation.at, "kill -CONT $(cat /run/libvirtd.pid)")


class DestinationDies(Fault):
    """The power of the destination fails, and is back after the run; its guests are off."""

    exact = False

    @staticmethod
    def applies(operation):
        return operation.destination is not None

    def strike(self, run, watch):
        self.world.power_off(self.operation.destination)

    def mend(self, watch):
        self.world.power_on(self.operation.destination)
        watch.on(self.operation.destination)


class NetworkCut(Fault):
    """Packets between kvm1 and the destination are lost; the controller reaches both."""

    moments = ("before",)

    @staticmethod
    def applies(operation):
        return operation.destination == "kvm2" and not operation.dead

    def _both(self, command):
        for one, other in (("kvm1", "2"), ("kvm2", "1")):
            self.fleet.run(one, command.format(f"10.99.0.1{other}"))

    def strike(self, run, watch):
        self._both("ip neigh replace {} lladdr 02:00:00:00:00:01 dev br0 nud permanent")

    def mend(self, watch):
        self._both("ip neigh del {} dev br0")


class DiskFull(Fault):
    """There is no room for a disk on the destination of the instance."""

    moments = ("before",)

    @staticmethod
    def applies(operation):
        return operation.fills is not None

    def strike(self, run, watch):
        self.world.storage.fill(*self.operation.fills)

    def mend(self, watch):
        self.world.storage.make_room(*self.operation.fills)


class SecondStore(Fault):
    """Another controller, with a store that has read the same hosts, does the same during the
    operation."""

    of_kinds, exact, namesakes = True, False, True

    def strike(self, run, watch):
        self.other = self.world.start(store=self.world.copy_of_the_store("theirs"))
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.other.process.wait(8)

    def mend(self, watch):
        self.other.finish()


class FromBackup(Fault):
    """The run is killed, and the store comes back from an earlier backup. It cannot know the
    changes by the run."""

    of_kinds, exact = True, False
    moments = ("after",)
    strike = ControllerKilled.strike

    def mend(self, watch):
        # Only the database, as people restore it.
        for ending in ("-wal", "-shm"):
            (self.world.folder / f"store.db{ending}").unlink(missing_ok=True)
        shutil.copyfile(self.world.backup / "store.db", self.world.folder / "store.db")

    def again(self):
        """Give the command; it may be refused until the hosts were read."""
        first = self.give()
        if first.process.returncode == 0:
            return [first]
        return [first, self.world.discover(), self.give()]


class MadeAnew(Fault):
    """The run is killed and the store is lost; the new store has not read the host."""

    of_kinds, exact = True, False
    moments = ("after",)

    @staticmethod
    def applies(operation):
        return operation.destination is not None

    strike = ControllerKilled.strike

    def mend(self, watch):
        shutil.rmtree(self.world.folder)
        self.world.folder.mkdir()
        self.fleet.run(self.operation.at, "kill -9 $(cat /run/libvirtd.pid)")
        self.world.discover()
        self.operation.settings(self.fleet)

    def again(self):
        """Give the command; it may be refused until the host was read."""
        first = self.give()
        self.fleet.run(self.operation.at, RESTARTED)
        # The case is the same as LibvirtDies: the discovery names the command for a start of the
        # pool.
        self.world.storage.again(self.operation.at)
        if self.operation.dead:
            # The store knows no instance of a host that it has never read, so there is nothing to
            # repeat.
            run = self.give()
            assert run.process.returncode and "The store has never read kvm1" in run.said
            return [first, run, self.world.discover("--limit", "!kvm1")]
        return [first, self.world.discover(), self.give()]

    def back(self, discovered):
        """The store cannot know that they were evacuated."""
        for name in ("web", "beside"):
            assert f"{name} is on kvm1 (shutoff) and kvm2 (" in " ".join(discovered.said.split())
            self.fleet.run("kvm1", f"virsh undefine {name}")
        self.world.discover()


class TwoNames(Fault):
    """kvm1 is also in another inventory as kvm1-old, and is discovered by that name."""

    of_kinds = True
    moments = ("before",)

    @staticmethod
    def applies(operation):
        return not operation.dead

    def strike(self, run, watch):
        layout = self.fleet.lab.layout
        inventory = json.loads((layout.folder / "inventory.yml").read_text().partition("\n")[2])
        hosts = inventory["hypervisors"]["hosts"]
        hosts["kvm1-old"] = {**hosts["kvm1"], "ansible_host": "kvm1"}
        file = self.world.folder.with_name("inventory.yml")
        file.write_text(json.dumps(inventory))
        self.world.discover("-i", str(file), "--limit", "kvm1-old,localhost")

    def again(self):
        """Remove the second name from the store, as the warning of the discovery says."""
        runs = [self.give()]
        for _dummy in range(2):
            # If the store has it under the second name first, a discovery sees it under the other
            # one.
            runs += [
                self.world.ad_hoc("drover.compute.compute_node", {"host": "kvm1-old", "nodes": []}),
                self.world.discover(),
            ]
        return [*runs, self.give()]


class _ByHand(Fault):
    """A person changes the domain."""

    of_kinds = True
    exact = False
    words = ""

    def strike(self, run, watch):
        self.world.virsh(self.words)


class DestroyedByHand(_ByHand):
    words = "virsh destroy web"


class UndefinedByHand(_ByHand):
    """Undefine it, and leave its disk."""

    gone = True
    moments = ("after",)
    words = "virsh destroy web; virsh undefine web --snapshots-metadata"

    def forget(self):
        """Release its room, as a person who says that it is lost."""
        uuids = [
            uuid for (uuid,) in self.fleet.query("SELECT uuid FROM instances WHERE name = 'web'")
        ]
        if not uuids and self.operation.state is None:
            # The operation was a deletion, and it ended well without the domain.
            return self.world.discover()
        (uuid,) = uuids
        instances = {"instances": [uuid]}
        if self.fleet.query("SELECT uuid FROM migrations WHERE status IN ('accepted', 'running')"):
            self.world.ad_hoc("drover.compute.allocation", {"state": "swapped_back", **instances})
        self.world.discover()
        return self.world.ad_hoc("drover.compute.allocation", {"state": "released", **instances})


class MovedByHand(_ByHand):
    """A person moves it to another host, with virsh migrate."""

    moments = ("before",)

    @staticmethod
    def applies(operation):
        return operation.destination == "kvm2" and not operation.dead

    def strike(self, run, watch):
        # One host after the other: it must move only once.
        for host in ("kvm1", "kvm2"):
            found = self.fleet.run(host, "virsh list --all --name").split()
            if "web" in found:
                self.world.storage.move_by_hand(host, "kvm3", "web")
                return


FAULTS = {
    "controller killed": ControllerKilled,
    "module killed": ModuleKilled,
    "twice at once": TwiceAtOnce,
    "task timeout": TaskTimeout,
    "store locked": StoreLocked,
    "store lost": StoreLost,
    "libvirtd dies": LibvirtDies,
    "libvirtd hangs": LibvirtHangs,
    "destination dies": DestinationDies,
    "network cut": NetworkCut,
    "disk full": DiskFull,
    "second store": SecondStore,
    "store from a backup": FromBackup,
    "store made anew": MadeAnew,
    "two names": TwoNames,
    "destroyed by hand": DestroyedByHand,
    "undefined by hand": UndefinedByHand,
    "moved by hand": MovedByHand,
}
