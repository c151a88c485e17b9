# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A person undefines the domain of an instance with an open resize: the ways to end the resize, and
the files that may be removed then."""

from __future__ import annotations

import os

import pytest
from ansible.errors import AnsibleActionFail

pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import continuity
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

PLACES = pytest.mark.parametrize("place", ["kvm1", "kvm2"])


def resize(url, **more):
    return run("instance_resize", store_url=url, instances=["web"], timeout=1, force=True, **more)


def delete(url, **more):
    return run("instance", store_url=url, state="absent", instances=["web"], timeout=1, **more)


def failure(work, url, **args):
    with pytest.raises(AnsibleActionFail) as caught:
        work(url, **args)
    return str(caught.value)


def discover(url, *hosts):
    for host in hosts:
        run(
            "compute_node",
            {"inventory_hostname": host, "drover_cpu_allocation_ratio": 4.0},
            store_url=url,
        )


def undefine(there, host):
    """Undefine the domain as a person would, and leave its files."""
    domain = there.hosts[host].domains()[uuid_of("web")]
    if domain.isActive():
        domain.destroy()
    domain.undefine()


def resized(there, url, place):
    """Return a store with web waiting for the confirmation of its resize. Its host was read since;
    kvm1 is its former host."""
    discover(url, *there.hosts)
    resize(url, flavor="big", host=place)
    discover(url, *there.hosts)


def of_migration(url):
    with Store.open(url).read() as connection:
        return connection.execute(
            sa.select(tables.migrations.c.status, tables.migrations.c.message)
        ).one()


@PLACES
@pytest.mark.parametrize("discovered", [True, False])
def test_an_instance_without_a_domain_can_be_removed(fleet_url, there, tmp_path, place, discovered):
    resized(there, fleet_url, place)
    undefine(there, place)
    if discovered:
        discover(fleet_url, *there.hosts)
    for ending in ("confirm", "revert"):
        said = failure(resize, fleet_url, ending=ending)
        where = "kvm1 has no domain" if place == "kvm1" else "neither kvm1 nor kvm2 has a domain"
        assert where in said and "drover.compute.instance_delete" in said
    before = fleets.snapshot(fleet_url)
    assert delete(fleet_url, check=True)["changed"] is True
    assert fleets.snapshot(fleet_url) == before
    (outcome,) = delete(fleet_url)["instances"]
    assert outcome["changed"] is True and outcome["status"] == "done"
    # Nothing proves the owner of the file now.
    disk = str(tmp_path / "web.qcow2")
    assert os.path.exists(disk) and outcome["removed_disks"] == []
    assert [each["path"] for each in outcome["kept_disks"]] == [disk]
    assert list(fleets.holdings(fleet_url)) == [uuid_of("db")]
    status, message = of_migration(fleet_url)
    assert (status, message) == ("failed", "Its domain was gone, and the instance was removed.")
    assert delete(fleet_url)["changed"] is False


@PLACES
def test_the_audit_names_it(fleet_url, there, place):
    resized(there, fleet_url, place)
    assert "instance_missing" not in run("store_audit_info", store_url=fleet_url)["counts"]
    undefine(there, place)
    discover(fleet_url, *there.hosts)
    (finding,) = [
        each
        for each in run("store_audit_info", store_url=fleet_url)["findings"]
        if each["kind"] == "instance_missing"
    ]
    assert (finding["name"], finding["host"]) == ("web", place)
    assert "Its resize from" in finding["why"] and "instance_delete" in finding["advice"]


@PLACES
def test_one_that_is_there_is_confirmed_or_reverted_first(fleet_url, there, place):
    resized(there, fleet_url, place)
    held = fleets.holdings(fleet_url)
    assert "waits to be confirmed" in failure(delete, fleet_url)
    assert fleets.holdings(fleet_url) == held and there.where()["web"] == [(place, "running")]
    resize(fleet_url, ending="confirm")
    assert delete(fleet_url)["changed"] is True


def test_a_host_that_does_not_answer_may_have_it(fleet_url, there):
    resized(there, fleet_url, "kvm2")
    undefine(there, "kvm2")
    holdings = fleets.holdings(fleet_url)
    for silent in ("kvm1", "kvm2"):
        there.hosts[silent].reached = there.hosts[silent].libvirt = False
        said = failure(delete, fleet_url)
        assert f"{silent} does not answer" in said and "not removed" in said
        there.hosts[silent].reached = there.hosts[silent].libvirt = True
    there.hosts["kvm1"].libvirt = False
    for ending in ("confirm", "revert"):
        assert "kvm1 does not answer" in failure(resize, fleet_url, ending=ending)
    assert fleets.holdings(fleet_url) == holdings
    there.hosts["kvm1"].libvirt = True
    assert delete(fleet_url)["changed"] is True


def test_one_that_is_at_its_source_again_is_reverted(fleet_url, there):
    """A revert was killed, or a person defined the old domain again."""
    resized(there, fleet_url, "kvm2")
    there.hosts["kvm2"].domains()[uuid_of("web")].destroy()
    there.moved(
        there.hosts["kvm2"], there.hosts["kvm1"], there.hosts["kvm2"].domains()[uuid_of("web")]
    )
    assert "drover_resize=revert" in failure(resize, fleet_url, ending="confirm")
    assert "waits to be confirmed" in failure(delete, fleet_url)
    resize(fleet_url, ending="revert")
    assert there.where()["web"] == [("kvm1", "running")]
    assert fleets.where(fleet_url)["web"] == "kvm1"


def test_a_store_that_was_brought_back_removes_nothing_before_all_hosts_were_read(fleet_url, there):
    """The resize may have ended since the backup, and the instance may run on any host."""
    resized(there, fleet_url, "kvm2")
    undefine(there, "kvm2")
    with Store.open(fleet_url).write() as connection:
        continuity.come_back(connection)
    holdings = fleets.holdings(fleet_url)
    message = failure(delete, fleet_url)
    assert (
        "Instance web: It is not removed: kvm1, kvm2" in message
        and "not read since the store was made or brought back" in message
    )
    discover(fleet_url, "kvm1", "kvm2")
    others = sorted(set(there.hosts) - {"kvm1", "kvm2"})
    if others:
        assert f"It is not removed: {', '.join(others)} " in failure(delete, fleet_url)
    assert fleets.holdings(fleet_url) == holdings
    discover(fleet_url, *there.hosts)
    assert delete(fleet_url)["changed"] is True


def test_one_that_a_third_host_shows_is_not_removed(fleet_url, there):
    resized(there, fleet_url, "kvm2")
    there.hosts["kvm2"].domains()[uuid_of("web")].destroy()
    there.moved(
        there.hosts["kvm2"], there.hosts["kvm3"], there.hosts["kvm2"].domains()[uuid_of("web")]
    )
    discover(fleet_url, *there.hosts)
    assert "kvm3 shows its domain" in failure(delete, fleet_url)
    assert uuid_of("web") in fleets.holdings(fleet_url)


@PLACES
def test_one_that_a_third_host_shows_is_not_confirmed_or_reverted_and_the_host_is_named(
    fleet_url, there, place
):
    resized(there, fleet_url, place)
    there.hosts[place].domains()[uuid_of("web")].destroy()
    there.moved(
        there.hosts[place], there.hosts["kvm3"], there.hosts[place].domains()[uuid_of("web")]
    )
    discover(fleet_url, *there.hosts)
    holdings, where = fleets.holdings(fleet_url), there.where()
    nowhere = "kvm1 has no domain" if place == "kvm1" else "neither kvm1 nor kvm2 has a domain"
    for ending in ("confirm", "revert"):
        message = failure(resize, fleet_url, ending=ending)
        assert (
            f"{nowhere} of it, but kvm3 has one" in message
            and f"take it back to {place} by hand" in message
            and "instance_delete" not in message
        )
        assert fleets.holdings(fleet_url) == holdings and there.where() == where
    there.moved(
        there.hosts["kvm3"], there.hosts[place], there.hosts["kvm3"].domains()[uuid_of("web")]
    )
    discover(fleet_url, *there.hosts)
    assert resize(fleet_url, ending="confirm")["changed"] is True


@PLACES
def test_a_resize_that_was_cut_off(fleet_url, there, monkeypatch, place):
    discover(fleet_url, *there.hosts)

    def hook(host, module, rest):
        if not there.calls[-1][3]:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(there, "after", [hook])
        with pytest.raises(KeyboardInterrupt):
            resize(fleet_url, flavor="big", host=place)
    said = failure(delete, fleet_url)
    assert "has an open resize" in said
    undefine(there, "kvm1")
    discover(fleet_url, *there.hosts)
    assert "drover.compute.instance_delete" in failure(resize, fleet_url, flavor="big", host=place)
    assert delete(fleet_url)["changed"] is True
    assert list(fleets.holdings(fleet_url)) == [uuid_of("db")]
