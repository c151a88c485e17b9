# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host that the controller does not reach, with guests that still write by iSCSI: the operator's
own tasks cut it off. They are the tasks of docs/storage-fence.md, unchanged."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

import pytest
from lablib import storage
from lablib.layout import CHECKOUT, SWITCH_ADDRESS, LabError
from lablib.storage import iscsi
from test_evacuate import AT_ONCE
from test_fleet import LOCAL, eventually, said
from test_storage_fence import Inside, cut_off

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        any(shutil.which(name) is None for name in iscsi.PROGRAMS),
        reason="tgt is not here: run tests/setup/setup.sh storage",
    ),
]

pytest_plugins = ["test_fleet"]

CUT_OFF = cut_off(iscsi.PORT)
#: The controller of the lab runs tgtadm, at this socket of the target.
SOCKET = "TGT_IPC_SOCKET"


class OnTarget:
    """A fleet with access to an iSCSI target, and the file with the tasks of its fence."""

    def __init__(self, fleet, tasks):
        self.fleet, self.target, self.tasks = fleet, iscsi.Target(fleet.lab.layout), tasks
        self.variables = {"drover_shared_pools": ["shared"], **AT_ONCE}

    def playbook(self, name, check=True, **variables):
        return self.fleet.playbook(
            name, "-e", json.dumps({**self.variables, **variables}), check=check
        )

    def fence(self, tasks=None):
        """Return the variables of the inventory in docs/storage-fence.md."""
        return {
            "drover_host": "kvm1",
            "drover_storage_fence": os.fspath(tasks or self.tasks),
            "drover_storage_addresses": [self.fleet.lab.layout.host("kvm1").address],
            "tgt_portal": SWITCH_ADDRESS,
            "tgt_target": f"1: {iscsi.TARGET}",
        }

    def disk(self, image):
        return {"source": self.target.source(image)}

    def content(self, image):
        """Return the first 64 KiB of an image."""
        with open(self.target.file(image), "rb") as file:
            return file.read(65536)

    def connected(self):
        """Return the addresses with a connection to the target."""
        return re.findall(
            r"IP Address: (\S+)", self.target.admin("--op", "show", "--mode", "target")
        )


def is_written(on_target, pattern):
    """Return True if the image of web has the pattern of a write. The target writes it soon after
    QEMU has begun."""
    return on_target.content("web-root") == bytes([pattern]) * 65536


def write(inside, name, pattern):
    """Write as the guest would. Without its storage QEMU waits without an end, and the test does
    not wait for QEMU."""
    block = (
        'qemu-io -d /machine/peripheral/ua-drover-attached-source-vda/virtio-backend "write -P'
        f' {pattern} 0 64k"'
    )
    with contextlib.suppress(subprocess.TimeoutExpired):
        inside.run(
            "timeout",
            "--signal=KILL",
            "5",
            "virsh",
            "qemu-monitor-command",
            name,
            "--hmp",
            block,
            check=False,
        )


@pytest.fixture(scope="module")
def server(own_lab):
    own_lab.command("up", "--with", "iscsi")
    return own_lab


@pytest.fixture
def on_target(server, fleet, tmp_path, monkeypatch):
    storage.up(fleet.lab.layout, ["iscsi"])
    blocks = re.findall(
        r"^```yaml\n(# /etc/drover/fence_tgt\.yml\n.*?)^```$",
        (CHECKOUT / "docs/storage-fence.md").read_text(),
        re.M | re.S,
    )
    assert len(blocks) == 1
    tasks = tmp_path / "fence_tgt.yml"
    tasks.write_text(blocks[0])
    target_storage = OnTarget(fleet, tasks)
    with tempfile.TemporaryDirectory(prefix="tgt") as folder:
        # The name of a socket must be short.
        link = pathlib.Path(folder) / "lab"
        link.symlink_to(fleet.lab.layout.folder / iscsi.NAME)
        monkeypatch.setenv(SOCKET, os.fspath(link / "socket"))
        yield target_storage
    fleet.lab.command("kill", "kvm1", check=False)
    fleet.lab.command("start", "kvm1")
    fleet.everywhere(
        "for each in $(virsh list --all --name); do virsh destroy $each; virsh undefine $each;"
        " done; true"
    )
    with contextlib.suppress(LabError):
        # After a test that failed half-way the host is still cut off.
        target_storage.target.admin(
            "--op",
            "bind",
            "--mode",
            "target",
            "--tid",
            "1",
            "-I",
            fleet.lab.layout.host("kvm1").address,
        )
    storage.up(fleet.lab.layout, ["iscsi"])


def test_a_host_that_still_writes_is_shut_out_and_let_in_again(on_target):
    fleet, target = on_target.fleet, on_target.target
    address = fleet.lab.layout.host("kvm1").address
    for name in ("web-root", "mixed-root"):
        target.make(name, 1)
    on_target.playbook("discover")
    there = {"memory_mb": 64, "requested_destination": {"host": "kvm1"}}
    local = {"size_gb": 1, "path": f"{LOCAL}/mixed.qcow2"}
    web = {"name": "web", "disks": [on_target.disk("web-root")], **there}
    mixed = {"name": "mixed", "disks": [on_target.disk("mixed-root"), local], **there}
    fleet.place([web, mixed], **on_target.variables)
    assert fleet.settled() == dict.fromkeys(("web", "mixed"), ("kvm1", "running"))
    inside = Inside(fleet, "kvm1")
    write(inside, "web", 1)
    eventually(lambda: is_written(on_target, 1))

    for rule in CUT_OFF:
        inside.run("ip", *rule.split())
    fleet.playbook(
        "discover", "-e", json.dumps(on_target.variables), "--limit", "kvm1,localhost", check=False
    )
    write(inside, "web", 2)
    # Its guest still writes.
    eventually(lambda: is_written(on_target, 2))

    # Tasks that do not verify prove nothing, for any output of the cut.
    whole = on_target.tasks.read_text()
    for text, sentence in (
        ("- ansible.builtin.meta: noop\n", "cut off from no disk"),
        (
            (
                "- ansible.builtin.set_fact: {evacuate_fence_cut: '{{ evacuate_fence_disks }}'}\n "
                " when: evacuate_fence_action == 'cut'\n"
            ),
            "from no disk",
        ),
        (
            "- ansible.builtin.set_fact: {evacuate_fence_cut: ['nfs:filer:/x']}\n",
            "none of the disks that they were given",
        ),
        (
            (
                "- ansible.builtin.fail: {msg: the filer is down}\n  when: evacuate_fence_action =="
                " 'verify'\n"
            ),
            "the filer is down",
        ),
    ):
        on_target.tasks.write_text(text)
        refused = on_target.playbook("evacuate", check=False, **on_target.fence())
        assert refused.returncode != 0 and sentence in said(refused), said(refused)
        assert fleet.where(["kvm2", "kvm3"]) == {}, text
    on_target.tasks.write_text(whole)

    # A run that dies after the cut has started nothing, and the next run cuts and verifies again.
    run = fleet.start("evacuate", "-e", json.dumps({**on_target.variables, **on_target.fence()}))
    run.until("kvm1 is cut off from its storage: iscsi:")
    run.kill()
    assert fleet.where(["kvm2", "kvm3"]) == {} and address not in on_target.connected()
    write(inside, "web", 3)
    time.sleep(3)
    assert is_written(on_target, 2)
    done = on_target.playbook("evacuate", check=False, **on_target.fence())
    there, state = fleet.where(["kvm2", "kvm3"])["web"]
    assert state == "running" and set(fleet.where(["kvm2", "kvm3"])) == {"web"}, said(done)
    assert f"mixed: its disk {LOCAL}/mixed.qcow2 is on the dead host alone" in said(done), said(
        done
    )
    assert is_written(on_target, 2) and address not in on_target.connected()
    write(Inside(fleet, there), "web", 4)
    eventually(lambda: is_written(on_target, 4))

    # The network is back, and the guest still runs there.
    for rule in reversed(CUT_OFF):
        inside.run("ip", *rule.replace("add", "del", 1).split())
    on_target.playbook("discover", check=False)
    refused = on_target.playbook("undrain", check=False, **on_target.fence())
    stays = f"kvm1 stays shut out of its storage: web (now on {there}) still runs there"
    assert refused.returncode != 0 and stays in said(refused), said(refused)
    write(inside, "web", 5)
    time.sleep(3)
    assert is_written(on_target, 4)

    # The host stays cut off while the lift fails.
    inside.run("virsh", "destroy", "web")
    on_target.playbook("discover")
    on_target.tasks.write_text(
        "- ansible.builtin.fail: {msg: the filer is down}\n  when: evacuate_fence_action =="
        " 'lift'\n"
    )
    refused = on_target.playbook("undrain", check=False, **on_target.fence())
    assert (
        refused.returncode != 0
        and "the filer is down" in said(refused)
        and "has its storage again" not in said(refused)
    )
    assert address not in target.admin("--op", "show", "--mode", "target")
    on_target.tasks.write_text(whole)
    done = on_target.playbook("undrain", **on_target.fence())
    assert "kvm1 has its storage again" in said(done), said(done)
    assert address in target.admin("--op", "show", "--mode", "target")
    assert fleet.where()["web"] == (there, "running") and is_written(on_target, 4)
    # The host is a destination again.
    on_target.playbook("drain", drover_host=there)
    assert fleet.settled()["web"][0] != there
