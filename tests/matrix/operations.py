# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The operations of the fault matrix: their initial fleet, their action, and the fleet after a good
end.

Each runs the shipped action plugins, as the role of its name does.
"""

from __future__ import annotations

import hashlib
import os
import subprocess

import libvirt
import sqlalchemy as sa
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    METADATA_NAMESPACE,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
from ansible_collections.drover.compute.plugins.module_utils._files.image_size import image_size
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.module_utils._snapshots import (
    snapshots as _snapshots,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    drained_pools,
    used_files,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims, pool_drains
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    numa,
    rolling,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    files,
    flavors,
    instances,
    orders,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.matrix import volumes
from ansible_collections.drover.compute.tests.matrix.world import Run, TimedOut, Violation
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


class Operation:
    """One operation."""

    #: The states of the instance web before it, and after it; None if there is no web.
    before, after = "running", "running"
    #: The host of web afterwards; None for any host.
    place = None

    def prepare(self, world):
        """Make the fleet before it: web, another instance beside it, and one on another host."""
        if self.before is not None:
            world.instance("web", "kvm1", self.before)
        world.instance("beside", "kvm1")
        world.instance("db", "kvm2")
        world.discover()

    def run(self, run):
        """Give the command; raise a failure as its playbook fails."""
        raise NotImplementedError

    def afterwards(self, world):
        """Do a person's part after the end of the operation."""

    def check(self, world):
        """Check that the operation has ended well."""
        places = world.fleet.where().get("web", [])
        wanted = [] if self.after is None else [self.after]
        assert [state for dummy, state in places] == wanted, places
        if self.place is not None:
            assert places[0][0] == self.place, places
        assert world.fleet.where()["beside"] == [("kvm1", "running")]

    @staticmethod
    def check_disks(world, wanted):
        """Check that the running domain of web on kvm1, its next start, and the store have these
        disks and no other."""
        domain = world.fleet.hosts["kvm1"].domains()[uuid_of("web")]
        for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
            assert hypervisors.disks_of(domain, flags) == wanted, flags
        with Store.open(world.url).read() as connection:
            assert set(wanted) == {
                path
                for path, dummy in files.of_instances(connection, [uuid_of("web")])[uuid_of("web")]
            }

    @staticmethod
    def check_no_move_is_open(world):
        """Check in the definition that no disk of web is moving."""
        domain = world.fleet.hosts["kvm1"].domains()[uuid_of("web")]
        assert "disk_move" not in domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)


class Place(Operation):
    """Role place with one new definition."""

    before = None
    #: More options of each of its disks, for the module domain.
    backed = None

    def bring(self, run, claim):
        """Bring the image of the instance."""

    def run(self, run):
        world = run.world
        (instance,) = run.task(
            "localhost", "_definitions", instances=[{"name": "web", "memory_mb": 64}]
        )["instances"]
        if instance["state"] == "missing":
            raise AnsibleActionFail("web is missing")
        selection = instance["selection"]
        if instance["state"] == "new":
            (selection,) = run.task("localhost", "_schedule", requests=[instance["request"]])[
                "selections"
            ]
        elif instance["state"] != "building":
            return
        claimed = run.task("localhost", "allocation", selections=[selection], of_definitions=True)
        claim = {**instance, **claimed["claims"][0]}
        while claim is not None:
            claim = self._build(run, world, claim)

    def _build(self, run, world, claim):
        """Run the tasks of build.yml; return the next claim, or None after a build."""
        disk = os.path.join(world.disks, f"web-{claim['uuid'][:8]}-vda.qcow2")
        try:
            self.bring(run, claim)
            run.task(
                claim["host"],
                "_instance_build",
                name="web",
                uuid=claim["uuid"],
                xml=hypervisors.xml("web", claim["uuid"], [disk]),
                disks=[{"path": disk, "size_gb": 1, **(self.backed or {})}],
                timeout=1,
            )
            return None
        except (AnsibleActionFail, TimedOut) as problem:
            message = str(problem) or "It took too long."
        arguments = {"uuid": claim["uuid"], "claim": claim, "message": message, "timeout": 1}
        settled = run.task(claim["host"], "_instance_build", state="settled", **arguments)
        return None if settled["built"] else settled["claim"]


class _Images:
    """Images in the cache that all hosts of the world share."""

    def image(self, world, name):
        """Make the source of an image; return the arguments of the module _image_cache."""
        source = os.path.join(world.folder, f"{name}.raw")
        with open(source, "wb") as file:
            file.write(name.encode() * 1000)
        digits = hashlib.sha256(name.encode() * 1000).hexdigest()
        self.cached = os.path.join(world.disks, "_base", digits)
        # From its first moment the image must have its final content.
        world.contents[self.cached] = digits
        return {
            "folder": world.disks,
            "images": [{"name": name, "source": source, "checksum": f"sha256:{digits}"}],
        }

    def unused(self, path):
        """No instance was made of the image for long."""
        os.utime(f"{path}.json", (0, 0))


class PlaceFromImage(_Images, Place):
    """The same with a disk that is backed by an image; the image is brought first."""

    def prepare(self, world):
        super().prepare(world)
        self.given = self.image(world, "debian")

    def bring(self, run, claim):
        paths = run.task(claim["host"], "_image_cache", **self.given)["paths"]
        self.backed = {"backing_file": paths["debian"], "backing_format": "raw"}

    def check(self, world):
        super().check(world)
        assert sorted(os.listdir(os.path.dirname(self.cached))) == [
            os.path.basename(self.cached),
            f"{os.path.basename(self.cached)}.json",
        ]


class CleanImages(_Images, Operation):
    """The cache is cleaned: the backing image of web stays, another one is removed."""

    def prepare(self, world):
        super().prepare(world)
        run = Run(world)
        run.task("kvm1", "_image_cache", **self.image(world, "needed"))
        self.needed = self.cached
        disk = os.path.join(world.disks, "backed.qcow2")
        subprocess.run(
            ["qemu-img", "create", "-q", "-f", "qcow2", "-b", self.needed, "-F", "raw", disk],
            check=True,
        )
        world.fleet.hosts["kvm2"].define("backed", uuid_of("backed"), disks=[disk])
        run.task("kvm1", "_image_cache", **self.image(world, "idle"))
        self.unused(self.needed)
        self.unused(self.cached)
        world.contents.pop(self.cached)
        world.discover()

    def run(self, run):
        run.task("kvm1", "_image_cache", state="clean", folder=run.world.disks)

    def check(self, world):
        super().check(world)
        assert os.path.exists(self.needed) and not os.path.exists(self.cached)


class _OfInstance(Operation):
    """The module instance on the controller: it finds the instance, and works on it at its host."""

    state, place = None, "kvm1"

    def run(self, run):
        run.task(
            "localhost",
            "instance",
            state=self.state,
            instances=["web"],
            timeout=1,
            force=True,
            hard=True,
        )


class Start(_OfInstance):
    before, state = "shutoff", "running"


class Stop(_OfInstance):
    after, state = "shutoff", "stopped"


class Reboot(_OfInstance):
    state = "rebooted"


class Delete(_OfInstance):
    after, state, place = None, "absent", None

    def check(self, world):
        super().check(world)
        # Files stay if a host without an answer may need them.
        assert world.fleet.unread or not os.path.exists(os.path.join(world.disks, "web.qcow2")), (
            "its disk is left"
        )

    def prepare(self, world):
        super().prepare(world)
        # The disk of web may be removed.
        world.contents.pop(os.path.join(world.disks, "web.qcow2"), None)


class Label(_OfInstance):
    """The module instance_labels, in the running domain, its definition and the store."""

    def run(self, run):
        run.task("localhost", "instance_labels", instances=["web"], labels={"tier": "db"})

    def check(self, world):
        super().check(world)
        with Store.open(world.url).read() as connection:
            assert {row["name"]: row["labels"] for row in instances.listing(connection)}["web"] == {
                "tier": "db"
            }


class LiveMove(Operation):
    """The module instance_migrate, to a named host."""

    place, cold = "kvm2", False

    def run(self, run):
        given = {"timeout": 1, "force": True, "shutdown_timeout": 1}
        run.task(
            "localhost", "instance_migrate", instances=["web"], host="kvm2", cold=self.cold, **given
        )


class ColdMove(LiveMove):
    before = after = "shutoff"


class StoppedMove(LiveMove):
    """It is shut down for its move and started at its destination."""

    cold = True


class PinnedMove(LiveMove):
    """web has the first CPU of its host; another instance has the first CPU of its destination."""

    def prepare(self, world):
        # The CPUs that are online on the test driver.
        world.fleet.variables.update(drover_cpu_dedicated_set="0,2", drover_cpu_shared_set="4")
        for host in world.fleet.hosts.values():
            host.show_cells((0, 2, 4))
        super().prepare(world)
        for name, host in (("web", "kvm1"), ("db", "kvm2")):
            world.fleet.hosts[host].pin(uuid_of(name), 1, 0)
        world.discover()

    def check(self, world):
        """Check that it has a separate CPU, as it runs, at its next start and in the store."""
        super().check(world)
        domain = world.fleet.hosts["kvm2"].domains()[uuid_of("web")]
        for flags in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
            assert parse_numa(parse(domain.XMLDesc(flags)))["vcpu_pins"] == {"0": [2]}, flags
        with Store.open(world.url).read() as connection:
            held = numa.of_consumers(connection, [uuid_of("web")]).values()
        assert [[cell["pins"] for cell in cells] for cells in held] == [[{"0": 2}]]


class Settle(LiveMove):
    """The module _migration with state settled, after a run that opened a move and was killed."""

    place = "kvm1"

    def prepare(self, world):
        super().prepare(world)
        from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
            claims as migration_claims,
        )

        with Store.open(world.url).write(together=True) as connection:
            migration_claims.begin(
                connection, uuid_of("web"), "kvm2", "kvm2", "live-migration", fleets.NOW, "kvm1"
            )

    def run(self, run):
        run.task("kvm1", "_migration", state="settled", shutdown_timeout=1)


class Drain(Operation):
    """The module drain: kvm1 is emptied and in maintenance."""

    hosts = ("kvm1",)

    def run(self, run):
        # One move at a time, so the moments have the same order every time.
        limits = {
            "max_migrations": 1,
            "max_migrations_overall": 1,
            "max_wait": 2,
            "shutdown_timeout": 1,
        }
        run.task("localhost", "drain", host=list(self.hosts), **limits)

    def check(self, world):
        where = world.fleet.where()
        assert sorted(where) == ["beside", "db", "web"], where
        assert {state for places in where.values() for dummy, state in places} == {"running"}, where
        assert not {host for places in where.values() for host, dummy in places}.intersection(
            self.hosts
        ), where
        with Store.open(world.url).read() as connection:
            assert all(services.get(connection, host).maintenance for host in self.hosts)


class DrainTwo(Drain):
    """The same with two hosts; no instance goes from one of them to the other."""

    hosts = ("kvm1", "kvm2")


class DrainShutDown(Drain):
    """The same while the policy of web is cold: it is shut down, moved and started by its new
    host."""

    def prepare(self, world):
        super().prepare(world)
        world.fleet.hosts["kvm1"].domains()[uuid_of("web")].setMetadata(
            libvirt.VIR_DOMAIN_METADATA_ELEMENT,
            "<instance><move>cold</move></instance>",
            "drover",
            METADATA_NAMESPACE,
            libvirt.VIR_DOMAIN_AFFECT_LIVE | libvirt.VIR_DOMAIN_AFFECT_CONFIG,
        )
        world.discover()

    def check(self, world):
        super().check(world)
        with Store.open(world.url).read() as connection:
            types = {
                row.type
                for row in connection.execute(sa.select(tables.migrations))
                if row.instance_uuid == uuid_of("web")
            }
        assert types == {"migration"}, types


class DrainTwoDefinitions(Drain):
    """The same while only the next start of web has one of its disks."""

    def prepare(self, world):
        super().prepare(world)
        connection = world.fleet.hosts["kvm1"].connection
        (disk,) = hypervisors.disks_of(world.fleet.hosts["kvm1"].domains()[uuid_of("web")])
        self.disks = [disk, world.disk("later")]
        connection.defineXML(hypervisors.xml("web", uuid_of("web"), self.disks))
        world.discover()

    def check(self, world):
        """It runs with one disk, and has two at its next start."""
        super().check(world)
        ((host, _state),) = world.fleet.where()["web"]
        domain = world.fleet.hosts[host].domains()[uuid_of("web")]
        assert hypervisors.disks_of(domain, 0) == self.disks[:1]
        assert hypervisors.disks_of(domain, libvirt.VIR_DOMAIN_XML_INACTIVE) == self.disks


class DrainUnknownDevice(Drain):
    """The same while the next start of web has a device that drover does not know: web stays, and
    the others move."""

    place = "kvm1"

    def prepare(self, world):
        super().prepare(world)
        connection = world.fleet.hosts["kvm1"].connection
        text = hypervisors.xml(
            "web",
            uuid_of("web"),
            hypervisors.disks_of(world.fleet.hosts["kvm1"].domains()[uuid_of("web")]),
        )
        device = "<shmem name='both'><model type='ivshmem-plain'/><size unit='M'>4</size></shmem>"
        connection.defineXML(text.replace("</devices>", f"{device}</devices>"))
        world.discover()

    def run(self, run):
        limits = {
            "max_migrations": 1,
            "max_migrations_overall": 1,
            "max_wait": 2,
            "shutdown_timeout": 1,
        }
        result = run.task("localhost", "drain", host=["kvm1"], unmovable="skip", **limits)
        # After a restore from a backup, the store has beside on this host, although it has left.
        staying = [each["name"] for each in result["staying"] if each["state"] != "missing"]
        # A person may have moved it away, or undefined it; without a network all others stay too.
        assert "web" in staying or self._has_left(run.world)
        assert set(staying) <= {"web"} or run.world.are_cut()

    @staticmethod
    def _has_left(world):
        return all(host != "kvm1" for host, dummy in world.fleet.where().get("web", ()))

    def check(self, world):
        where = world.fleet.where()
        assert where["web"] == [("kvm1", "running")] and where["beside"][0][0] != "kvm1", where
        with Store.open(world.url).read() as connection:
            assert services.get(connection, "kvm1").disabled


class Evacuate(Operation):
    """The module evacuate, and between its halves the role power, which cuts the power of kvm1: all
    its running instances run on other hosts."""

    def prepare(self, world):
        world.share()
        super().prepare(world)
        world.fleet.hosts["kvm1"].power_off()
        world.discover()

    def run(self, run):
        arguments = {
            "host": "kvm1",
            "others": ["kvm2", "kvm3"],
            "max_evacuations": 1,
            "start_timeout": 1,
        }
        # It died just now, and so did others if a fault concerns them; the machine may have just
        # started.
        limits = {"down_seconds": 0, "quiet_seconds": 0, "start_seconds": 0, "down_percent": 100}
        dead = not run.world.fleet.hosts["kvm1"].on
        judged = run.task(
            "localhost",
            "evacuate",
            state="judged",
            power="off" if dead else "on",
            **arguments,
            **limits,
        )
        assert judged["fence"]
        try:
            self._fence(run)
        except (AnsibleActionFail, TimedOut):
            run.task("localhost", "lease", name="kvm1", state="absent")
            raise
        run.task("localhost", "evacuate", state="restarted", **arguments)

    @staticmethod
    def _fence(run):
        """Run the tasks fence of role power."""
        event = run.task("localhost", "_power_event", host="kvm1", action="fence", driver="ipmi")[
            "event"
        ]
        run.world.fleet.hosts["kvm1"].power_off()
        run.task(
            "localhost",
            "_power_event",
            host="kvm1",
            uuid=event["uuid"],
            status="completed",
            power_state="off",
        )

    def afterwards(self, world):
        """Bring kvm1 back; the discovery removes its old definitions."""
        world.fleet.hosts["kvm1"].power_on()
        world.discover()

    def check(self, world):
        where = world.fleet.where()
        for name in ("web", "beside", "db"):
            assert [state for host, state in where[name] if host != "kvm1"] == ["running"], where


class EvacuateResized(Evacuate):
    """The same while the resize of web on kvm1 waits to be confirmed: only the dead host could end
    it."""

    def prepare(self, world):
        world.share()
        Operation.prepare(self, world)
        with Store.open(world.url).write() as connection:
            flavors.ensure(
                connection, "big", {"vcpus": 2, "memory_mb": 128, "disk_gb": 0}, fleets.NOW
            )
        Run(world).task(
            "localhost",
            "instance_resize",
            instances=["web"],
            timeout=1,
            force=True,
            flavor="big",
            host="kvm1",
        )
        world.fleet.hosts["kvm1"].power_off()
        world.discover()

    def check(self, world):
        super().check(world)
        ((place, _state),) = [each for each in world.fleet.where()["web"] if each[0] != "kvm1"]
        domain = world.fleet.hosts[place].domains()[uuid_of("web")]
        assert (domain.maxVcpus(), domain.maxMemory() // 1024) == (2, 128)


class Undrain(Operation):
    """The module undrain: kvm1 is enabled, and web, which the drain shut down, runs there again."""

    place = "kvm1"

    def prepare(self, world):
        super().prepare(world)
        Run(world).task(
            "localhost", "host", name="kvm1", state="draining", shuts_down=[uuid_of("web")]
        )
        world.fleet.hosts["kvm1"].domains()[uuid_of("web")].destroy()
        world.discover()

    def run(self, run):
        run.task("localhost", "undrain", host="kvm1", timeout=1)

    def check(self, world):
        super().check(world)
        with Store.open(world.url).read() as connection:
            assert not services.get(connection, "kvm1").disabled


class Resize(Operation):
    """The module instance_resize: web has more vCPUs and memory, on a named host."""

    place, ending = "kvm2", "confirm"
    size = (2, 128)

    def prepare(self, world):
        super().prepare(world)
        with Store.open(world.url).write() as connection:
            flavors.ensure(
                connection, "big", {"vcpus": 2, "memory_mb": 128, "disk_gb": 0}, fleets.NOW
            )

    def run(self, run):
        given = {"flavor": "big", "host": self.place, "ending": self.ending}
        run.task("localhost", "instance_resize", instances=["web"], timeout=1, force=True, **given)

    def check(self, world):
        super().check(world)
        domain = world.fleet.hosts[self.place].domains()[uuid_of("web")]
        assert (domain.maxVcpus(), domain.maxMemory() // 1024) == self.size


class ResizeHere(Resize):
    """The same on its present host."""

    place = "kvm1"


class ResizeUndone(ResizeHere):
    """web was resized, and a person has given it its old size by hand: the resize is carried out
    once more."""

    def prepare(self, world):
        super().prepare(world)
        Run(world).task(
            "localhost",
            "instance_resize",
            instances=["web"],
            timeout=1,
            force=True,
            flavor="big",
            host="kvm1",
        )
        host = world.fleet.hosts["kvm1"]
        domain = host.domains()[uuid_of("web")]
        disks = hypervisors.disks_of(domain)
        domain.destroy()
        host.connection.defineXML(hypervisors.xml("web", uuid_of("web"), disks)).create()
        world.discover()


class DeleteClaim(_OfInstance):
    """The module instance, of an instance that a killed run has claimed and not built."""

    before, after, state, place = None, None, "absent", None

    def prepare(self, world):
        super().prepare(world)
        with Store.open(world.url).write(together=True) as connection:
            claims.claim(connection, [fleets.selection("web", "kvm1")], fleets.NOW, defined=True)
            orders.begin(
                connection, uuid_of("web"), orders.SPAWNING, "00000000-0000-0000-0000-000000000001"
            )

    def check(self, world):
        super().check(world)
        assert uuid_of("web") not in fleets.holdings(world.url)


class Revert(Resize):
    """The module instance_resize reverts a resize to another host."""

    place, size = "kvm1", (1, 64)

    def prepare(self, world):
        super().prepare(world)
        given = {"flavor": "big", "host": "kvm2"}
        Run(world).task(
            "localhost", "instance_resize", instances=["web"], timeout=1, force=True, **given
        )

    def run(self, run):
        run.task(
            "localhost",
            "instance_resize",
            instances=["web"],
            timeout=1,
            force=True,
            ending="revert",
        )


class PinnedResize(Resize):
    """web has the first CPU of its host, and beside the second; another instance has the first CPU
    of its destination."""

    size = (1, 128)

    def prepare(self, world):
        # The CPUs that are online on the test driver.
        world.fleet.variables.update(drover_cpu_dedicated_set="0,2", drover_cpu_shared_set="4")
        for host in world.fleet.hosts.values():
            host.show_cells((0, 2, 4))
        super().prepare(world)
        sizes = {
            "vcpus": 1,
            "memory_mb": 128,
            "disk_gb": 0,
            "extra_specs": {"hw:cpu_policy": "dedicated"},
        }
        with Store.open(world.url).write() as connection:
            flavors.ensure(connection, "big", sizes, fleets.NOW)
        for name, host, cpu in (("web", "kvm1", 0), ("beside", "kvm1", 2), ("db", "kvm2", 0)):
            world.fleet.hosts[host].pin(uuid_of(name), 1, cpu)
        world.discover()

    def check(self, world):
        super().check(world)
        domain = world.fleet.hosts["kvm2"].domains()[uuid_of("web")]
        assert parse_numa(parse(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)))["vcpu_pins"] == {
            "0": [2]
        }
        with Store.open(world.url).read() as connection:
            held = numa.of_consumers(connection, [uuid_of("web")]).values()
        assert [[cell["pins"] for cell in cells] for cells in held] == [[{"0": 2}]]


class DeleteWithoutDomain(Resize):
    """web waits for the confirmation of its resize, and a person has undefined its domain: web is
    removed, and its disk stays."""

    after, place = None, None

    def prepare(self, world):
        super().prepare(world)
        Run(world).task(
            "localhost",
            "instance_resize",
            instances=["web"],
            timeout=1,
            force=True,
            flavor="big",
            host="kvm2",
        )
        domain = world.fleet.hosts["kvm2"].domains()[uuid_of("web")]
        domain.destroy()
        domain.undefine()
        world.discover()

    def run(self, run):
        run.task("localhost", "instance", state="absent", instances=["web"], timeout=1)

    def check(self, world):
        Operation.check(self, world)
        assert os.path.exists(os.path.join(world.disks, "web.qcow2")), "its disk is gone"
        with Store.open(world.url).read() as connection:
            assert [
                row["name"] for row in instances.listing(connection) if row["name"] == "web"
            ] == []


class Rolling(Operation):
    """Role rolling for kvm1: it is emptied, rebooted, brought back, and its instances return."""

    place = "kvm1"

    def prepare(self, world):
        """One instance only, because each instance has the moments of a move there and of a move
        back."""
        world.instance("web", "kvm1")
        world.discover()

    def run(self, run):
        arguments = {
            "hosts": ["kvm1"],
            "reboot": "always",
            "bring_back": True,
            "max_migrations": 1,
            "max_migrations_overall": 1,
        }
        arguments.update(max_wait=2, shutdown_timeout=1)

        def call(**args):
            return run.task("kvm1", "_rolling", **arguments, **args)

        call(state="begun")
        planned = call(state="planned", seen=[call(state="looked")])
        try:
            self._batches(run, call, planned)
        finally:
            reported = call(state="reported", left_out=planned["left_out"])
        if reported["message"]:
            raise AnsibleActionFail(reported["message"])

    def _batches(self, run, call, planned):
        """Tasks rounds.yml and batch.yml."""
        for _dummy in sum(planned["rounds"], []):
            batch = call(state="next")
            try:
                for step in batch["steps"]:
                    do = call(state="step", step=step["name"])
                    if "power" in do:
                        self._reboot(run)
                    if do.get("undrain"):
                        run.task("localhost", "undrain", host="kvm1")
            except AnsibleActionFail as problem:
                call(state="failed", message=str(problem))
            call(state="closed", batch=batch["hosts"])

    def _reboot(self, run):
        """Role power."""
        host = run.world.fleet.hosts["kvm1"]
        running = [name for name, state in host.states().items() if state != "shutoff"]
        if host.on and running:
            raise Violation(f"{running} run on kvm1 at its reboot")
        host.power_off()
        run.moments("in the reboot")
        host.power_on()

    def check(self, world):
        assert world.fleet.where() == {"web": [("kvm1", "running")]}
        with Store.open(world.url).read() as connection:
            assert not services.get(connection, "kvm1").disabled
            assert rolling.read(connection) == []


class AttachDisk(Operation):
    """The module instance_disk: web gets a disk with a new file."""

    place, state, disks = "kvm1", "present", ["web.qcow2", "data.qcow2"]

    def run(self, run):
        path = os.path.join(run.world.disks, "data.qcow2")
        run.task(
            "localhost",
            "instance_disk",
            name="web",
            path=path,
            size="1GiB",
            state=self.state,
            timeout=1,
        )

    def check(self, world):
        """Check that the disk is in the running domain, in its definition and in the store, or in
        none of them."""
        super().check(world)
        self.check_disks(world, [os.path.join(world.disks, name) for name in self.disks])


class BringIntoLine(AttachDisk):
    """Role place with drover_apply_changes, confirmed: the definition of web has another policy, a
    larger disk, one more disk and more memory."""

    memory = 128
    #: A resize may move it.
    place = None

    def prepare(self, world):
        super().prepare(world)
        # The image grows, and its header has another size then.
        world.contents.pop(os.path.join(world.disks, "web.qcow2"))

    def run(self, run):
        disks = [{"size_gb": 1, "path": os.path.join(run.world.disks, name)} for name in self.disks]
        definition = {
            "name": "web",
            "uuid": uuid_of("web"),
            "memory_mb": self.memory,
            "disks": disks,
            "policy": {"priority": 5},
        }
        found = run.task("localhost", "_definitions", instances=[definition])["instances"]
        done = run.task(
            "localhost", "_alignment", definitions=found, apply=True, timeout=1, force=True
        )
        if done["problems"]:
            raise AnsibleActionFail(" ".join(done["problems"]))
        run.task(
            "localhost",
            "instance_resize",
            instances=["web"],
            timeout=1,
            force=True,
            ending="confirm",
        )

    def check(self, world):
        Operation.check(self, world)
        ((host, _state),) = world.fleet.where()["web"]
        domain = world.fleet.hosts[host].domains()[uuid_of("web")]
        paths = [os.path.join(world.disks, name) for name in self.disks]
        assert hypervisors.disks_of(domain) == paths
        assert [image_size(path, "qcow2")[0] for path in paths] == [2**30] * len(paths)
        assert domain.maxMemory() // 1024 == self.memory
        with Store.open(world.url).read() as connection:
            assert instances.kept(connection, [uuid_of("web")])[uuid_of("web")]["policy"] == {
                "priority": 5
            }


class DetachDisk(AttachDisk):
    """The same disk is detached; its file stays."""

    state, disks = "absent", ["web.qcow2"]

    def prepare(self, world):
        super().prepare(world)
        path = os.path.join(world.disks, "data.qcow2")
        Run(world).task("localhost", "instance_disk", name="web", path=path, size="1GiB", timeout=1)
        world.keep(path)

    def check(self, world):
        super().check(world)
        assert os.path.exists(os.path.join(world.disks, "data.qcow2")), "its file is gone"


class GrowDisk(Operation):
    """The module instance_disk, state resized: the disk of web gets larger while web runs."""

    place = "kvm1"

    def prepare(self, world):
        super().prepare(world)
        # The header has another size then.
        world.contents.pop(os.path.join(world.disks, "web.qcow2"))

    def run(self, run):
        run.task(
            "localhost",
            "instance_disk",
            name="web",
            target="vda",
            size="2GiB",
            state="resized",
            timeout=1,
        )

    def check(self, world):
        """Check that the image has the size, and that the store counts it."""
        super().check(world)
        assert image_size(os.path.join(world.disks, "web.qcow2"), "qcow2")[0] == 2 * 2**30
        (amounts,) = fleets.holdings(world.url)[uuid_of("web")].values()
        assert amounts["DISK_GB"] == 2, amounts


class MoveDisk(Operation):
    """Playbook instance_disk_move: the disk of web moves to another folder of its host, while web
    runs."""

    place = "kvm1"

    def prepare(self, world):
        super().prepare(world)
        self.old, self.new = (
            os.path.join(world.disks, *names) for names in (("web.qcow2",), ("fast", "web.qcow2"))
        )
        os.mkdir(os.path.dirname(self.new))
        # Its content moves on.
        self.kept = world.contents.pop(self.old)

    def run(self, run):
        run.task(
            "localhost", "_disk_move", instance="web", disk="vda", pool=os.path.dirname(self.new)
        )

    def check(self, world):
        """Check that the running domain, its definition and the store have the new file, or all of
        them the old one; nothing of the other is left."""
        super().check(world)
        self.check_disks(world, [self.new])
        assert not os.path.exists(self.old) and os.listdir(os.path.dirname(self.new)) == [
            os.path.basename(self.new)
        ]
        self.check_no_move_is_open(world)


class MoveDiskCold(MoveDisk):
    """The same for an instance that is off."""

    before = after = "shutoff"


class DrainPool(Operation):
    """The module drain with a storage pool: the disk of web moves from the pool ssd to the pool of
    the instances' path, while web runs."""

    place = "kvm1"

    def prepare(self, world):
        self.old, self.new = (
            os.path.join(world.disks, "ssd", "web.qcow2"),
            os.path.join(world.disks, "web.qcow2"),
        )
        os.mkdir(os.path.dirname(self.old))
        world.disk("ssd/web")
        # Its content moves on.
        world.contents.pop(self.old)
        world.fleet.hosts["kvm1"].define("web", uuid_of("web"), self.before, [self.old])
        world.names[uuid_of("web")] = "web"
        connection = world.fleet.hosts["kvm1"].connection
        for name, folder in (("ssd", os.path.dirname(self.old)), ("vms", world.disks)):
            connection.storagePoolDefineXML(
                f"<pool type='dir'><name>{name}</name><target><path>{folder}</path></target></pool>"
            ).create()
        world.fleet.variables["drover_storage_pools"] = ["ssd"]
        world.instance("beside", "kvm1")
        world.instance("db", "kvm2")
        world.discover()

    def run(self, run):
        run.task("localhost", "drain", pool="ssd", host=["kvm1"], reason="new disks")

    def check(self, world):
        """Check that the pool is empty and closed, and that the running domain, its definition and
        the store have the new file."""
        super().check(world)
        self.check_disks(world, [self.new])
        assert os.listdir(os.path.dirname(self.old)) == []
        self.check_no_move_is_open(world)
        with Store.open(world.url).read() as connection:
            (pool,) = drained_pools.find(connection, "ssd", ["kvm1"])
            assert pool_drains.reasons(connection, pool.places) == {pool.places[0]: "new disks"}


class DrainPoolCold(DrainPool):
    """The same for an instance that is off."""

    before = after = "shutoff"


class MoveDiskToVolume(MoveDisk):
    """The disk becomes a volume of a pool without files: a file takes the place of its device, as
    in the unit tests."""

    def prepare(self, world):
        super().prepare(world)
        self.new = os.path.join(world.disks, "zfs", f"{uuid_of('web')}-vda")
        os.mkdir(os.path.dirname(self.new))
        volumes.give(world.fleet, "kvm1", "zfs", os.path.dirname(self.new), world.disks)

    def run(self, run):
        run.task("localhost", "_disk_move", instance="web", disk="vda", pool="zfs")


class Snapshot(Operation):
    """The module instance_snapshot on the controller: a snapshot of the disks of an instance that
    is off."""

    before, after, place = "shutoff", "shutoff", "kvm1"
    #: The request.
    given = {"state": "present", "snapshot": "one"}

    def run(self, run):
        run.task("localhost", "instance_snapshot", instances=["web"], timeout=30, **self.given)

    def snapshots(self, world):
        """Return {name: the image of its disk} of web."""
        return {
            each.name: each.bases["vda"][0]
            for each in _snapshots.read(world.fleet.hosts["kvm1"].domains()[uuid_of("web")])
        }

    def disk(self, world):
        """Return the image that web writes to."""
        (path,) = hypervisors.disks_of(world.fleet.hosts["kvm1"].domains()[uuid_of("web")])
        return path

    def made(self, world):
        """Make a snapshot, and write to the disk after it."""
        Run(world).task(
            "localhost", "instance_snapshot", instances=["web"], state="present", snapshot="one"
        )
        self.written = self.disk(world)
        self.io(self.written, "write -q -P 7 0 64k")

    @staticmethod
    def io(path, command):
        done = subprocess.run(
            ["qemu-io", "-f", "qcow2", "-c", command, path],
            check=True,
            capture_output=True,
            text=True,
        )
        return done.stdout

    def check(self, world):
        super().check(world)
        base = os.path.join(world.disks, "web.qcow2")
        assert self.snapshots(world) == {"one": base} and self.disk(world) != base
        with Store.open(world.url).read() as connection:
            assert self.disk(world) in used_files.of_instance(connection, uuid_of("web"))


class DeleteSnapshot(Snapshot):
    """The snapshot is merged: the later writes stay."""

    given = {"state": "absent", "snapshot": "one"}

    def prepare(self, world):
        super().prepare(world)
        self.made(world)
        # A merge changes the image.
        world.contents.pop(os.path.join(world.disks, "web.qcow2"))

    def check(self, world):
        Operation.check(self, world)
        assert self.snapshots(world) == {} and self.disk(world) == os.path.join(
            world.disks, "web.qcow2"
        )
        assert "failed" not in self.io(self.disk(world), "read -P 7 0 64k")


class RevertSnapshot(Snapshot):
    """The later writes are kept in their file, and web does not have this file."""

    given = {"state": "reverted", "snapshot": "one"}

    def prepare(self, world):
        super().prepare(world)
        self.made(world)
        world.keep(self.written)

    def check(self, world):
        super().check(world)
        assert self.disk(world) != self.written and os.path.exists(self.written)
        assert "failed" not in self.io(self.disk(world), "read -P 0 0 64k")


class MoveWithSnapshots(LiveMove):
    """web has two snapshots, one over the other, and moves with the records of both."""

    def prepare(self, world):
        super().prepare(world)
        # Snapshots of a running guest need QEMU.
        if self.before == "running":
            self._domain(world, "kvm1").destroy()
            world.discover()
        for name in ("one", "two"):
            Run(world).task(
                "localhost", "instance_snapshot", instances=["web"], state="present", snapshot=name
            )
        if self.before == "running":
            self._domain(world, "kvm1").create()
        self.recorded = self._recorded(self._domain(world, "kvm1"))
        world.share()
        world.discover()

    @staticmethod
    def _domain(world, host):
        return world.fleet.hosts[host].domains()[uuid_of("web")]

    @staticmethod
    def _recorded(domain):
        return {each.name: (each.text, each.current) for each in _snapshots.read(domain)}

    def check(self, world):
        super().check(world)
        domain = self._domain(world, "kvm2")
        assert self._recorded(domain) == self.recorded and set(self.recorded) == {"one", "two"}
        assert domain.snapshotNum(0) == 2 and "drover-snapshots" not in domain.XMLDesc(0)


class ColdMoveWithSnapshots(MoveWithSnapshots):
    before = after = "shutoff"


class OnCeph:
    """The disks of all instances are images of Ceph, which QEMU reaches without the host: after
    each operation, every disk has the same image."""

    def prepare(self, world):
        world.use_ceph()
        super().prepare(world)


def on_ceph(operation):
    return type(f"{operation.__name__}OnCeph", (OnCeph, operation), {"__doc__": operation.__doc__})


OPERATIONS = {
    "rolling": Rolling,
    "drain": Drain,
    "drain of two hosts": DrainTwo,
    "drain, shut down": DrainShutDown,
    "drain with two definitions": DrainTwoDefinitions,
    "drain with an unknown device": DrainUnknownDevice,
    "evacuate": Evacuate,
    "evacuate a resized one": EvacuateResized,
    "resize": Resize,
    "resize on the same host": ResizeHere,
    "resize that was undone by hand": ResizeUndone,
    "delete a claim": DeleteClaim,
    "resize of a pinned one": PinnedResize,
    "revert": Revert,
    "place": Place,
    "place from an image": PlaceFromImage,
    "clean the cache of images": CleanImages,
    "start": Start,
    "stop": Stop,
    "reboot": Reboot,
    "delete": Delete,
    "delete without a domain": DeleteWithoutDomain,
    "label": Label,
    "live move": LiveMove,
    "live move of a pinned one": PinnedMove,
    "cold move": ColdMove,
    "move shut down": StoppedMove,
    "undrain": Undrain,
    "settle": Settle,
    "attach disk": AttachDisk,
    "detach disk": DetachDisk,
    "bring into line": BringIntoLine,
    "grow disk": GrowDisk,
    "move disk": MoveDisk,
    "move disk of one that is off": MoveDiskCold,
    "move disk to a volume": MoveDiskToVolume,
    "live move with snapshots": MoveWithSnapshots,
    "cold move with snapshots": ColdMoveWithSnapshots,
    "drain pool": DrainPool,
    "drain pool of one that is off": DrainPoolCold,
    "snapshot": Snapshot,
    "delete a snapshot": DeleteSnapshot,
    "revert to a snapshot": RevertSnapshot,
    "drain, on ceph": on_ceph(Drain),
    "evacuate, on ceph": on_ceph(Evacuate),
    "resize, on ceph": on_ceph(Resize),
    "revert, on ceph": on_ceph(Revert),
    "delete, on ceph": on_ceph(Delete),
    "live move, on ceph": on_ceph(LiveMove),
    "cold move, on ceph": on_ceph(ColdMove),
    "move shut down, on ceph": on_ceph(StoppedMove),
    "undrain, on ceph": on_ceph(Undrain),
    "settle, on ceph": on_ceph(Settle),
}
