# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action instance_snapshot on a real store and hypervisors in this process."""

from __future__ import annotations

import re

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import (
    instance_snapshots,
    used_files,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import is_plain, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


@pytest.fixture
def url(fleet_url, there, monkeypatch):
    """Fill the store by discoveries of the hosts; web and db are off."""
    monkeypatch.setattr(instance_snapshots, "GRACE", 0)
    for domain in there.hosts["kvm1"].domains().values():
        domain.destroy()
    for host in ("kvm1", "kvm2", "kvm3"):
        run("compute_node", {"inventory_hostname": host}, store_url=fleet_url)
    yield fleet_url
    with Store.open(fleet_url).read() as connection:
        assert leases.read(connection) == []


def snapshot(url, state=None, name=None, **args):
    args.setdefault("instances", ["web"])
    options = {
        key: value for key, value in {"state": state, "snapshot": name}.items() if value is not None
    }
    return run("instance_snapshot", store_url=url, **options, **args)


def row(url, name="web"):
    with Store.open(url).read() as connection:
        return orders.read(connection, uuid_of(name))


def disk(there, name="web"):
    (path,) = hypervisors.disks_of(there.hosts["kvm1"].domains()[uuid_of(name)])
    return path


def recorded(url):
    with Store.open(url).read() as connection:
        return used_files.of_instance(connection, uuid_of("web"))


def test_made_listed_and_deleted(url, there):
    base, before = disk(there), fleets.snapshot(url)
    told = snapshot(url, "present", "one", check=True, diff=True)
    assert told["changed"] and told["diff"] == [
        {
            "before": "",
            "after": "snapshot one (external)\n",
            "before_header": "web",
            "after_header": "web",
        }
    ]
    assert fleets.snapshot(url) == before and disk(there) == base
    done = snapshot(url, "present", "one", instances=["web", "db"], description="before it")
    assert is_plain(done) and [
        (each["name"], each["changed"], each["consistency"]) for each in done["instances"]
    ] == [
        ("web", True, "off"),
        ("db", True, "off"),
    ]
    # No discovery is needed.
    assert disk(there) in recorded(url) and row(url).order_uuid is None
    assert not snapshot(url, "present", "one")["changed"]
    listed = snapshot(url, instances=["web", "db"])
    assert not listed["changed"] and listed["table"][0].split() == [
        "INSTANCE",
        "SNAPSHOT",
        "KIND",
        "MADE",
        "AFTER",
        "CURRENT",
        "DESCRIPTION",
    ]
    assert re.match(r"web +one +external +\S+ \S+ UTC +- +yes +before it", listed["table"][1])
    assert (
        snapshot(url, "absent", "one", instances=["web", "db"])["changed"] and disk(there) == base
    )
    assert (
        snapshot(url)["table"] == ["No snapshots."]
        and not snapshot(url, "absent", "one")["changed"]
    )


def test_one_that_fails_stops_no_other(url, there):
    there.hosts["kvm1"].domains()[uuid_of("web")].create()
    snapshot(url, "present", "one", instances=["db"])
    with pytest.raises(AnsibleActionFail, match="web on kvm1 has no snapshot 'one'") as caught:
        snapshot(url, "reverted", "one", instances=["web", "db"])
    assert [each["status"] for each in caught.value.result["instances"]] == ["failed", "done"]


def test_an_order_that_is_open_holds_the_instance_until_this_is_run_again(url, there):
    with Store.open(url).write() as connection:
        orders.begin(connection, uuid_of("web"), orders.SNAPSHOTTING, "cut off")
    for module, arguments in (
        ("instance", {"state": "running"}),
        ("instance_disk", {"path": "/srv/x.qcow2", "size": "1GiB"}),
    ):
        with pytest.raises(
            AnsibleActionFail,
            match="has a snapshot made, deleted or reverted to, or that was cut off",
        ):
            run(module, store_url=url, name="web", **arguments)
    assert snapshot(url, "present", "one")["changed"] and row(url).order_uuid is None


@pytest.mark.parametrize(
    "given, said",
    [
        ({"state": "present"}, "No snapshot is named."),
        ({"name": "one"}, "The snapshot one is named without a state."),
        ({"state": "reverted", "name": "two"}, "has no snapshot 'two': it has none"),
        ({"state": "present", "name": "../two"}, "cannot be the name of a snapshot"),
        ({"instances": []}, "Which instances?"),
        ({"instances": ["wbe"]}, "No instance wbe is in the store"),
    ],
)
def test_refused(url, given, said):
    before = fleets.snapshot(url)
    with pytest.raises(AnsibleActionFail, match=re.escape(said)):
        snapshot(url, **given)
    assert fleets.snapshot(url) == before
