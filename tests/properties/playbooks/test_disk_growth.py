# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The action instance_disk with the state resized, on a real store and hypervisors in this
process.
"""

from __future__ import annotations

import subprocess
from unittest import mock

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import instance_devices
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import orders
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import is_plain, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(instance_devices, "GRACE", 0)


@pytest.fixture
def url(fleet_url, there):
    discover(fleet_url)
    return fleet_url


def discover(url):
    run("compute_node", {"inventory_hostname": "kvm1"}, store_url=url)


def grow(url, gib, /, **args):
    return run(
        "instance_disk",
        store_url=url,
        state="resized",
        **{"name": "web", "target": "vda", "size": gib, **args},
    )


def refused(url, gib, /, **args):
    before = fleets.snapshot(url)
    with pytest.raises(AnsibleActionFail) as caught:
        grow(url, gib, **args)
    assert fleets.snapshot(url) == before
    return str(caught.value)


def row(url):
    with Store.open(url).read() as connection:
        return orders.read(connection, uuid_of("web"))


def gib(url):
    (amounts,) = fleets.holdings(url)[uuid_of("web")].values()
    return amounts["DISK_GB"], row(url).disk_gb


def domain(there):
    return there.hosts["kvm1"].domains()[uuid_of("web")]


def size(there):
    (path,) = hypervisors.disks_of(domain(there))
    output = subprocess.run(
        ["qemu-img", "info", "-U", path], capture_output=True, text=True, check=True
    ).stdout
    return output.split("virtual size: ")[1].split(" GiB")[0]


@pytest.mark.parametrize("state", ["running", "shutoff"])
def test_a_disk_grows_and_is_counted_and_the_next_discovery_says_the_same(url, there, state):
    if state == "shutoff":
        domain(there).destroy()
        discover(url)
    before = fleets.snapshot(url)
    dry_run = grow(url, "3GiB", check=True, diff=True)
    assert dry_run["changed"] and fleets.snapshot(url) == before and size(there) == "1"
    assert (dry_run["diff"]["before"], dry_run["diff"]["after"]) == ("vda: 1 GiB\n", "vda: 3 GiB\n")
    done = grow(url, "3GiB", diff=True)
    assert (
        done["changed"]
        and done["diff"] == dry_run["diff"]
        and done["host"] == "kvm1"
        and is_plain(done)
    )
    assert done["device"]["capacity_bytes"] == 3 * 2**30
    assert size(there) == "3" and gib(url) == (3, 3) and row(url).order_uuid is None
    recorded = fleets.snapshot(url)
    assert not grow(url, 3)["changed"] and fleets.snapshot(url) == {
        **recorded,
        "domains": mock.ANY,
    }, "it was seen again"
    discover(url)
    assert gib(url) == (3, 3)


def test_a_disk_that_is_large_already_is_counted(url, there):
    """A person has made the disk larger, or the store came back from a backup that is older than
    its growth."""
    domain(there).blockResize("vda", 3 * 2**30, libvirt.VIR_DOMAIN_BLOCK_RESIZE_BYTES)
    before = fleets.snapshot(url)
    assert not grow(url, "3GiB", check=True)["changed"] and fleets.snapshot(url) == before
    assert not grow(url, "3GiB")["changed"] and size(there) == "3"
    assert gib(url) == (3, 3) and row(url).order_uuid is None


def test_a_uuid_names_the_instance_too(url, there):
    assert grow(url, 2, name=uuid_of("web"))["name"] == "web" and size(there) == "2"


def test_what_is_refused(url, there):
    grow(url, 2)
    for arguments, words in (
        ({"gib": 1}, "has 2.00 GiB, and 1 GiB are requested: a disk is never made smaller"),
        ({"gib": 3, "target": "vdx"}, "has no disk vdx (it has vda): correct the target"),
        ({"gib": 10**6}, "there is no room for the disk"),
        ({"gib": "much"}, "size must be a whole number of GiB"),
        ({"gib": 3, "path": "/a"}, "name the disk by drover_disk (option target) alone"),
        ({"gib": 3, "name": "wbe"}, "No instance wbe is in the store"),
    ):
        assert words in refused(url, arguments.pop("gib"), **arguments)
    assert size(there) == "2" and gib(url) == (2, 2)
    for missing in ("size", "target"):
        arguments = {"name": "web", "target": "vda", "size": 3}
        del arguments[missing]
        with pytest.raises(AnsibleActionFail, match=missing):
            run("instance_disk", store_url=url, state="resized", **arguments)


def test_what_fails_at_the_hypervisor_gives_the_room_back(url, there, monkeypatch):
    def full(*arguments):
        raise libvirt.libvirtError(
            "internal error: unable to execute QEMU command 'block_resize': No space left on device"
        )

    monkeypatch.setattr(libvirt.virDomain, "blockResize", full)
    with pytest.raises(
        AnsibleActionFail,
        match="Instance web on kvm1: libvirt on kvm1 refused: .*No space left on device",
    ):
        grow(url, 3)
    assert gib(url) == (1, 1) and row(url).order_uuid is None and size(there) == "1"


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_host_leaves_it_open_and_the_next_run_ends_it(url, there, done):
    def lost(host, module, *more):
        if module.endswith("_domain_device") and there.calls[-1][2].get("order"):
            there.hosts["kvm1"].reached = False
            raise AnsibleConnectionFailure("Connection to kvm1 closed by remote host")

    (there.after if done else there.before).append(lost)
    with pytest.raises(
        AnsibleActionFail, match="kvm1 does not show what became of it, so it may be done"
    ) as caught:
        grow(url, 3)
    assert (
        caught.value.result["uncertain"] is True
        and row(url).task_state == orders.EXTENDING
        and gib(url)[0] == 3
    )
    there.after.clear()
    there.before.clear()
    there.hosts["kvm1"].reached = True
    with pytest.raises(
        AnsibleActionFail,
        match="has a disk made larger, or that was cut off.*drover.compute.instance_disk again",
    ):
        run("instance", store_url=url, instances=["web"], state="stopped", timeout=1)
    discover(url)
    assert row(url).task_state == orders.EXTENDING and gib(url)[0] == 3, (
        "a discovery does not end it"
    )
    grow(url, 3)
    assert row(url).order_uuid is None and gib(url) == (3, 3) and size(there) == "3"
