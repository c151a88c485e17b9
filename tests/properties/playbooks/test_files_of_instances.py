# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The facts about files of other hosts' instances that the actions give a hypervisor, and the
refusals by the actions."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import remote_module
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of


def disk(path, *behind):
    return {
        "target": "vda",
        "type": "file",
        "source": path,
        "path": path,
        "chain": [{"path": each} for each in behind],
    }


@pytest.fixture
def fleet_url(prepared_url):
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            domain("base", disks=[disk("/srv/base")], state="shutoff"),
            domain("web", disks=[disk("/srv/web")]),
        ),
        host("kvm2", domain("clone", disks=[disk("/srv/clone", "/srv/base")])),
    )
    with Store.open(prepared_url).write() as connection:
        flavors.ensure(connection, "big", {"vcpus": 2, "memory_mb": 128, "disk_gb": 2}, fleets.NOW)
    return prepared_url


def test_storage_a_deletion_is_told_what_other_hosts_need(fleet_url, monkeypatch):
    """They cover the disks that the store has seen, and the disks that the hypervisor shows now."""
    path_lists = []

    def hypervisor(hand, module, args):
        if module.endswith("_file_users"):
            names = {"shared_id": None, "inode": None, "mount": "/"}
            return {
                "names": [
                    {"path": path, "real_path": path, **names} for path in args.get("paths") or ()
                ],
                "users": {},
            }
        path_lists.append(args["used_elsewhere"])
        return {
            "changed": True,
            "domain": None,
            "removed_disks": ["/srv/web", "/srv/clone"],
            "kept_disks": [],
        }

    for way in (remote_module.Hand, remote_module.RemoteHand):
        monkeypatch.setattr(way, "_run_module", hypervisor)
    for name in ("base", "web"):
        run(
            "instance",
            {"inventory_hostname": "kvm1"},
            store_url=fleet_url,
            state="absent",
            instances=[name],
            check=False,
        )
    # A dry run, and the real run.
    assert path_lists == [["/srv/base"], ["/srv/base", "/srv/clone"], [], ["/srv/clone"]]


@pytest.mark.parametrize("what", ["disks", "seed"])
def test_safety_22_a_build_on_a_disk_of_another_is_refused_before_anything_is_begun(
    fleet_url, what
):
    path = {"disks": "/srv/base", "seed": "/srv/clone"}[what]
    fleets.claim(fleet_url, fleets.selection("new", "kvm1"))
    paths = (
        {"disks": [{"path": path, "size_gb": 1}]}
        if what == "disks"
        else {"seed": {"path": path, "content_b64": ""}}
    )
    with pytest.raises(AnsibleActionFail) as refused:
        run(
            "_instance_build",
            {"inventory_hostname": "kvm1"},
            store_url=fleet_url,
            uuid=uuid_of("new"),
            name="new",
            xml="<domain/>",
            **paths,
        )
    whose = "base on kvm1" if what == "disks" else "clone on kvm2"
    assert f"its disk {path} is a file that {whose} uses. Nothing was begun" in str(refused.value)
    assert refused.value.result["uncertain"] is False


def test_both_ways_of_a_resize_know_of_the_storage_of_both_hosts(fleet_url, monkeypatch):
    facts = {**domain("base", disk_gb=1, state="shutoff"), "metadata": {}, "xml": "<domain/>"}

    def hypervisor(hand, module, args):
        return {"changed": True, "domain": facts}

    monkeypatch.setattr(remote_module.Hand, "_run_module", hypervisor)
    given = {"instance": "base", "state": "begun", "flavor": "big", "host": "kvm2"}
    resize = run("_resize", {"inventory_hostname": "kvm1"}, store_url=fleet_url, **given)["resize"]
    # The order of the move looks up the files that other hosts need.
    assert all(
        "used_elsewhere" not in resize[way] and resize[way]["devices_there"] == {}
        for way in ("order", "back")
    )
