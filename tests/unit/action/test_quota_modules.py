# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules quota and quota_info, and the places where a quota refuses and is shown."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import report_data
from ansible_collections.drover.compute.plugins.plugin_utils._report.html import page
from ansible_collections.drover.compute.plugins.plugin_utils._report.summary import report_lines
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, selection


@pytest.fixture
def url(prepared_url):
    fleets.discover(prepared_url, host("kvm1"), host("kvm2"))
    return prepared_url


def quota(url, **given):
    return run("quota", store_url=url, project="shop", **given)


def test_limits_are_declared(url):
    seen = run("quota", check=True, diff=True, store_url=url, project="shop", cores=4, ram="2GiB")
    assert (
        seen["changed"] is True
        and seen["diff"][0]["after"] == {"cores": 4, "ram": 2048}
        and seen["diff"][0]["before"] == {}
    )
    assert run("quota_info", store_url=url)["quotas"] == []
    made = quota(url, cores="4", ram="2GiB", resources={"DISK_GB": "1T"})
    assert made == {
        "changed": True,
        "quota": {"project": "shop", "limits": {"cores": 4, "ram": 2048, "DISK_GB": 1024}},
    }
    assert quota(url, cores=4)["changed"] is False
    assert quota(url, cores=-1, resources={"DISK_GB": "-1"})["quota"]["limits"] == {"ram": 2048}
    assert (
        quota(url, state="absent")["changed"] is True
        and quota(url, state="absent")["changed"] is False
    )


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no limit is given. Set instances, cores, ram or resources"),
        ({"cores": "many"}, "Quota of project shop: cores must be a whole number"),
        ({"instances": -2}, "Quota of project shop: instances must be a whole number"),
        ({"ram": "1.0005G"}, "not a whole number of MiB"),
        ({"resources": {"DISK_G": 4}}, "there is no resource class DISK_G (did you mean DISK_GB"),
        (
            {"resources": {"CUSTOM_LICENSE": 4}},
            "Make it first with the module drover.compute.resource_class",
        ),
    ],
)
def test_what_is_no_limit_is_refused(url, given, words):
    assert words in failure("quota", project="shop", store_url=url, **given)
    assert run("quota_info", store_url=url)["quotas"] == []


def test_use_is_shown_beside_the_limits(url):
    quota(url, cores=4, ram="2GiB")
    fleets.claim(
        url,
        selection("a", "kvm1", vcpus=3, memory_mb=1024, project="shop"),
        selection("b", "kvm1", project="other"),
    )
    answer = run("quota_info", store_url=url)
    assert [each["project"] for each in answer["quotas"]] == ["other", "shop"]
    assert answer["quotas"][1]["resources"][:2] == [
        {"resource": "instances", "limit": None, "in_use": 1},
        {"resource": "cores", "limit": 4, "in_use": 3},
    ]
    assert (
        answer["table"][-1].split("  ")[0] == "shop"
        and "3 of 4" in answer["table"][-1]
        and "1 GiB of 2 GiB" in answer["table"][-1]
    )
    (one,) = run("quota_info", store_url=url, project="shop")["quotas"]
    assert one["project"] == "shop"


def test_a_claim_of_a_playbook_is_refused(url):
    quota(url, instances=1)
    selections = [selection(name, "kvm1", project="shop") for name in ("a", "b")]
    assert "Project shop has a limit of 1 for instances" in failure(
        "allocation", selections=selections, store_url=url
    )
    run("allocation", selections=selections[:1], store_url=url)
    raised = quota(url, instances=2)
    assert raised["changed"] is True
    run("allocation", selections=selections, store_url=url)


def test_a_resize_is_refused_before_anything_is_done(fleet_of_one):
    url, simulated = fleet_of_one
    quota(url, cores=2)
    before = fleets.snapshot(url)
    with pytest.raises(
        AnsibleActionFail,
        match="Project shop has a limit of 2 for cores. It uses 1, and 2 more are wanted",
    ):
        run("instance_resize", store_url=url, instances=["web"], vcpus=2)
    assert fleets.snapshot(url) == before and not [each for each in simulated.calls if not each[3]]
    quota(url, cores=3)
    run("instance_resize", store_url=url, instances=["web"], vcpus=2, timeout=1, force=True)
    (found,) = run("quota_info", store_url=url)["quotas"]
    assert found["resources"][1]["in_use"] == 3


@pytest.fixture
def fleet_of_one(fleet_url, there):
    """Return a fleet with the instance web in the project shop."""
    fleets.discover(
        fleet_url,
        host(
            "kvm1", domain("web", disk_gb=1, metadata={"project": "shop"}), domain("db", disk_gb=1)
        ),
    )
    there.calls.clear()
    return fleet_url, there


def test_the_report_has_the_projects_only_where_there_are_some(url):
    def shown():
        with Store.open(url).read() as connection:
            view = report_data.read(connection, Policy.from_mapping({}), fleets.NOW)
        return "\n".join(report_lines(view, fleets.NOW)), page(view, fleets.NOW).decode()

    lines, html = shown()
    assert "Projects:" not in lines and 'id="projects"' not in html
    quota(url, cores=2)
    fleets.claim(url, selection("a", "kvm1", vcpus=2, project="shop"))
    lines, html = shown()
    assert "shop" in lines.partition("Projects:")[2] and "2 of 2" in lines
    assert 'id="projects"' in html and "<td>2 of 2</td>" in html and "<td>cores</td>" in html
