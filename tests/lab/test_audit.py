# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""drover.compute.audit: changes that the store does not know are found, and no domain is ever
touched."""

from __future__ import annotations

import dataclasses
import re

import pytest
import sqlalchemy as sa
from test_fleet import Domain, changed

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]


def lines(done, kind):
    """Return the lines that begin with a kind of finding."""
    return [line for line in done.stdout.splitlines() if re.match(rf"{kind} ", line)]


def execute(fleet, statement, **values):
    engine = sa.create_engine(fleet.store_url)
    try:
        with engine.begin() as connection:
            connection.execute(sa.text(statement), values)
    finally:
        engine.dispose()


def test_what_was_done_behind_its_back(empty_fleet):
    fleet = empty_fleet
    lost = Domain("lost", vcpus=2)
    twice = Domain("twice", state="shutoff")
    fleet.make("kvm1", lost, twice, Domain("quiet", state="paused"))
    fleet.playbook("discover")
    done = fleet.playbook("audit")
    assert changed(done) == 0 and "checked: consistent." in done.stdout

    # A person defines a domain of the fleet on a second host too, and deletes a row of the store.
    fleet.run("kvm1", "rm -f /srv/shared/instances/twice-0.qcow2")
    fleet.make("kvm2", dataclasses.replace(twice))
    fleet.playbook("discover")
    execute(
        fleet,
        "DELETE FROM allocations WHERE consumer_id = (SELECT id FROM consumers WHERE uuid = :uuid)",
        uuid=lost.uuid,
    )
    before, rows = fleet.look(), fleet.dump()

    done = fleet.playbook("audit")
    assert changed(done) == 0 and fleet.dump() == rows
    assert re.search(
        r"twice +kvm1, kvm2 +One domain is on several hosts", lines(done, "domain_doubled")[0]
    )
    assert (
        "lost" in lines(done, "allocation_missing")[0] and len(lines(done, "use_miscounted")) == 3
    )
    assert "no heal touches a domain that is on two hosts" in " ".join(done.stdout.split())
    assert "problems: " in fleet.refused("audit", "-e", "drover_audit_strict=true")
    done = fleet.playbook("audit", "-e", "drover_audit_heal=true", "--check")
    assert changed(done) == 1 and fleet.dump() == rows

    done = fleet.playbook("audit", "-e", "drover_audit_heal=true")
    assert changed(done) == 1
    assert fleet.booked()["lost"] == {"kvm1": {"VCPU": 2, "MEMORY_MB": 64, "DISK_GB": 1}}
    done = fleet.playbook("audit", "-e", "drover_audit_heal=true")
    assert changed(done) == 0
    assert (
        lines(done, "domain_doubled")
        and not lines(done, "allocation_missing")
        and not lines(done, "use_miscounted")
    )
    # virsh shows that no domain was touched.
    assert fleet.look() == before

    # The operator fences one by hand, as the message says.
    fleet.run("kvm2", "virsh undefine twice")
    fleet.playbook("discover")
    assert (
        "checked: consistent." in fleet.playbook("audit", "-e", "drover_audit_strict=true").stdout
    )
    assert fleet.settled() == {
        "lost": ("kvm1", "running"),
        "quiet": ("kvm1", "paused"),
        "twice": ("kvm1", "shutoff"),
    }
