# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest with Linux and QEMU's agent, which writes to an ext4 file system without a pause: the
content of its snapshots.

A file system that was frozen needs no recovery, and has all writes. tests/lab/agent_guest.sh makes
the guest.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import uuid

import pytest
from lablib.layout import CHECKOUT
from test_fleet import SHARED, eventually, said
from test_snapshot import active, snapshot

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

FILES = pathlib.Path(os.environ.get("DROVER_AGENT_GUEST") or CHECKOUT / ".cache" / "agent-guest")
DISK, LOG = f"{SHARED}/web.raw", "/var/log/agent-guest.log"
CHANNEL = "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
XML = """<domain type='qemu'><name>web</name><uuid>{uuid}</uuid><memory unit='MiB'>192</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type><kernel>{folder}/vmlinuz</kernel><initrd>{folder}/initrd</initrd>
<cmdline>console=ttyS0 quiet</cmdline></os><features><acpi/></features><on_poweroff>destroy</on_poweroff><on_crash>destroy</on_crash>
<devices><disk type='file' device='disk'><driver name='qemu' type='raw' cache='none'/><source file='{disk}'/><target dev='vda' bus='virtio'/></disk>
{channel}<serial type='file'><source path='{log}'/><target port='0'/></serial></devices></domain>"""


def start(fleet, channel=CHANNEL):
    """Start the guest, and wait until it writes."""
    if not (FILES / "vmlinuz").exists():
        pytest.skip(
            "There is no guest with an agent on this machine. Make one once with"
            " tests/lab/agent_guest.sh."
        )
    fleet.run("kvm1", f"mkdir -p {SHARED} && truncate -s 32M {DISK} && mkfs.ext4 -q -F {DISK}")
    for name in ("vmlinuz", "initrd"):
        shutil.copyfile(FILES / name, fleet.lab.layout.shared / "instances" / name)
    text = XML.format(uuid=uuid.uuid4(), folder=SHARED, disk=DISK, log=LOG, channel=channel)
    fleet.run("kvm1", f"rm -f {LOG}; virsh define /dev/stdin <<'END'\n{text}\nEND\nvirsh start web")
    eventually(lambda: "agent guest: ready" in fleet.run("kvm1", f"cat {LOG} || true"))
    fleet.playbook("discover")


def agent(fleet, order, host="kvm1"):
    return fleet.run(host, f'virsh qemu-agent-command web \'{{"execute":"{order}"}}\'')


@pytest.fixture
def web(fleet):
    """Return the guest, with an agent that answers."""
    start(fleet)
    eventually(lambda: "connected" in fleet.run("kvm1", "virsh dumpxml web | grep guest_agent"))
    agent(fleet, "guest-ping")


def is_closed(fleet, path, host="kvm1"):
    """Return True if a file system without writers needs no recovery."""
    features = fleet.run(host, f"dumpe2fs -h {path} 2>/dev/null | grep -i features")
    assert "has_journal" in features
    return "needs_recovery" not in features


def number(fleet, path, host="kvm1"):
    """Return the last number that the guest had written."""
    return int(fleet.run(host, f"debugfs -R 'cat /number' {path} 2>/dev/null") or 0)


def writes(fleet, host="kvm1"):
    """Check that the guest writes to its disk."""
    count = "virsh domblkstat web vda | grep wr_req"
    before = fleet.run(host, count)
    eventually(lambda: fleet.run(host, count) != before)


def test_quiesced(fleet, web):
    text = said(snapshot(fleet, "present", "one"))
    assert "quiesced" in text and "crash-consistent" not in text, text
    assert is_closed(fleet, DISK) and number(fleet, DISK) > 1
    assert "thawed" in agent(fleet, "guest-fsfreeze-status")
    writes(fleet)
    # On another host its agent has another socket.
    fleet.playbook(
        "instance_migrate", "-e", '{"drover_instance": "web", "drover_destination": "kvm2"}'
    )
    top = active(fleet, host="kvm2")
    before = number(fleet, DISK)
    eventually(lambda: "connected" in fleet.run("kvm2", "virsh dumpxml web | grep guest_agent"))
    text = said(snapshot(fleet, "present", "two"))
    assert "quiesced" in text, text
    fleet.run("kvm2", f"qemu-img convert -U -O raw {top} {SHARED}/seen.raw")
    assert is_closed(fleet, f"{SHARED}/seen.raw") and number(fleet, f"{SHARED}/seen.raw") > before
    assert "thawed" in agent(fleet, "guest-fsfreeze-status", "kvm2")
    writes(fleet, "kvm2")


def test_without_an_agent_as_after_a_loss_of_power(fleet):
    start(fleet, channel="")
    text = said(snapshot(fleet, "present", "one"))
    assert (
        "crash-consistent, as after a loss of power: the guest has no agent (qemu-guest-agent) that"
        " answers" in text
    ), text
    assert not is_closed(fleet, DISK)
    writes(fleet)


def test_an_agent_that_cannot_freeze(fleet, web):
    """Another program has frozen the file systems: the agent refuses to freeze them again, and the
    module does not thaw them."""
    agent(fleet, "guest-fsfreeze-freeze")
    text = said(snapshot(fleet, "present", "one"))
    assert "crash-consistent, as after a loss of power: " in text, text
    assert "frozen" in agent(fleet, "guest-fsfreeze-status")
    agent(fleet, "guest-fsfreeze-thaw")
    writes(fleet)
