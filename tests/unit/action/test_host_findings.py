# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The warnings at the end of a discovery: problems that the store shows without a call of a
host.
"""

from __future__ import annotations

import time

import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    fleet_cpus,
    recorded_hosts,
    services,
)
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.conductor import test_fleet_cpu
from ansible_collections.drover.compute.tests.unit.conductor.test_fleet_cpu import (
    NEW,
    OLD,
    cpus,
    model,
)
from ansible_collections.drover.compute.tests.unit.store import fleets


def host(name, **more):
    facts = {
        key: more.pop(key)
        for key in (
            "libvirt_version",
            "host_uuid",
            "hypervisor_hostname",
            "addresses",
            "missing_drivers",
        )
        if key in more
    }
    node = test_fleet_cpu.host(name, more.pop("found", None), more.pop("version", 7002000), **more)
    node["hypervisor"].update({"libvirt_version": 9000000, "addresses": ["192.0.2.1"], **facts})
    return node


def warned(url):
    result = run("_host_findings", store_url=url)
    assert not result.get("failed") and not result["changed"]
    return result.get("warnings", [])


def test_hosts_that_are_alike_give_no_warning(prepared_url):
    assert warned(prepared_url) == []
    fleets.discover(
        prepared_url,
        host("kvm1"),
        host("kvm2", migration_address="192.0.2.1"),
        host("kvm3", migration_address="kvm3-fast"),
    )
    assert warned(prepared_url) == []


def test_each_problem_is_one_sentence_with_its_remedy(prepared_url):
    uuid = fleets.uuid_of("one")
    fleets.discover(
        prepared_url,
        host("kvm1", host_uuid=uuid),
        host("kvm2", host_uuid=uuid),
        host("kvm3", version=10000000, hypervisor_hostname="kvm2.", migration_address="192.0.2.9"),
        host("kvm4", version=10000000),
        host("gone", version=11000000),
    )
    with Store.open(prepared_url).write() as connection:
        services.record_unreachable(connection, "gone", "no route", time.time())
    warnings = warned(prepared_url)
    assert [each.partition(":")[0] for each in warnings] == ["kvm1, kvm2", "kvm3", "kvm1, kvm2"]
    assert (
        f"they have the same host uuid {uuid}" in warnings[0]
        and "Give each its own host_uuid" in warnings[0]
    )
    assert (
        "its drover_migration_address is 192.0.2.9, which is no address of it. Correct"
        in warnings[1]
    )
    assert (
        "it has QEMU 7.2.0, others have 10.0.0" in warnings[2]
        and "Upgrade QEMU there" in warnings[2]
    )


def test_hosts_that_lack_features_of_the_cpu_of_the_fleet(prepared_url):
    fleets.discover(prepared_url, host("kvm1", found=model(NEW)))
    cpus(prepared_url).of_guest("kvm1", None, "kvm")
    fleets.discover(
        prepared_url,
        host("kvm2", found=model(OLD)),
        host("kvm3", found=model(OLD)),
        host("amd", found=model([], vendor="AMD")),
    )
    (warning,) = warned(prepared_url)
    assert (
        warning.startswith("kvm2, kvm3: it lacks avx2 of the CPU of the fleet (Nehalem). ")
        and "drover_fleet_cpu_renew=true" in warning
    )


def test_missing_drivers_are_one_sentence_for_all_hosts_that_lack_one(prepared_url):
    storage = {"driver": "storage", "package": "libvirt-daemon-driver-storage", "daemon": None}
    interface = {
        "driver": "interface",
        "package": "libvirt-daemon-driver-interface",
        "daemon": None,
    }
    fleets.discover(
        prepared_url,
        host("kvm1", missing_drivers=[storage, interface]),
        host("kvm2", missing_drivers=[interface]),
        host("kvm3", missing_drivers=[]),
    )
    first, second = sorted(warned(prepared_url))
    assert (
        first.startswith("kvm1, kvm2: its libvirt has no interface driver: ")
        and "Install libvirt-daemon-driver-interface there" in first
    )
    assert second.startswith("kvm1: its libvirt has no storage driver: no disk can be copied to it")
    # The next discovery finds the package installed.
    fleets.discover(
        prepared_url, host("kvm1", missing_drivers=[]), host("kvm2", missing_drivers=[])
    )
    assert warned(prepared_url) == []


def test_it_takes_one_query(prepared_url):
    fleets.discover(prepared_url, host("kvm1", found=model(NEW)), host("kvm2"))
    statements = []

    def note(_connection, _cursor, statement, *_words):
        statements.append(statement)

    with Store.open(prepared_url).read() as connection:
        assert fleet_cpus.read(connection) == {}
        sa.event.listen(connection, "before_cursor_execute", note)
        assert set(recorded_hosts.read(connection)) == {"kvm1", "kvm2"}
    assert len([each for each in statements if "SELECT" in each]) == 1
