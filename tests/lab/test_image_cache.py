# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Images with a name on real hypervisors: from a server on the loopback, another hypervisor, the
controller, below a guest, and cleaned.
"""

from __future__ import annotations

import hashlib
import json
import pathlib

import pytest
from test_fleet import IMAGE, LOCAL, said
from test_migration_trust import BACK, STRANGERS

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

PORT = 8765
#: Each host's local disks, in place of the lab's shared storage.
OWN = ("-e", f"drover_instances_path={LOCAL}")
SERVE = (
    f"setsid python3 -m http.server {PORT} --bind 127.0.0.1 --directory /srv/served >/dev/null 2>&1"
    " & echo $!"
)
PLAY = """
- hosts: {hosts}
  gather_facts: false
  tasks:
    - drover.compute._image_cache:
        folder: {folder}
        images: [{{name: debian-12, source: "{source}", checksum: "{checksum}"}}]
"""


def place(fleet, definitions, images, *words, check=True):
    path = pathlib.Path(fleet.folder) / "fleet.yml"
    path.write_text(json.dumps({"images": images, "instances": definitions}), encoding="utf-8")
    return fleet.playbook("place", "-e", f"drover_definitions={path}", *OWN, *words, check=check)


@pytest.fixture
def served(fleet):
    """Start a server on the loopback of each hypervisor, with the image of the lab; yield the
    checksum."""
    pids = {}
    for host in fleet.hosts:
        fleet.run(host, f"mkdir -p /srv/served && cp {IMAGE} /srv/served/debian-12.qcow2")
        pids[host] = fleet.run(host, SERVE).strip()
        fleet.run(
            host,
            f"until curl -s -o /dev/null http://127.0.0.1:{PORT}/ || python3 -c "
            f"'import socket; socket.create_connection((\"127.0.0.1\", {PORT}))' 2>/dev/null; do sleep 0.2; done",
        )
    yield "sha256:" + fleet.run("kvm1", f"sha256sum {IMAGE}").split()[0]
    for host, pid in pids.items():
        fleet.run(host, f"kill {pid}; rm -rf /srv/served {LOCAL}/_base")


def bring(fleet, source, checksum, hosts="kvm1:kvm2", check=True, words=()):
    path = pathlib.Path(fleet.folder) / "images.yml"
    path.write_text(
        PLAY.format(hosts=hosts, folder=LOCAL, source=source, checksum=checksum), encoding="utf-8"
    )
    return fleet.playbook(str(path), *words, check=check)


def cache(fleet, host):
    return sorted(fleet.run(host, f"ls -A {LOCAL}/_base 2>/dev/null || true").split())


def test_from_a_server_below_a_guest_and_away_again(fleet, served):
    digits, url = served.partition(":")[2], f"http://127.0.0.1:{PORT}/debian-12.qcow2"
    done = bring(fleet, url, served)
    assert "debian-12: in the cache of kvm1" in said(
        done
    ) and "debian-12: in the cache of kvm2" in said(done)
    for host in ("kvm1", "kvm2"):
        assert cache(fleet, host) == [digits, f"{digits}.json"]
    assert "changed=0" in said(bring(fleet, url, served))

    wrong = bring(fleet, url, "sha256:" + "0" * 64, check=False)
    assert (
        wrong.returncode
        and "is not the image debian-12: its sha256 is" in said(wrong)
        and "0" * 64 not in cache(fleet, "kvm1")
    )

    fleet.everywhere(f"rm -rf {LOCAL}/_base")
    fleet.playbook("discover", *OWN)
    definitions = [
        {"name": name, "memory_mb": 64, "disks": [{"size_gb": 1, "image": "debian-12"}]}
        for name in ("web", "db")
    ]
    definitions += [
        {"name": "mail", "memory_mb": 64, "image": "debian-12", "disks": [{"size_gb": 1}]}
    ]
    images = [{"name": "debian-12", "source": url, "checksum": served}]
    place(fleet, definitions, images, "--check")
    assert cache(fleet, "kvm1") == cache(fleet, "kvm2") == [] and fleet.where() == {}
    done = place(fleet, definitions, images)
    where = fleet.settled()
    assert {state for dummy, state in where.values()} == {"running"} and len(where) == 3
    used = {host for host, dummy in where.values()}
    assert said(done).count("in the cache of") == len(used), (
        "one download for all instances of a host"
    )
    for name, (host, _dummy) in where.items():
        paths = fleet.run(host, f"virsh domblklist {name}").split()
        assert (
            json.loads(fleet.run(host, f"qemu-img info -U --output=json {paths[-1]}"))[
                "backing-filename"
            ]
            == f"{LOCAL}/_base/{digits}"
        )

    assert "in the last 24 hours" in said(fleet.playbook("image_cache_clean", *OWN))
    for host in used:
        fleet.run(host, f"touch -d '3 days ago' {LOCAL}/_base/{digits}.json")
    output = said(fleet.playbook("image_cache_clean", *OWN))
    for host in used:
        assert (
            cache(fleet, host) == [digits, f"{digits}.json"]
            and f"{host}: {LOCAL}/_base/{digits}: kept, as" in output
        ), output
    gone = {
        "drover_instances": ["web", "db", "mail"],
        "drover_instance_force": True,
        "drover_instance_timeout": 5,
    }
    fleet.playbook("instance_delete", "-e", json.dumps(gone))
    fleet.playbook("discover", *OWN)
    shown = said(fleet.playbook("image_cache_clean", *OWN, "--check"))
    for host in used:
        assert f"{host}: {LOCAL}/_base/{digits}: would be removed" in shown and cache(
            fleet, host
        ) == [digits, f"{digits}.json"]
    fleet.playbook("image_cache_clean", *OWN)
    assert cache(fleet, "kvm1") == cache(fleet, "kvm2") == []
    fleet.settled()


def test_from_another_hypervisor(fleet, served):
    """The server no longer has the image: kvm2 gets it from kvm1, where an instance has it; kvm3
    does not, because it is not trusted."""
    digits, url = served.partition(":")[2], f"http://127.0.0.1:{PORT}/debian-12.qcow2"
    images = [{"name": "debian-12", "source": url, "checksum": served}]

    def guest(name, host):
        return {
            "name": name,
            "memory_mb": 64,
            "disks": [{"size_gb": 1, "image": "debian-12"}],
            "requested_destination": {"host": host},
        }

    fleet.playbook("discover", *OWN)
    place(fleet, [guest("web", "kvm1")], images)
    pools = fleet.everywhere("virsh pool-list --all --name")
    fleet.everywhere("rm /srv/served/debian-12.qcow2")
    done = place(fleet, [guest("db", "kvm2")], images)
    assert "debian-12: kvm2 cannot read its source; kvm1 -> kvm2" in said(
        done
    ) and "debian-12: in the cache of kvm2" in said(done), said(done)
    assert cache(fleet, "kvm2") == [digits, f"{digits}.json"]
    assert fleet.run("kvm2", f"sha256sum {LOCAL}/_base/{digits}").split()[0] == digits
    assert (
        fleet.settled()["db"] == ("kvm2", "running")
        and fleet.everywhere("virsh pool-list --all --name") == pools
    )
    assert "changed=0" in said(bring(fleet, url, served, "kvm2"))

    fleet.run("kvm3", STRANGERS)
    try:
        refused = bring(fleet, url, served, "kvm3", check=False)
    finally:
        fleet.run("kvm3", BACK)
    text = " ".join(said(refused).split())
    assert (
        refused.returncode and "File not found. Correct the source of the image debian-12." in text
    ), text
    for peer in ("kvm1", "kvm2"):
        assert f"cannot be copied from {peer} to" in text, text
    assert (
        "let kvm3 reach the others with drover.compute.migration_trust." in text
        and cache(fleet, "kvm3") == []
    )

    # Only its checksum proves the content of the other hypervisor.
    fleet.run(
        "kvm1", f"printf x | dd of={LOCAL}/_base/{digits} bs=1 seek=100 conv=notrunc 2>/dev/null"
    )
    fleet.run(
        "kvm2", f"printf x | dd of={LOCAL}/_base/{digits} bs=1 seek=100 conv=notrunc 2>/dev/null"
    )
    wrong = bring(fleet, url, served, "kvm3", check=False)
    assert (
        wrong.returncode
        and "is not the image debian-12: its sha256 is" in " ".join(said(wrong).split())
        and cache(fleet, "kvm3") == []
    )


def test_from_the_controller(fleet, served):
    image = pathlib.Path(fleet.folder) / "own.raw"
    image.write_bytes(bytes(range(256)) * 4096)
    digits = hashlib.sha256(image.read_bytes()).hexdigest()
    foreseen = bring(fleet, image, f"sha256:{digits}", "kvm1", words=("--check",))
    assert "changed=1" in said(foreseen) and cache(fleet, "kvm1") == []
    bring(fleet, image, f"sha256:{digits}", "kvm1")
    assert cache(fleet, "kvm1") == [digits, f"{digits}.json"]
    assert ".drover-upload" not in fleet.run("kvm1", f"ls -A {LOCAL}")
    assert fleet.run("kvm1", f"sha256sum {LOCAL}/_base/{digits}").split()[0] == digits

    missing = bring(fleet, "/nowhere/at/all.raw", f"sha256:{'1' * 64}", "kvm1", check=False)
    assert "does not exist on kvm1. The controller does not have it either." in said(missing)
