# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with QEMU at the path of RHEL, with hosts that have QEMU at the path of Debian; labels of
a security driver that no host has."""

from __future__ import annotations

import json

import pytest
from test_evacuate import AT_ONCE, SHARED_POOL
from test_fleet import Domain, said

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long

RHEL = "/usr/libexec/qemu-kvm"
PLAIN, STATIC = (
    "<seclabel type='dynamic' model='selinux' relabel='yes'/>",
    (
        "<seclabel type='static' model='selinux'"
        " relabel='no'><label>system_u:system_r:svirt_t:s0:c392,c662</label></seclabel>"
    ),
)


@pytest.fixture
def like_rhel(fleet):
    """Give kvm1 a QEMU at a path that the others do not have, in a folder that only kvm1 sees."""
    fleet.run(
        "kvm1", f"mount -t tmpfs none /usr/libexec && ln -s /usr/bin/qemu-system-x86_64 {RHEL}"
    )
    yield fleet
    fleet.run("kvm1", "umount -l /usr/libexec || true")


def edited(fleet, host, name, command):
    """Change the definition of a domain that is shut off."""
    fleet.run(
        host,
        f"virsh dumpxml --inactive {name} > /root/{name}.xml && {command} /root/{name}.xml && virsh"
        f" define /root/{name}.xml",
    )


def emulators(fleet, host, name):
    return fleet.run(
        host, f"(virsh dumpxml {name}; virsh dumpxml --inactive {name}) | grep -o '<emulator>[^<]*'"
    ).split()


def test_a_domain_gets_the_qemu_of_its_host(like_rhel):
    fleet = like_rhel
    fleet.make("kvm1", Domain("web", state="shutoff"), Domain("off", state="shutoff"))
    for name in ("web", "off"):
        edited(
            fleet, "kvm1", name, f"sed -i 's#<emulator>.*</emulator>#<emulator>{RHEL}</emulator>#'"
        )
    fleet.run("kvm1", "virsh start web")
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
    assert set(emulators(fleet, "kvm1", "web")) == {f"<emulator>{RHEL}"}
    for name in ("web", "off"):
        fleet.playbook(
            "instance_migrate", "-e", f"drover_instance={name}", "-e", "drover_destination=kvm2"
        )
    assert {name: fleet.settled()[name] for name in ("web", "off")} == {
        "web": ("kvm2", "running"),
        "off": ("kvm2", "shutoff"),
    }
    for name in ("web", "off"):
        assert set(emulators(fleet, "kvm2", name)) == {"<emulator>/usr/bin/qemu-system-x86_64"}
    fleet.playbook("instance_migrate", "-e", "drover_instance=web", "-e", "drover_destination=kvm1")
    assert fleet.settled()["web"] == ("kvm1", "running")


def test_an_evacuation_starts_it_with_the_qemu_of_its_new_host(like_rhel):
    fleet = like_rhel
    fleet.make("kvm1", Domain("web", state="shutoff"), Domain("label", state="shutoff"))
    edited(fleet, "kvm1", "web", f"sed -i 's#<emulator>.*</emulator>#<emulator>{RHEL}</emulator>#'")
    fleet.run("kvm1", "virsh start web && virsh start label")
    edited(fleet, "kvm1", "label", f'sed -i "s#</domain>#{PLAIN}</domain>#"')
    fleet.playbook("discover", "-e", json.dumps(SHARED_POOL))
    fleet.lab.command("kill", "kvm1")
    fleet.playbook(
        "discover", "-e", json.dumps(SHARED_POOL), "--limit", "kvm1,localhost", check=False
    )
    words = {
        "drover_host": "kvm1",
        "drover_host_is_off": "kvm1 is powered off",
        **SHARED_POOL,
        **AT_ONCE,
    }
    done = fleet.playbook("evacuate", "-e", json.dumps(words), check=False)
    found = fleet.where(["kvm2", "kvm3"])
    assert {name: state for name, (dummy, state) in found.items()} == {
        "web": "running",
        "label": "running",
    }, said(done)
    fleet.lab.command("start", "kvm1")
    fleet.run("kvm1", "virsh undefine web; virsh undefine label")


def test_a_label_that_somebody_gave_is_refused_without_its_driver(fleet):
    fleet.make("kvm1", Domain("web", state="shutoff"))
    edited(fleet, "kvm1", "web", f'sed -i "s#</domain>#{STATIC}</domain>#"')
    fleet.playbook("discover")
    refused = fleet.playbook(
        "instance_migrate",
        "-e",
        "drover_instance=web",
        "-e",
        "drover_destination=kvm2",
        check=False,
    )
    assert (
        refused.returncode != 0
        and "it has a label of selinux of its own, and libvirt of kvm2 works without selinux"
        in said(refused)
    )
    assert fleet.settled() == {"web": ("kvm1", "shutoff")}
