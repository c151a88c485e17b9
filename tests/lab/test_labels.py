# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of real domains: from definitions, changed while the guest runs, after a live migration, a
stop and with a new store.
"""

from __future__ import annotations

import json
import subprocess

import pytest
from test_fleet import IMAGE, changed

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

DEFINITIONS = f"""\
instances:
  - name: web1
    memory_mb: 64
    disks: [{{size_gb: 1, image: {IMAGE}}}]
    labels: {{project: web, tier: front}}
    policy: {{priority: 3}}
  - name: db1
    memory_mb: 64
    labels: {{project: web, tier: db}}
  - name: bare
    memory_mb: 64
"""


def label(fleet, labels, *words, **given):
    """Run the module as a person does; return the result of the task."""
    arguments = json.dumps({"labels": labels, **given})
    words = [
        "ansible",
        "localhost",
        "-m",
        "drover.compute.instance_labels",
        "-a",
        arguments,
        *words,
    ]
    done = subprocess.run(
        words,
        env=fleet.lab.environment(fleet.store_url),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def of_store(fleet):
    return {
        name: json.loads(found) if found else {}
        for name, found in fleet.query("SELECT name, labels FROM instances")
    }


def of_host(fleet, host, name):
    """Return the labels of the running domain and of its definition, as libvirt has them."""
    space = "--uri https://drover.compute/instance/1"
    texts = [
        fleet.run(host, f"virsh metadata {name} {space} {where}")
        for where in ("--live", "--config")
    ]
    return [each.partition("<labels>")[2].partition("</labels>")[0] for each in texts]


def test_labels_go_with_the_guest(fleet, tmp_path):
    file = fleet.folder / "fleet.yml"
    file.write_text(DEFINITIONS, encoding="utf-8")
    assert changed(fleet.place(file)) > 0
    assert of_store(fleet) == {
        "web1": {"project": "web", "tier": "front"},
        "db1": {"project": "web", "tier": "db"},
        "bare": {},
    }
    assert "labels: {project: web, tier: front}" in file.read_text(encoding="utf-8")
    assert "web1: labels" not in fleet.place(file).stdout

    # A running guest and its definition get the label; the rest of its metadata stays.
    before = fleet.dump()
    assert (
        "tier=front"
        in label(fleet, {"backup": "daily", "tier": None}, "--check", "--diff", name="web1")
        and fleet.dump() == before
    )
    output = label(fleet, {"backup": "daily", "tier": None}, "--diff", name="web1")
    assert "-web1: project=web,tier=front" in output and "+web1: backup=daily,project=web" in output
    host = fleet.where()["web1"][0]
    assert of_host(fleet, host, "web1") == ["backup=daily,project=web"] * 2
    assert "<drover:priority>3</drover:priority>" in fleet.run(host, "virsh dumpxml web1")
    assert "SUCCESS" in label(fleet, {"backup": "daily", "tier": None}, name="web1")
    output = fleet.place(file).stdout
    assert (
        "web1: labels backup=daily, project=web, the definition says project=web, tier=front."
        in output
    )

    # A live migration, selected by a label.
    destination = next(each for each in ("kvm1", "kvm2") if each != host)
    fleet.playbook(
        "instance_migrate",
        "-e",
        "drover_selector=backup=daily",
        "-e",
        f"drover_destination={destination}",
    )
    assert fleet.where()["web1"] == (destination, "running")
    assert of_host(fleet, destination, "web1") == ["backup=daily,project=web"] * 2

    # A new store reads them from the hosts.
    labels_before, fleet.store_url = of_store(fleet), f"sqlite:///{tmp_path / 'new.db'}"
    fleet.playbook("discover")
    assert (
        of_store(fleet)
        == labels_before
        == {
            "web1": {"backup": "daily", "project": "web"},
            "db1": {"project": "web", "tier": "db"},
            "bare": {},
        }
    )

    # Off and on again; a guest without our metadata; and a change by a selector.
    fleet.playbook(
        "instance_stop",
        "-e",
        "drover_selector=project=web,tier!=db",
        "-e",
        "drover_instance_force=true",
        "-e",
        "drover_instance_timeout=1",
    )
    assert {name: state for name, (dummy, state) in fleet.where().items()} == {
        "web1": "shutoff",
        "db1": "running",
        "bare": "running",
    }
    label(fleet, {"keep": "yes"}, selector="!project")
    fleet.playbook("instance_start", "-e", "drover_selector=backup")
    assert of_host(fleet, destination, "web1") == ["backup=daily,project=web"] * 2
    assert of_host(fleet, fleet.where()["bare"][0], "bare") == ["keep=yes"] * 2
    output = fleet.refused("instance_delete", "-e", "drover_selector=project")
    assert "-e drover_instances=db1,web1" in output and set(fleet.where()) == {
        "web1",
        "db1",
        "bare",
    }
