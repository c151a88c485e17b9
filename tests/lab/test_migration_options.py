# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of live moves: each option reaches QEMU, and a guest that cannot be moved in time
ends as requested.

The guest writes to its memory faster than the link sends, so without help no migration of it ends.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import re

import pytest
from test_fleet import BOOT_SECTOR, LOCAL, Domain, eventually

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

#: A guest that writes to each page from 1 to 56 MiB repeatedly, until the power button is pressed;
#: then it switches itself off. In protected mode: ACPI on (outw 0x602); for each page: inc [edi];
#: in ax, 0x600; test ah, 1; out 0x604 (soft off).
BUSY = (
    bytes.fromhex(
        "fa31c08ed8e4920c02e692660f0116747c0f20c00c010f22c0ea1e7c080066b810008ed866ba020666b8000166efbf00001000ff0781c7001000"
        "0081ff0000800372f066ba000666edf6c40174e066ba040666b8002066efebfe66900000000000000000ffff0000009acf00ffff00000092cf00"
        "17005c7c0000"
    ).ljust(510, b"\0")
    + b"\x55\xaa"
)

#: Too little bandwidth for the busy guest, and 4 s until the time limit (its 64 MiB count as 2
#: GiB).
SLOW = {"bandwidth_mib": 4, "timeout_per_gib": 2}
LIMIT = 4

CERTIFICATES = """
set -e
mkdir -p /etc/pki/qemu && cd /etc/pki/qemu
cp /srv/shared/ca-cert.pem .
openssl req -newkey rsa:2048 -nodes -keyout server-key.pem -subj /CN=$(hostname) -out request.pem
echo "subjectAltName=DNS:$(hostname)" > extensions
echo keyUsage=digitalSignature,keyEncipherment >> extensions
echo extendedKeyUsage=serverAuth,clientAuth >> extensions
openssl x509 -req -in request.pem -CA ca-cert.pem -CAkey /srv/shared/ca-key.pem -set_serial 0x$(openssl rand -hex 8) -days 2 \\
    -extfile extensions -out server-cert.pem
cp server-cert.pem client-cert.pem; cp server-key.pem client-key.pem
"""
AUTHORITY = """
set -e
cd /srv/shared
openssl req -x509 -newkey rsa:2048 -nodes -keyout ca-key.pem -subj /CN=lab -days 2 -out ca-cert.pem \\
    -addext keyUsage=keyCertSign,cRLSign
"""


@dataclasses.dataclass
class Busy(Domain):
    """A running guest that keeps writing to its memory."""

    boots: bool = True
    size: str = "8M"

    def script(self):
        waiting, busy = (base64.b64encode(sector).decode() for sector in (BOOT_SECTOR, BUSY))
        return super().script().replace(waiting, busy)


class Mover:
    """Moves off kvm1 to kvm2, checked from outside."""

    def __init__(self, fleet):
        self.fleet = fleet
        self.result = fleet.folder / "result.json"

    def words(self, domains, options, destination="kvm2"):
        moves = [
            {
                "uuid": domain.uuid,
                "name": domain.name,
                "from_host": "kvm1",
                "host": destination,
                "node": destination,
                "live": domain.state != "shutoff",
            }
            for domain in domains
        ]
        return "-e", json.dumps(
            {"moves": moves, "drover_migration": options, "result_file": str(self.result)}
        )

    def start(self, domains, options):
        """Start the playbook and return when QEMU sends."""
        run = self.fleet.start("migrate.yml", *self.words(domains, options))
        try:
            eventually(lambda: "Memory remaining" in self.job(domains[0].name))
        except AssertionError:
            run.kill()
            raise
        return run

    def __call__(self, domain, options, destination="kvm2"):
        """Move one; return the result."""
        self.fleet.playbook("migrate.yml", *self.words([domain], options, destination))
        return self.outcomes()[domain.name]

    def outcomes(self):
        return {each["name"]: each for each in json.loads(self.result.read_text())["migrations"]}

    def job(self, name):
        return self.fleet.lab.host("kvm1").run(f"virsh domjobinfo {name}").stdout

    def qemu(self, name):
        """Return the migration capabilities and parameters of the QEMU at the source."""
        monitor_text = "".join(
            self.fleet.run("kvm1", f"virsh qemu-monitor-command {name} --hmp 'info {what}'")
            for what in ("migrate_capabilities", "migrate_parameters")
        )
        return dict(
            line.strip().split(": ", 1) for line in monitor_text.splitlines() if ": " in line
        )


@pytest.fixture
def mover(fleet):
    return Mover(fleet)


@pytest.fixture
def busy(fleet):
    """Return the busy guest on kvm1; the store knows it."""
    domain = Busy("busy")
    fleet.make("kvm1", domain)
    fleet.playbook("discover")
    return domain


def abort(fleet, *names):
    return fleet.playbook("migration_abort", "-e", json.dumps({"drover_instances": list(names)}))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"bandwidth_mib": 3},
            {
                "max-bandwidth": "3145728 bytes/second",
                "multifd": "off",
                "xbzrle": "off",
                "postcopy-ram": "off",
                "auto-converge": "off",
                "downtime-limit": "300 ms",
            },
        ),
        (
            {
                "bandwidth_mib": 3,
                "parallel_connections": 3,
                "auto_converge": True,
                "max_downtime_ms": 700,
            },
            {
                "multifd": "on",
                "multifd-channels": "3",
                "auto-converge": "on",
                "downtime-limit": "700 ms",
            },
        ),
        (
            {"bandwidth_mib": 3, "compression": "xbzrle", "post_copy": True},
            {"xbzrle": "on", "postcopy-ram": "on", "max-postcopy-bandwidth": "3145728"},
        ),
        ({"bandwidth_mib": 3, "tunnelled": True}, {"max-bandwidth": "3145728 bytes/second"}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_options_reach_qemu(fleet, mover, busy, options, expected):
    before = fleet.booked()
    run = mover.start([busy], options)
    eventually(lambda: {key: mover.qemu("busy").get(key) for key in expected} == expected)
    # The data go between the two QEMUs, or between the libvirts over SSH.
    direct = len(
        re.findall(
            r":49\d{3}\s", fleet.run("kvm1", "ss -tn state established dst 10.99.0.12 || true")
        )
    )
    assert direct == (0 if options.get("tunnelled") else direct)
    assert len(fleet.booked()) == 2  # the instance and its migration
    abort(fleet, "busy")
    said = run.finish()
    outcome = mover.outcomes()["busy"]
    assert outcome["status"] == "cancelled" and "aborted on request" in outcome["message"], said
    assert fleet.settled() == {"busy": ("kvm1", "running")} and fleet.booked() == before


@pytest.mark.parametrize(
    ("action", "status", "words"),
    [
        ("abort", "failed", f"not done within {LIMIT} s and was aborted"),
        ("post_copy", "completed", ""),
        ("pause", "completed", ""),
        (
            "shutdown",
            "completed",
            f"not done within {LIMIT} s, so it was shut down, moved cold and started again",
        ),
    ],
)
def test_what_is_done_when_the_time_is_over(fleet, mover, busy, action, status, words):
    run = mover.start([busy], {**SLOW, "on_timeout": action, "post_copy": action == "post_copy"})
    seen = {"post_copy": ("kvm2", "running (post-copy)"), "pause": ("kvm1", "paused")}
    if action in seen:
        host, words_of_libvirt = seen[action]
        eventually(
            lambda: (
                words_of_libvirt in fleet.lab.host(host).run("virsh domstate --reason busy").stdout
            ),
        )
    said = run.finish()
    outcome = mover.outcomes()["busy"]
    assert (outcome["status"], words in outcome["message"]) == (status, True), said
    where = "kvm2" if status == "completed" else "kvm1"
    assert fleet.settled() == {"busy": (where, "running")}
    reason = fleet.run(where, "virsh domstate --reason busy")
    assert (
        "migrat"
        if action in ("post_copy", "pause")
        else "booted"
        if action == "shutdown"
        else "running"
    ) in reason
    # It is still the same guest, and obeys its power button.
    fleet.run(
        where,
        "virsh shutdown busy; for i in $(seq 100); do virsh domstate busy | grep -q off && exit 0;"
        " sleep 0.1; done; exit 1",
    )


def test_shut_down_and_moved_with_its_local_disk(fleet, mover):
    domain = Busy("busy", folder=LOCAL, written_mb=1)
    fleet.make("kvm1", domain)
    fleet.playbook("discover", "-e", f"drover_instances_path={LOCAL}")
    outcome = mover(domain, {"bandwidth_mib": 4, "timeout_per_gib": 1, "on_timeout": "shutdown"})
    assert outcome["status"] == "completed" and "moved cold" in outcome["message"], outcome
    assert outcome["storage"] == "copied"
    assert fleet.settled() == {"busy": ("kvm2", "running")}
    assert (fleet.files(LOCAL, "kvm1"), fleet.files(LOCAL, "kvm2")) == ([], ["busy-0.qcow2"])


def test_post_copy_with_a_local_disk(fleet, mover):
    domain = Busy("busy", folder=LOCAL)
    fleet.make("kvm1", domain)
    fleet.playbook("discover", "-e", f"drover_instances_path={LOCAL}")
    outcome = mover(
        domain,
        {"bandwidth_mib": 4, "timeout_per_gib": 1, "on_timeout": "post_copy", "post_copy": True},
    )
    assert outcome["status"] == "completed", outcome
    assert fleet.settled() == {"busy": ("kvm2", "running")}
    assert (fleet.files(LOCAL, "kvm1"), fleet.files(LOCAL, "kvm2")) == ([], ["busy-0.qcow2"])


def test_tls_with_and_without_certificates(fleet, mover, busy):
    outcome = mover(busy, {"tls": True})
    assert "kvm2 has no /etc/pki/qemu/ca-cert.pem" in outcome["message"], outcome
    assert (
        outcome["status"] == "failed"
        and "the source has no /etc/pki/qemu/ca-cert.pem" in outcome["message"]
    ), outcome
    assert fleet.settled() == {"busy": ("kvm1", "running")}

    fleet.run("kvm1", AUTHORITY)
    try:
        fleet.everywhere(CERTIFICATES)
        run = mover.start(
            [busy], {"tls": True, "bandwidth_mib": 4, "timeout_per_gib": 2, "on_timeout": "pause"}
        )
        seen = mover.qemu("busy")
        assert (
            seen["tls-creds"] == "'objlibvirt_migrate_tls0'" and seen["tls-hostname"] == "'kvm2'"
        ), seen
        said = run.finish()
        assert mover.outcomes()["busy"]["status"] == "completed", said
    finally:
        fleet.everywhere("rm -rf /etc/pki; rm -f /srv/shared/ca-*.pem")
    assert fleet.settled() == {"busy": ("kvm2", "running")}


def test_a_run_goes_on_without_what_was_aborted(fleet, mover, busy):
    """The other run holds the lease: the hypervisor reports the abort to it, and it records the
    result itself."""
    others = [Domain("first", state="shutoff"), Domain("last", state="shutoff")]
    fleet.make("kvm1", *others)
    fleet.playbook("discover")
    before = fleet.booked()["busy"]
    run = mover.start([busy, *others], {"bandwidth_mib": 3})
    done = abort(fleet, "busy")
    assert (
        "is being worked on by" in done.stdout and "busy: kvm1 -> kvm2, cancelled" in done.stdout
    ), done.stdout
    output = run.finish()
    assert {name: each["status"] for name, each in mover.outcomes().items()} == {
        "busy": "cancelled",
        "first": "completed",
        "last": "completed",
    }, output
    assert fleet.settled() == {
        "busy": ("kvm1", "running"),
        "first": ("kvm2", "shutoff"),
        "last": ("kvm2", "shutoff"),
    }
    assert fleet.booked()["busy"] == before
    assert abort(fleet, "busy").returncode == 0  # a second call is harmless


def test_what_a_killed_run_left_is_aborted(fleet, mover, busy):
    before = fleet.booked()
    run = mover.start([busy], {"bandwidth_mib": 3})
    run.kill()
    done = abort(fleet, "busy")
    assert "busy: kvm1 -> kvm2, cancelled" in done.stdout, done.stdout
    assert fleet.settled() == {"busy": ("kvm1", "running")} and fleet.booked() == before
    assert fleet.query("SELECT status FROM migrations") == [("cancelled",)]
    # A later move of it is independent.
    assert (
        mover(busy, {"auto_converge": True, "timeout_per_gib": 2, "on_timeout": "pause"})["status"]
        == "completed"
    )


def test_contradictions_are_refused_before_anything_is_written(fleet, mover, busy):
    before = fleet.dump()
    refusal = fleet.refused(
        "migrate.yml", *mover.words([busy], {"tunnelled": True, "parallel_connections": 2})
    )
    assert "tunnelled and parallel_connections do not go together" in refusal
    refusal = fleet.refused("migrate.yml", *mover.words([busy], {"on_timeout": "post_copy"}))
    assert "on_timeout is post_copy, but post_copy is not true" in refusal
    assert fleet.dump() == before


def test_a_newer_libvirt_is_asked_for_before_anything_is_moved(fleet, mover, busy):
    outcome = mover(busy, {"parallel_connections": 2, "compression": "zstd"})
    version = fleet.run("kvm1", "libvirtd --version").split()[-1]
    if tuple(map(int, version.split("."))) >= (9, 4, 0):
        assert outcome["status"] == "completed", outcome
    else:
        assert outcome["status"] == "failed" and "needs libvirt 9.4.0" in outcome["message"], (
            outcome
        )
        assert fleet.settled() == {"busy": ("kvm1", "running")}


#: QEMU runs as a user without rights, as in distributions.
UNPRIVILEGED = """
set -e
cp /etc/libvirt/qemu.conf /etc/libvirt/qemu.conf.before
sed -i 's/^user = .*/user = "libvirt-qemu"/; s/^group = .*/group = "libvirt-qemu"/' /etc/libvirt/qemu.conf
chown -R libvirt-qemu:libvirt-qemu /var/lib/libvirt/qemu /var/cache/libvirt/qemu
/etc/init.d/libvirtd restart
"""
PRIVILEGED = """
mv /etc/libvirt/qemu.conf.before /etc/libvirt/qemu.conf
chown -R root:root /var/lib/libvirt/qemu /var/cache/libvirt/qemu
/etc/init.d/libvirtd restart
"""


def test_post_copy_where_qemu_may_not_fetch_memory(fleet, mover):
    """QEMU at the destination refuses before any data are sent; the message gives the way out."""
    if fleet.run("kvm3", "cat /proc/sys/vm/unprivileged_userfaultfd").strip() != "0":
        pytest.skip("every user may use userfaultfd here")
    domain = Domain("plain", disks=0)
    fleet.make("kvm1", domain)
    fleet.playbook("discover")
    fleet.run("kvm3", UNPRIVILEGED)
    try:
        outcome = mover(domain, {"post_copy": True, "on_timeout": "post_copy"}, destination="kvm3")
    finally:
        fleet.run("kvm3", PRIVILEGED)
    assert (
        outcome["status"] == "failed" and "vm.unprivileged_userfaultfd=1" in outcome["message"]
    ), outcome
    assert fleet.settled() == {"plain": ("kvm1", "running")}
    # Without it the move succeeds.
    assert mover(domain, {}, destination="kvm3")["status"] == "completed"
