# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile B1: nothing starts before the other hosts were read for it. Here a person moved a guest
to kvm2 by hand after the last discovery."""

from __future__ import annotations

import subprocess
import time

import pytest
from ansible.errors import AnsibleConnectionFailure

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import (
    compute_nodes,
    power,
    services,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import drained
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

HOSTS = ("kvm1", "kvm2", "kvm3")


@pytest.fixture
def url(fleet_url, there):
    """Return a store with web and db shut off on kvm1."""
    for each in there.hosts["kvm1"].domains().values():
        each.destroy()
    discover(fleet_url)
    return fleet_url


def discover(url):
    for name in HOSTS:
        run("compute_node", {"inventory_hostname": name}, store_url=url)


def carry(there, name="web", to="kvm2", state="running"):
    """Define it on another host as a person would, and leave the old definition."""
    there.hosts[to].define(name, uuid_of(name), state)


def start(url, *names, variables=None, **given):
    return run("instance", variables, store_url=url, instances=list(names), timeout=2, **given)


def refused(url, *names, variables=None, module="instance", **given):
    return failure(module, variables, store_url=url, instances=list(names), **given)


def running(there, name="web"):
    return there.running(uuid_of(name))


@pytest.mark.parametrize("state", ["running", "shutoff", "paused"])
@pytest.mark.parametrize(
    "given", [{}, {"state": "rebooted", "hard": True}], ids=["start", "hard reboot"]
)
def test_hostile_b1_another_host_that_shows_it_refuses_the_start(url, there, given, state):
    carry(there, state=state)
    before = running(there)
    sentence = refused(url, "web", **given)
    assert f"kvm2 ({state})" in sentence and "kvm1 (shutoff)" in sentence
    assert running(there) == before


def test_hostile_b1_the_others_start_all_the_same(url, there):
    carry(there)
    sentence = refused(url, "web", "db")
    assert "kvm2 (running)" in sentence and "db" not in sentence
    assert running(there) == ["kvm2"] and running(there, "db") == ["kvm1"]


def test_hostile_b1_undrain(url, there):
    with Store.open(url).write() as connection:
        row = services.get(connection, "kvm1")
        services.change(
            connection,
            row,
            {
                "status_before_drain": {"disabled": False, drained.SHUT_DOWN: [uuid_of("web")]},
                "disabled": True,
            },
        )
    carry(there)
    sentence = failure("undrain", None, store_url=url, host="kvm1", timeout=2)
    assert "kvm1 is back" in sentence and "kvm2 (running)" in sentence
    assert running(there) == ["kvm2"]


def test_hostile_b1_a_snapshot_is_not_reverted_to(url, there):
    run("instance_snapshot", None, store_url=url, name="web", snapshot="s1", state="present")
    (overlay,) = hypervisors.disks_of(there.hosts["kvm1"].domains()[uuid_of("web")])
    subprocess.run(["qemu-io", "-c", "write 0 64k", overlay], check=True, stdout=subprocess.DEVNULL)
    carry(there)
    arguments = {
        "store_url": url,
        "name": "web",
        "snapshot": "s1",
        "state": "reverted",
        "discard": True,
    }
    assert "kvm2 (running)" in failure("instance_snapshot", None, **arguments)
    there.hosts["kvm2"].domains()[uuid_of("web")].destroy()
    there.hosts["kvm2"].domains()[uuid_of("web")].undefine()
    assert run("instance_snapshot", None, **arguments)["changed"] is True


def test_hostile_b1_a_resize_that_moves_is_refused_before_the_guest_is_shut_down(url, there):
    start(url, "web")
    carry(there, to="kvm3", state="shutoff")
    sentence = refused(url, "web", module="instance_resize", flavor="big", host="kvm2")
    assert "kvm3 (shutoff)" in sentence and running(there) == ["kvm1"]


def test_a_host_that_does_not_answer_is_named_and_lifted_by_its_name(url, there):
    there.hosts["kvm2"].reached = False
    sentence = refused(url, "web")
    assert "kvm2" in sentence and "drover_absent_hosts=kvm2" in sentence and running(there) == []
    assert "drover_absent_hosts=kvm2" in refused(
        url, "web", variables={"drover_absent_hosts": "kvm3"}
    )
    assert start(url, "web", variables={"drover_absent_hosts": "kvm2"})["changed"] is True
    assert running(there) == ["kvm1"]


def test_a_host_that_is_named_and_answers_counts(url, there):
    carry(there)
    assert "kvm2 (running)" in refused(url, "web", variables={"drover_absent_hosts": ["kvm2"]})


def test_a_name_that_no_host_has_is_refused(url, there):
    assert (
        "kvm9" in refused(url, "web", variables={"drover_absent_hosts": "kvm9"})
        and running(there) == []
    )


def test_what_runs_already_waits_for_nobody(url, there):
    start(url, "web")
    there.hosts["kvm3"].reached = False
    assert start(url, "web")["changed"] is False
    assert start(url, "web", state="rebooted", hard=True)["changed"] is True


def test_a_host_that_was_seen_to_be_off_holds_nothing_back(url, there):
    with Store.open(url).write() as connection:
        now = time.time() + 1
        event = power.begin(connection, "kvm3", "off", "ipmi", None, now)
        power.finish(connection, event["uuid"], "completed", "off", None, "", now)
    there.hosts["kvm3"].power_off()
    assert start(url, "web")["changed"] is True


def test_b4_a_host_that_was_seen_to_be_off_and_is_on_again_counts(url, there):
    """Somebody has switched it on, and its libvirt does not answer: no record says what it has."""
    with Store.open(url).write() as connection:
        now = time.time() + 1
        event = power.begin(connection, "kvm3", "shutdown", "ipmi", None, now)
        power.finish(connection, event["uuid"], "completed", "off", None, "", now)
    there.hosts["kvm3"].libvirt = False
    assert "it may be on kvm3" in refused(url, "web") and running(there) == []
    assert start(url, "web", variables={"drover_absent_hosts": "kvm3"})["changed"] is True


def test_b4_a_discovery_that_reaches_a_host_ends_the_record_that_it_is_off(url, there):
    with Store.open(url).write() as connection:
        now = time.time() + 1
        event = power.begin(connection, "kvm3", "shutdown", "ipmi", None, now)
        power.finish(connection, event["uuid"], "completed", "off", None, "", now)
    there.hosts["kvm3"].reached = False
    with pytest.raises(AnsibleConnectionFailure):
        run("compute_node", {"inventory_hostname": "kvm3"}, store_url=url)
    with Store.open(url).read() as connection:
        assert list(power.off_since(connection)) == ["kvm3"], "a silent host is off, as recorded"
    there.hosts["kvm3"].reached, there.hosts["kvm3"].libvirt = True, False
    failure("compute_node", {"inventory_hostname": "kvm3"}, store_url=url)
    with Store.open(url).read() as connection:
        assert not power.off_since(connection)
        assert power.last(connection, "kvm3")["message"] == "it answered after that"


def test_a_look_while_libvirtd_restarts_is_repeated(url, there, monkeypatch):
    """Hostile C5: a look at the second without libvirtd decides nothing."""
    carry(there)
    tries, open_it = [], libvirt.open

    def away(uri):
        if len(tries) < 3:
            tries.append(uri)
            raise libvirt.libvirtError(
                "Failed to connect socket to '/run/libvirt/libvirt-sock': No such file or directory"
            )
        return open_it(uri)

    monkeypatch.setattr(libvirt, "open", away)
    assert "kvm2 (running)" in refused(url, "web") and len(tries) == 3


def test_in_a_fleet_of_thousands_only_old_looks_of_the_cell_are_made_anew(url, there):
    """105 hosts that do not exist: hosts that were read lately are not read again, and hosts of
    another cell neither."""
    with Store.open(url).write() as connection:
        now = connection.execute(
            sa.select(tables.services.c.last_seen_up).where(tables.services.c.host == "kvm1")
        ).scalar()
        services.heartbeat(connection, [f"far{number}" for number in range(105)], now)
        wanted = {(f"far{number}", f"far{number}"): _node(connection) for number in range(105)}
        ids = {row.host: row.id for row in connection.execute(sa.select(tables.services))}
        compute_nodes.write(connection, wanted, ids, now)
    carry(there)
    # kvm2 was read a moment ago, and its last report does not show it.
    assert start(url, "db")["changed"] is True
    _read_at(url, "kvm2", now - 1000)
    assert "kvm2 (running)" in refused(url, "web")
    # The clock of the machine that read it was ahead, so the age of that report is not known.
    _read_at(url, "kvm2", now + 1000)
    assert "kvm2 (running)" in refused(url, "web")
    there.hosts["kvm2"].domains()[uuid_of("web")].destroy()
    there.hosts["kvm2"].domains()[uuid_of("web")].undefine()
    _read_at(url, "far7", now - 1000)
    assert "drover_absent_hosts=far7," in refused(url, "web")
    assert start(url, "web", variables={"drover_start_max_age": 2000})["changed"] is True


def test_the_last_look_of_a_host_that_is_not_read_anew_counts(url, there):
    carry(there)
    run("compute_node", {"inventory_hostname": "kvm2"}, store_url=url)
    there.hosts["kvm2"].reached = False
    assert "kvm2" in refused(url, "web")


def test_b1_a_second_libvirt_that_a_host_no_longer_has_is_not_asked(url, there):
    """Its node stays in the store for as long as something is allocated there."""
    with Store.open(url).write() as connection:
        ids = {row.host: row.id for row in connection.execute(sa.select(tables.services))}
        node = {**_node(connection), "uri": "qemu+tcp://second.invalid/system", "reported": False}
        compute_nodes.write(connection, {("kvm2", "second"): node}, ids, time.time())
        connection.execute(
            sa.update(tables.compute_nodes)
            .where(tables.compute_nodes.c.hypervisor_hostname == "second")
            .values(reported=False)
        )
    assert start(url, "web")["changed"] is True
    assert running(there) == ["kvm1"]


def test_b1_a_second_libvirt_of_another_host_is_asked(url, there):
    with Store.open(url).write() as connection:
        ids = {row.host: row.id for row in connection.execute(sa.select(tables.services))}
        node = {**_node(connection), "uri": "qemu+tcp://second.invalid/system"}
        compute_nodes.write(connection, {("kvm2", "second"): node}, ids, time.time())
    assert "kvm2" in refused(url, "web") and running(there) == []


def autostart(url, there, name="web"):
    there.hosts["kvm1"].domains()[uuid_of(name)].setAutostart(1)
    discover(url)


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_b1_a_host_does_not_boot_while_its_libvirt_would_start_a_guest_of_another_host(
    url, there, state
):
    """libvirt starts it before anything can be read there."""
    autostart(url, there)
    assert run("_autostart", None, store_url=url, host="kvm1")["guests"] == ["web"]
    carry(there, state=state)
    there.hosts["kvm1"].power_off()
    sentence = failure(
        "_autostart", None, store_url=url, host="kvm1", not_done="startup is refused"
    )
    for part in (
        "kvm1: startup is refused",
        "starts web with the host",
        f"kvm2 ({state})",
        "drover_power_force=autostart",
    ):
        assert part in sentence, sentence


def test_b1_a_guest_without_autostart_holds_no_boot_back_and_no_host_is_read_for_it(url, there):
    carry(there)
    for each in ("kvm2", "kvm3"):
        there.hosts[each].reached = False
    assert run("_autostart", None, store_url=url, host="kvm1")["changed"] is False


def test_b1_a_silent_host_counts_for_a_boot_by_its_last_report(url, there):
    """After a loss of power all hosts are silent, and one of them is the first to boot."""
    autostart(url, there)
    for each in there.hosts.values():
        each.reached = False
    run("_autostart", None, store_url=url, host="kvm1")
    there.hosts["kvm2"].reached = True
    carry(there)
    run("compute_node", {"inventory_hostname": "kvm2"}, store_url=url)
    there.hosts["kvm2"].reached = False
    assert "kvm2 (running)" in failure("_autostart", None, store_url=url, host="kvm1")
    assert (
        run("_autostart", {"drover_absent_hosts": "kvm2"}, store_url=url, host="kvm1")["changed"]
        is False
    )


def _read_at(url, host, when):
    with Store.open(url).write() as connection:
        connection.execute(
            sa.update(tables.services)
            .where(tables.services.c.host == host)
            .values(last_seen_up=when)
        )


def _node(connection):
    row = connection.execute(sa.select(tables.compute_nodes).limit(1)).mappings().one()
    return {
        key: value
        for key, value in row.items()
        if key
        not in (
            "id",
            "uuid",
            "host",
            "hypervisor_hostname",
            "service_id",
            "created_at",
            "updated_at",
        )
    }
