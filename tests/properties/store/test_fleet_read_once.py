# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of the whole fleet: one reading of the store gives the data of several plans."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import plans, scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._placement import server_groups
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances.instances_for_plans import (
    read_instances,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import NOW, domain, host, uuid_of

POLICY = Policy.from_mapping({})


@pytest.fixture(name="url")
def of_a_store_with_three_hosts_and_a_group(prepared_url):
    with Store.open(prepared_url).write() as connection:
        server_groups.ensure(connection, "apart", "anti-affinity")
    grouped = {"metadata": {"server_group": "apart"}}
    one = [domain("web", **grouped), domain("twin"), domain("off", state="shutoff")]
    fleets.discover(
        prepared_url, host("kvm1", *one), host("kvm2", domain("db", **grouped)), host("kvm3")
    )
    return prepared_url


def test_what_is_read_once_is_what_is_read_twice(url):
    with Store.open(url).read() as connection:
        of_both = read_instances(connection)
        twice = scheduling.read_fleet(connection, of_both, POLICY, NOW)
        once, instances = scheduling.read_whole_fleet(connection, POLICY, NOW)
    assert instances == of_both and [each["name"] for each in instances] == [
        "db",
        "off",
        "twin",
        "web",
    ]
    for name in ("instances", "instance_names"):
        assert once[name] == twice[name]
    members = [found["server_groups"]["apart"]["members"] for found in (once, twice)]
    assert sorted(members[0]) == sorted(members[1]) == sorted([uuid_of("web"), uuid_of("db")])


@pytest.mark.parametrize(
    "plan",
    [
        lambda connection: plans.RollingQuestion(POLICY).plan(connection, None),
        lambda connection: plans.plan_home(
            connection, {uuid_of("web"): ("kvm3", "kvm3")}, POLICY, 2, 0, {}
        ),
    ],
    ids=["rolling", "home"],
)
def test_a_plan_of_the_whole_fleet_reads_its_instances_once(url, plan):
    statements = []
    with Store.open(url).read() as connection:
        engine = connection.engine

        def note(*args):
            statements.append(args[2])

        sa.event.listen(engine, "before_cursor_execute", note)
        try:
            assert plan(connection)["lines"]
        finally:
            sa.event.remove(engine, "before_cursor_execute", note)
    assert len([each for each in statements if "instances.name" in each]) == 1, statements
