# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The definition of a running instance changes: place names the differences, changes some on
request, and removes absent instances on request."""

from __future__ import annotations

import re

import pytest
import yaml
from test_fleet import IMAGE, SHARED, changed

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

WEB = {
    "name": "web",
    "memory_mb": 96,
    # A guest of the type q35 has one free port for new devices.
    "machine": "pc",
    "disks": [{"size_gb": 1, "image": IMAGE}],
    "networks": [{"bridge": "br0"}],
    "cdroms": [{"path": f"{SHARED}/one.iso"}],
    "requested_destination": {"host": "kvm1"},
}
WISH = {
    "vcpus": 2,
    "memory_mb": 64,
    "disks": [{"size_gb": 1, "image": IMAGE}, {"size_gb": 2}],
    "networks": [{"bridge": "br0"}, {"bridge": "br0", "mac": "52:54:00:12:34:77"}],
    "cdroms": [{"path": f"{SHARED}/two.iso"}],
    "autostart": True,
    "policy": {"move": "cold", "priority": 7},
    "labels": {"tier": "front"},
    "watchdog": {"action": "reset"},
}
#: The changed keys, as the lines and the differences name them.
KEYS = ("vcpus", "memory_mb", "disk 2", "network 2", "cdrom 1", "autostart", "policy", "labels")


def write(file, **wish):
    """Change the definition of web in the file, where place has written its uuid."""
    data = yaml.safe_load(file.read_text())
    data["instances"][0].update(wish)
    file.write_text(yaml.safe_dump(data, sort_keys=False))


def test_a_definition_that_changes(fleet):
    for name in ("one", "two"):
        fleet.run("kvm1", f"truncate -s 1M {SHARED}/{name}.iso")
    file = fleet.folder / "fleet.yml"
    file.write_text(
        yaml.safe_dump(
            {"instances": [WEB, {"name": "gone", "memory_mb": 64, "disks": [{"size_gb": 1}]}]},
            sort_keys=False,
        )
    )
    fleet.place(file)
    assert fleet.settled()["web"] == ("kvm1", "running")

    # All differences are named, and nothing is changed.
    write(file, **WISH)
    before, xml = fleet.dump(), fleet.run("kvm1", "virsh dumpxml web")
    for options in (
        ("--check", "--diff"),
        ("--diff",),
        ("--check", "-e", "drover_apply_changes=true"),
    ):
        output = " ".join(fleet.place(file, *options).stdout.split())
        assert all(re.search(rf"{key} .*?, the definition says", output) for key in KEYS), output
        assert "watchdog none, the definition says i6300esb reset" in output
        assert fleet.run("kvm1", "virsh dumpxml web") == xml
    assert fleet.dump() == before and "web: would change" in output

    # On request they are changed; the rest is still named. No program in this guest listens to its
    # power button.
    force = ("-e", "drover_instance_timeout=5", "-e", "drover_instance_force=true")
    done = fleet.place(file, "--diff", "-e", "drover_apply_changes=true", *force)
    assert changed(done) == 1 and "drover_resize=confirm" in " ".join(done.stdout.split()), (
        done.stdout
    )
    # An open resize holds the room of both sizes.
    host, state = fleet.where()["web"]
    assert state == "running"
    hypervisor = fleet.lab.host(host)
    for flags in ("", "--inactive"):
        disks = hypervisor.check_output(f"virsh domblklist web {flags}")
        assert re.search(r"vdb +\S+-vdb\.qcow2", disks) and f"{SHARED}/two.iso" in disks
        interfaces = hypervisor.check_output(f"virsh domiflist web {flags}")
        assert interfaces.count(" br0 ") == 2 and "52:54:00:12:34:77" in interfaces
    info = hypervisor.check_output("virsh dominfo web")
    assert (
        re.search(r"CPU\(s\): +2\n", info)
        and re.search(r"Max memory: +65536 KiB", info)
        and re.search(r"Autostart: +enable", info)
    )
    metadata = hypervisor.check_output("virsh metadata web https://drover.compute/instance/1")
    assert "<move>cold<" in metadata and "<priority>7<" in metadata and "tier=front" in metadata

    # A second run changes nothing, and names only the differences that no run changes.
    done = fleet.place(file, "--diff", "-e", "drover_apply_changes=true")
    assert changed(
        done
    ) == 0 and "web: watchdog none, the definition says i6300esb reset." in " ".join(
        done.stdout.split()
    )
    fleet.playbook("instance_resize", "-e", "drover_instance=web", "-e", "drover_resize=confirm")
    assert changed(fleet.place(file, "-e", "drover_apply_changes=true")) == 0

    # An absent instance stays until a request for its removal.
    data = yaml.safe_load(file.read_text())
    data["instances"][1]["state"] = "absent"
    file.write_text(yaml.safe_dump(data, sort_keys=False))
    done = fleet.place(file)
    assert (
        "Still there: gone" in " ".join(done.stdout.split())
        and "gone" in fleet.where()
        and changed(done) == 0
    )
    arguments = ("-e", "drover_remove_absent=true", *force)
    fleet.place(file, *arguments, "--check")
    assert "gone" in fleet.where()
    assert changed(fleet.place(file, *arguments)) > 0
    assert "gone" not in fleet.where() and not [
        path for path in fleet.files(SHARED) if "gone-" in path
    ]
    assert changed(fleet.place(file, *arguments)) == 0
    fleet.settled()
