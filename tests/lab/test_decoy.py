# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller has a libvirt with a guest of the name and uuid of an instance: a decoy.

No playbook touches it or uses its data, and the inventory sets no ``ansible_connection``. The decoy
is a real libvirtd with a real guest, in mounts that only it and the playbooks of these tests see:
the libvirt of this machine is not touched.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import time

import pytest
from lablib import layout as lab_layout
from test_evacuate import SHARED_POOL
from test_fleet import DOMAIN, SHARED, Domain, said

pytest_plugins = ["test_fleet"]

#: Its files are below $1. It keeps the mounts until its standard input closes.
START = r"""
set -e
umask 022
for folder in etc/libvirt var/lib/libvirt var/log/libvirt var/cache/libvirt; do
    mkdir -p "$1/$folder" "/$folder"
    mount --bind "$1/$folder" "/$folder"
done
mkdir "$1/etc/libvirt/qemu" "$1/run"
# libvirt looks for the account of its package, whatever its settings say.
for file in passwd group; do cp "/etc/$file" "$1/etc/"; done
grep -q ^libvirt-qemu: /etc/passwd || echo libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin >> "$1/etc/passwd"
for group in kvm:x:64053: libvirt:x:64054: libvirt-qemu:x:64055:; do
    grep -q "^${group%%:*}:" /etc/group || echo "$group" >> "$1/etc/group"
done
for file in passwd group; do mount --bind "$1/etc/$file" "/etc/$file"; done
mount --bind "$1/run" /run
if [ -e /dev/kvm ]; then touch /run/no-kvm; mount --bind /run/no-kvm /dev/kvm; mount -o remount,bind,ro /dev/kvm; fi
cat > /etc/libvirt/qemu.conf <<'END'
user = "root"
group = "root"
swtpm_user = "root"
swtpm_group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
END
cat > /etc/libvirt/libvirtd.conf <<'END'
unix_sock_group = "root"
auth_unix_ro = "none"
auth_unix_rw = "none"
END
/usr/sbin/libvirtd >"$1/libvirtd.log" 2>&1 &
daemon=$!
echo $$
read -r _end || true
virsh -q -c qemu:///system list --name | while read -r name; do [ -z "$name" ] || virsh -q -c qemu:///system destroy "$name"; done
kill "$daemon"
wait "$daemon" || true
"""


class Decoy:
    """A libvirt of the controller, and playbooks that see it as the controller's libvirt."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.root = lab_layout.as_root()
        self.process = subprocess.Popen(
            [
                *self.root,
                "unshare",
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                START,
                "sh",
                os.fspath(folder),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self.process.stdout.readline().strip()
        deadline = time.monotonic() + 60
        while subprocess.run(
            self.words("virsh", "-q", "-c", "qemu:///system", "uri"),
            capture_output=True,
            check=False,
        ).returncode:
            assert time.monotonic() < deadline, "the libvirt of the controller does not answer"
            time.sleep(0.2)

    def words(self, *words: str, environment: dict[str, str] | None = None) -> list[str]:
        assignments = [f"{name}={value}" for name, value in (environment or {}).items()]
        return [
            *self.root,
            "nsenter",
            f"--target={self.pid}",
            "--mount",
            "--root",
            f"--wd={os.getcwd()}",
            "env",
            *assignments,
            *words,
        ]

    def virsh(self, *words: str, text: str | None = None) -> str:
        command = self.words("virsh", "-q", "-c", "qemu:///system", *words)
        return subprocess.run(
            command, input=text, capture_output=True, text=True, check=True
        ).stdout

    def state(self) -> list[str]:
        """Return everything that a playbook could change: the guests with their process ids, and
        their definitions."""
        names = [name for name in self.virsh("list", "--all", "--name").split() if name]
        found = [self.virsh("list", "--all"), self.virsh("pool-list", "--all")]
        return found + [
            self.virsh(*command, name)
            for name in names
            for command in (("dumpxml",), ("dumpxml", "--inactive"))
        ]

    def end(self) -> None:
        self.process.communicate("")


@pytest.fixture
def decoy(tmp_path):
    folder = tmp_path / "decoy"
    folder.mkdir()
    found = Decoy(folder)
    yield found
    found.end()


@pytest.fixture
def controlled(fleet, decoy, monkeypatch):
    """Return the fleet; its playbooks see the decoy as the controller's libvirt, and each must
    leave the decoy unchanged."""
    run = subprocess.run

    def there(words, env=None, **rest):
        if words[0] != "ansible-playbook":
            return run(words, env=env, **rest)
        program = shutil.which("ansible-playbook", path=env["PATH"])
        return run(decoy.words(program, *words[1:], environment=env), env=env, **rest)

    monkeypatch.setattr(subprocess, "run", there)
    return fleet


def guest(decoy, name, uuid):
    """Return a running guest of the controller's libvirt."""
    xml = DOMAIN.format(name=name, uuid=uuid, metadata="", memory_mb=64, vcpus=1, disks="")
    decoy.virsh("define", "/dev/stdin", text=xml)
    decoy.virsh("start", name)


def outcome(done):
    assert done.returncode == 0, done.stdout + done.stderr
    return said(done)


@pytest.mark.long
def test_no_playbook_touches_or_believes_the_libvirt_of_the_controller(controlled, decoy):
    fleet = controlled
    inventory = json.loads(
        (fleet.lab.layout.folder / "inventory.yml").read_text().split("\n", 1)[1]
    )
    assert "ansible_connection" not in json.dumps(inventory)
    web = Domain("web1", boots=True)
    fleet.make("kvm1", web, Domain("db1", boots=True, state="shutoff"))
    for domain in (web, Domain("db1", disks=0)):
        guest(decoy, domain.name, domain.uuid)
    before = decoy.state()
    steps = [
        ("discover", {}),
        ("check", {}),
        ("drain", {"drover_host": "kvm1"}),
        ("undrain", {"drover_host": "kvm1"}),
        ("instance_migrate", {"drover_instance": "web1", "drover_destination": "kvm1"}),
        ("instance_stop", {"drover_instance": "web1"}),
        ("instance_start", {"drover_instance": "web1"}),
        ("instance_reboot", {"drover_instance": "web1"}),
        ("instance_resize", {"drover_instance": "web1", "drover_vcpus": 2}),
        ("instance_resize", {"drover_instance": "web1", "drover_resize": "confirm"}),
        (
            "instance_snapshot",
            {
                "drover_instance": "web1",
                "drover_snapshot_name": "one",
                "drover_snapshot_state": "present",
            },
        ),
        (
            "instance_snapshot",
            {
                "drover_instance": "web1",
                "drover_snapshot_name": "one",
                "drover_snapshot_state": "absent",
            },
        ),
        (
            "instance_disk",
            {
                "drover_instance": "web1",
                "drover_disk_path": f"{SHARED}/decoy-data.qcow2",
                "drover_disk_gb": 1,
            },
        ),
        ("host_disable", {"drover_host": "kvm3"}),
        ("host_enable", {"drover_host": "kvm3"}),
        ("rolling_maintenance", {"drover_rolling_reboot": "never"}),
        ("rebalance", {}),
        ("image_cache_clean", {}),
        ("audit", {}),
    ]
    for name, variables in steps:
        done = fleet.playbook(name, "-e", json.dumps({**variables, **SHARED_POOL}), check=False)
        assert decoy.state() == before, (
            f"{name} touched the libvirt of the controller:\n{done.stdout}{done.stderr}"
        )
        assert "LOCAL CONNECTION" not in done.stdout and "not the host" not in done.stdout
        outcome(done)
    # The store and the hosts agree, and the decoy's guests are not among them.
    settled = fleet.settled()
    assert sorted(settled) == ["db1", "web1"] and settled["web1"][1] == "running"
    host = settled["web1"][0]
    fleet.lab.command("kill", host)
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL), check=False)
    word = {**SHARED_POOL, "drover_host": host, "drover_host_is_off": f"{host} is powered off"}
    done = fleet.playbook("evacuate", "-e", json.dumps(word), check=False)
    assert decoy.state() == before, said(done)
    outcome(done)
    place, state = fleet.where([each for each in fleet.hosts if each != host])["web1"]
    assert place != host and state == "running"


def test_a_task_that_runs_on_the_controller_all_the_same_is_refused(controlled, decoy, tmp_path):
    """The test reverts the repair: each delegated task has a connection to the controller. The
    identity of the machine refuses it."""
    fleet = controlled
    web = Domain("web1", boots=True)
    fleet.make("kvm1", web)
    fleet.playbook("discover")
    guest(decoy, "web1", web.uuid)
    before = decoy.state()
    collections = tmp_path / "collections"
    shutil.copytree(fleet.lab.layout.folder / "collections", collections)
    file = (
        collections
        / "ansible_collections/drover/compute/plugins/plugin_utils/_ansible_border/delegation.py"
    )
    line = "task.connection = _connection_of(self._action)"
    assert line in file.read_text()
    file.write_text(file.read_text().replace(line, 'task.connection = "local"'))
    environment = fleet.lab.environment
    fleet.lab.environment = lambda url=None: {
        **environment(url),
        "ANSIBLE_COLLECTIONS_PATH": os.fspath(collections),
    }
    try:
        for name, variables in (
            ("drain", {"drover_host": "kvm1"}),
            (
                "instance_stop",
                {
                    "drover_instance": "web1",
                    "drover_instance_force": True,
                    "drover_instance_timeout": 1,
                },
            ),
            (
                "instance_delete",
                {
                    "drover_instance": "web1",
                    "drover_instance_force": True,
                    "drover_instance_timeout": 1,
                },
            ),
            ("instance_migrate", {"drover_instance": "web1", "drover_destination": "kvm2"}),
        ):
            refused = fleet.refused(name, "-e", json.dumps(variables))
            assert "this is not kvm1, but another machine" in refused, refused
            assert decoy.state() == before, f"{name} touched the libvirt of the controller"
    finally:
        fleet.lab.environment = environment
    assert fleet.where() == {"web1": ("kvm1", "running")}
    # The move is open, because its host has not answered; with the repair it continues.
    outcome(
        fleet.playbook(
            "instance_migrate",
            "-e",
            json.dumps({"drover_instance": "web1", "drover_destination": "kvm2"}),
        )
    )
    assert fleet.settled() == {"web1": ("kvm2", "running")} and decoy.state() == before
