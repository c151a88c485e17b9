# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changes by hand to pinned guests with an open resize: no guest is lost, and errors are named."""

from __future__ import annotations

import pytest
from test_pinned_guests import OFF, SETS, cut_off, guest, next_pins, pins, shape, variables

pytest_plugins = ["test_fleet"]
pytestmark = pytest.mark.long


@pytest.fixture
def small(fleet):
    """Make a pinned guest on kvm1."""
    fleet.playbook("discover", *variables(SETS))
    fleet.place([{**guest("small"), "requested_destination": {"host": "kvm1"}}], **SETS)
    return fleet


def resize(fleet, **more):
    return variables({**OFF, **more})


@pytest.mark.parametrize("host", ["kvm1", "kvm2"])
def test_undefined_while_it_runs(small, host):
    """The guest would disappear with its shutdown."""
    size = (
        {"drover_memory_mb": 128}
        if host == "kvm1"
        else {"drover_vcpus": 2, "drover_destination": "kvm2"}
    )
    small.playbook("instance_resize", *resize(small, **size))
    xml = small.run(
        host, "virsh dumpxml small --inactive > /srv/shared/small.xml; virsh undefine small"
    )
    assert "undefined" in xml
    refusal = small.refused("instance_resize", *resize(small, drover_resize="revert"))
    assert "small" in refusal and small.where()["small"] == (host, "running"), refusal
    # Its size can stay; it has no size for a next start.
    done = small.playbook("instance_resize", *resize(small, drover_resize="confirm"), check=False)
    print(done.stdout)
    assert "Traceback" not in done.stdout and small.where()["small"] == (host, "running")
    refusal = small.refused("instance_resize", *resize(small, drover_memory_mb=96))
    assert small.where()["small"] == (host, "running"), refusal
    refusal = small.refused(
        "instance_migrate",
        *variables({**OFF, "drover_destination": "kvm3", "drover_migrate_cold": True}),
    )
    assert small.where()["small"] == (host, "running"), refusal
    small.run(host, "virsh define /srv/shared/small.xml")
    small.playbook("discover", *variables(SETS))
    small.playbook("instance_resize", *resize(small, drover_resize="confirm"), check=False)
    small.playbook("audit", *variables(SETS))


@pytest.mark.parametrize("ending", ["again", "revert", "back"])
def test_pinned_to_the_cpu_of_another_while_it_is_cut_off(small, ending):
    cut_off(small, drover_vcpus=2)
    small.playbook("discover", *variables(SETS))
    small.place([{**guest("other"), "requested_destination": {"host": "kvm1"}}], **SETS)
    # The pins are like the pins of a destination.
    small.run("kvm1", "virsh vcpupin small 0 1 --config; virsh emulatorpin small 1 --config")
    small.playbook("discover", *variables(SETS))
    assert pins(small, "other") == ("kvm1", "1", "1")
    done = small.playbook("audit", *variables(SETS), check=False)
    assert "pins_unclaimed" in done.stdout and "CPU 1 is claimed for other" in done.stdout
    if ending == "back":
        # The resize does not continue; it is undone.
        small.run(
            "kvm1",
            "virsh vcpupin small 0 0 --config; virsh emulatorpin small 0 --config; virsh start"
            " small",
        )
        small.playbook("discover", *variables(SETS))
        small.playbook("audit", *variables(SETS))
    small.playbook("instance_resize", *resize(small, drover_vcpus=2, drover_destination="kvm2"))
    assert (small.where()["small"], shape(small, "small")) == (
        ("kvm2", "running"),
        (2, 64, ["0", "1"]),
    )
    if ending == "revert":
        small.playbook("instance_resize", *resize(small, drover_resize="revert"))
        assert (small.where()["small"], shape(small, "small"), next_pins(small, "kvm1")) == (
            ("kvm1", "running"),
            (1, 64, ["0"]),
            ["0"],
        )
    else:
        small.playbook("instance_resize", *resize(small, drover_resize="confirm"))
    small.playbook("discover", *variables(SETS))
    done = small.playbook("audit", *variables({**SETS, "drover_audit_strict": True}))
    assert "checked: consistent." in done.stdout
    assert pins(small, "other") == ("kvm1", "1", "1")


def test_a_name_of_240_bytes(small):
    name = "é" * 120
    small.place([{**guest(name), "requested_destination": {"host": "kvm2"}}], **SETS)
    assert small.where()[name] == ("kvm2", "running")
