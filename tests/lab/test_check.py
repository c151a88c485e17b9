# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.check on hosts without things that guests of other hosts use."""

from __future__ import annotations

import pytest
from test_fleet import Domain, changed, said

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long

NETWORK = "<network><name>lan</name><forward mode='bridge'/><bridge name='lo'/></network>"


def test_what_will_not_work_later(fleet):
    fleet.make("kvm1", Domain("web"))
    done = fleet.playbook("check")
    assert "errors: 0" in said(done) or "nothing was found" in said(done), said(done)
    assert "3 hosts checked" in said(done) and changed(done) == 0

    # The first host is not reached: the others are still checked.
    done = fleet.playbook(
        "check",
        "-e",
        "ansible_host={{ 'nowhere.invalid' if inventory_hostname == 'kvm1' else"
        " inventory_hostname }}",
        check=False,
    )
    assert "error kvm1: it was not read: " in said(done) and "3 hosts checked: errors: 1" in said(
        done
    ), said(done)

    # A guest that is off uses a network that the other hosts do not have, and a pool that does not
    # exist.
    fleet.run(
        "kvm1",
        f'echo "{NETWORK}" > /root/lan.xml && virsh net-define /root/lan.xml && virsh'
        " net-start lan",
    )
    fleet.run(
        "kvm1", "virsh shutdown web || virsh destroy web; virsh destroy web 2>/dev/null; true"
    )
    fleet.run("kvm1", "virsh attach-interface web network lan --config")
    fleet.run(
        "kvm3",
        "mv /root/.ssh/known_hosts /root/.ssh/kept 2>/dev/null; mv /etc/ssh/ssh_known_hosts"
        " /root/kept_hosts; true",
    )
    try:
        done = fleet.playbook("check", check=False)
        seen = said(done)
        assert (
            "it lacks the network lan, which web uses" in seen
            and "kvm2, kvm3: it lacks the network lan" in seen
        ), seen
        assert "kvm3 cannot reach kvm1, kvm2: host key unknown or changed." in seen, seen
        assert "The check found errors: 1." in done.stdout + done.stderr and done.returncode == 2
    finally:
        fleet.run(
            "kvm3",
            "mv /root/.ssh/kept /root/.ssh/known_hosts 2>/dev/null; mv /root/kept_hosts"
            " /etc/ssh/ssh_known_hosts; true",
        )
        fleet.run(
            "kvm1",
            "virsh detach-interface web network --config; virsh net-destroy lan; virsh net-undefine"
            " lan; true",
        )
    # The commands in the messages work.
    assert "lan" not in said(fleet.playbook("check"))
