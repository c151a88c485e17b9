# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The scenarios of the migration matrix, and their guests.

A scenario is a way to the destination, a carriage of the memory, a kind of guest, and the place of
its disk. The hosts of a pair are kvm1 with the old release, and kvm2 and kvm3 with the new one.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import shlex
import uuid

from test_fleet import LOCAL, SHARED, Fleet, qemus

SOURCE = "kvm1"

#: The guests of another run on this machine have other uuids.
RUN = uuid.uuid4()

#: Way -> destination. libvirt connects by SSH, and the memory goes to the host name; or by plain
#: TCP, and the memory goes over the second network.
WAYS = {"ssh": "kvm2", "tcp": "kvm3"}
DESTINATIONS = sorted(WAYS.values())

#: Carriage -> options of the move; None is a cold move.
CARRIAGES: dict[str, dict[str, object] | None] = {
    "direct": {},
    "tunnelled": {"tunnelled": True},
    # With the certificates of the test a move that hangs ends after 80 s.
    "tls": {"tls": True, "timeout_per_gib": 20},
    "xbzrle": {"compression": "xbzrle"},
    "parallel": {"parallel_connections": 2},
    "zstd": {"parallel_connections": 2, "compression": "zstd"},
    "post_copy": {"post_copy": True, "on_timeout": "post_copy"},
    "cold": None,
}

LIVES = ("persistent", "transient")
STATES = ("running", "paused")
FOLDERS = {"shared": SHARED, "copied": LOCAL}


@dataclasses.dataclass(frozen=True)
class Scenario:
    way: str
    carriage: str
    life: str
    state: str
    disk: str

    @property
    def name(self) -> str:
        return "-".join(dataclasses.astuple(self))

    @property
    def uuid(self) -> str:
        return str(uuid.uuid5(RUN, self.name))

    @property
    def destination(self) -> str:
        return WAYS[self.way]

    @property
    def cold(self) -> bool:
        return self.carriage == "cold"

    @property
    def path(self) -> str:
        return f"{FOLDERS[self.disk]}/{self.name}.qcow2"

    def move(self, source: str, destination: str) -> dict[str, object]:
        """Return the move as the module _migration takes it."""
        return {
            "uuid": self.uuid,
            "name": self.name,
            "from_host": source,
            "host": destination,
            "node": destination,
            "live": not self.cold,
            "migration": CARRIAGES[self.carriage] or {},
        }

    def guest(self) -> dict[str, object]:
        """Return the guest as MAKE takes it."""
        return {
            "name": self.name,
            "path": self.path,
            "state": self.state,
            "persistent": self.life == "persistent",
            "xml": GUEST.format(name=self.name, uuid=self.uuid, path=self.path),
        }


def scenarios() -> list[Scenario]:
    live = [name for name in CARRIAGES if name != "cold"]
    found = [Scenario(*each) for each in itertools.product(WAYS, live, LIVES, STATES, FOLDERS)]
    for way, (life, state), disk in itertools.product(
        WAYS,
        (("persistent", "shutoff"), ("persistent", "running"), ("transient", "running")),
        FOLDERS,
    ):
        found.append(Scenario(way, "cold", life, state, disk))
    return found


GUEST = """
<domain type='qemu'>
  <name>{name}</name><uuid>{uuid}</uuid>
  <memory unit='MiB'>64</memory><vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type><boot dev='hd'/></os><features><acpi/></features>
  <devices>
    <disk type='file' device='disk'><driver name='qemu' type='qcow2' cache='none'/>
    <source file='{path}'/><target dev='vda' bus='virtio'/></disk>
    <interface type='network'><source network='lan'/><model type='virtio'/><rom enabled='no'/></interface>
    <memballoon model='none'/>
  </devices>
</domain>
"""

#: Run on a host with the file of guests: make them.
MAKE = f"""
import json, libvirt, shutil
conn = libvirt.open("qemu:///system")
for guest in json.load(open("/srv/shared/guests.json")):
    shutil.copyfile("{SHARED}/.boots.qcow2", guest["path"])
    start = libvirt.VIR_DOMAIN_START_PAUSED if guest["state"] == "paused" else 0
    if not guest["persistent"]:
        conn.createXML(guest["xml"], start)
        continue
    domain = conn.defineXML(guest["xml"])
    if guest["state"] != "shutoff":
        domain.createWithFlags(start)
"""

#: Run on a host with the file of uuids: remove these domains.
REMOVE = """
import json, libvirt
conn = libvirt.open("qemu:///system")
uuids = json.load(open("/srv/shared/guests.json"))
for domain in conn.listAllDomains():
    if domain.UUIDString() in uuids:
        persistent = domain.isPersistent()
        if domain.isActive():
            domain.destroy()
        if persistent:
            domain.undefine()
"""

#: Run on a destination with the file of definitions: define them.
DEFINE = """
import json, libvirt
conn = libvirt.open("qemu:///system")
for xml in json.load(open("/srv/shared/guests.json")):
    conn.defineXML(xml)
"""

#: Run on a host: its domains with a digest of their definitions, its images, and the names of all
#: guests for which it has ever started a QEMU.
FACTS = f"""
import glob, hashlib, json, libvirt, os
states = dict(enumerate("nostate running blocked paused shutdown shutoff crashed pmsuspended".split()))
conn = libvirt.openReadOnly("qemu:///system")
domains = {{
    domain.name(): [
        states[domain.state()[0]], bool(domain.isPersistent()),
        hashlib.sha256(domain.XMLDesc(0).encode()).hexdigest(),
    ] for domain in conn.listAllDomains()
}}
print(json.dumps({{
    "domains": domains,
    "images": [path for folder in ("{LOCAL}", "{SHARED}") for path in glob.glob(folder + "/*.qcow2")],
    "started": [os.path.basename(path)[:-4] for path in glob.glob("/var/log/libvirt/qemu/*.log")],
}}))
"""


class Guests:
    """The guests of all scenarios on the hosts of a lab."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet, self.scenarios = fleet, scenarios()

    def script(self, host: str, program: str, data: object = None) -> str:
        """Run a Python program on a host; it finds the data in a file."""
        (self.fleet.lab.layout.shared / "guests.json").write_text(json.dumps(data))
        return self.fleet.run(host, f"/usr/bin/python3 -c {shlex.quote(program)}")

    def facts(self) -> dict[str, dict[str, object]]:
        """Return all facts of each guest, from outside of drover."""
        pids = qemus()
        by_host = {
            host: json.loads(text)
            for host, text in self.fleet.everywhere(
                f"/usr/bin/python3 -c {shlex.quote(FACTS)}"
            ).items()
        }
        return {
            each.name: {
                "domains": {
                    host: found["domains"][each.name]
                    for host, found in by_host.items()
                    if each.name in found["domains"]
                },
                "processes": sorted(pids.get(each.uuid, [])),
                "images": sorted(
                    (host if path.startswith(LOCAL) else "shared", path)
                    for host, found in by_host.items()
                    for path in found["images"]
                    if os.path.basename(path) == f"{each.name}.qcow2"
                ),
                "started": sorted(
                    host for host, found in by_host.items() if each.name in found["started"]
                ),
            }
            for each in self.scenarios
        }

    def at_home(self, each: Scenario, facts: dict[str, object]) -> bool:
        """Return True if a guest is as it was made."""
        return is_at(each, facts, SOURCE) and facts["domains"][SOURCE][0] == each.state

    def restore(self, wanted: list[Scenario]) -> None:
        """Make every guest again that is not at home."""
        facts = self.facts()
        wrong = [each for each in wanted if not self.at_home(each, facts[each.name])]
        if not wrong:
            return
        for host in self.fleet.hosts:
            self.script(host, REMOVE, [each.uuid for each in wrong])
        paths = " ".join(each.path for each in wrong)
        self.fleet.everywhere(
            f"rm -f {paths}; cd /var/log/libvirt/qemu && rm -f"
            f" {' '.join(each.name + '.log' for each in wrong)}"
        )
        self.script(SOURCE, MAKE, [each.guest() for each in wrong])
        self.fleet.playbook("discover")


def is_at(each: Scenario, facts: dict[str, object], host: str) -> bool:
    """Return True if a guest is on one host alone, in one process, with its disk."""
    if list(facts["domains"]) != [host]:
        return False
    state, persistent, dummy = facts["domains"][host]
    return (
        persistent == (each.life == "persistent")
        and len(facts["processes"]) == (0 if state == "shutoff" else 1)
        and {path for dummy, path in facts["images"]} == {each.path}
        and {host for host, path in facts["images"]}
        == {host if each.disk == "copied" else "shared"}
    )
