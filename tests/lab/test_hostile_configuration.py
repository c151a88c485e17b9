# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of Ansible that change plays, with hypervisors: place, drain and undrain work as
usual.
"""

from __future__ import annotations

import pytest
from test_fleet import Domain, said

pytest_plugins = ["test_fleet"]

#: The settings of tests/properties/playbooks/test_hostile_configuration.py.
HOSTILE = {
    "ANSIBLE_STRATEGY": "free",
    "ANSIBLE_GATHERING": "implicit",
    "ANSIBLE_ANY_ERRORS_FATAL": "true",
    "ANSIBLE_TASK_TIMEOUT": "3",
    "ANSIBLE_ENABLE_TASK_DEBUGGER": "true",
    "ANSIBLE_FORKS": "1",
    "ANSIBLE_HASH_BEHAVIOUR": "merge",
    "ANSIBLE_PRIVATE_ROLE_VARS": "true",
    "ANSIBLE_INJECT_FACT_VARS": "false",
    "ANSIBLE_FORCE_HANDLERS": "true",
}


@pytest.fixture
def hostile(fleet, monkeypatch):
    for name, value in HOSTILE.items():
        monkeypatch.setenv(name, value)
    return fleet


@pytest.mark.long
def test_f17_place_drain_and_undrain_under_a_hostile_configuration(hostile):
    fleet = hostile
    definitions = [{"name": f"fr{n}", "memory_mb": 64, "disks": [{"size_gb": 1}]} for n in range(4)]
    # One instance cannot be built: this ends none of the others.
    definitions.append(
        {
            "name": "lost",
            "memory_mb": 64,
            "disks": [{"size_gb": 1, "image": "/srv/shared/no-such-image.qcow2"}],
        }
    )
    done = fleet.place(definitions, check=False)
    assert done.returncode == 2 and "add_host" not in said(done), said(done)
    where = fleet.settled()
    assert {name: state for name, (dummy, state) in where.items()} == {
        f"fr{n}": "running" for n in range(4)
    }
    assert fleet.query("SELECT name FROM leases") == []

    host = where["fr0"][0]
    fleet.make(host, Domain("more", memory_mb=64))
    fleet.playbook("discover")
    fleet.drain(host)
    after = fleet.settled()
    assert not any(place == host for place, dummy in after.values()) and {
        state for dummy, state in after.values()
    } == {"running"}
    fleet.playbook("undrain", "-e", f"drover_host={host}")
    assert not fleet.service(host)["disabled"]
