# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A definitions file is the request: its sections are kept in the store, and the claim is the
request of the file."""

from __future__ import annotations

import os
import socket

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import resize_destination
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    instance_lookup,
    instances_for_plans,
)
from ansible_collections.drover.compute.tests.unit.action.running import (
    failure,
    is_plain,
    play,
    run,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

SECTIONS = """
flavors:
  - name: small
    vcpus: 2
    memory_mb: 512
    disk_gb: 5
    extra_specs: {"trait:CUSTOM_SSD": required}
images:
  - name: debian-12
    source: https://example.com/debian-12.qcow2
    checksum: sha256:0000000000000000000000000000000000000000000000000000000000000000
    properties: {hw_architecture: x86_64}
aggregates:
  - name: ssd
    hosts: [kvm2]
    metadata: {ssd: "true"}
server_groups:
  - {name: web, policy: anti-affinity, max_moving: 1}
"""


@pytest.fixture
def url(prepared_url):
    x86 = {"supported_instances": [["x86_64", "kvm", "hvm"]]}
    arm = {"supported_instances": [["aarch64", "kvm", "hvm"]]}
    fleets.discover(prepared_url, host("kvm1", **arm), host("kvm2", **x86), host("kvm3", **x86))
    run("trait", name="CUSTOM_SSD", store_url=prepared_url)
    for name in ("kvm2", "kvm3"):
        run("resource_provider", name=name, traits=["CUSTOM_SSD"], store_url=prepared_url)
    return prepared_url


@pytest.fixture
def fleet(url, tmp_path):
    """Return the decision of the role place: a function text -> claims by name."""
    return Fleet(url, tmp_path / "fleet.yml")


class Fleet:
    """One definitions file with a store."""

    def __init__(self, url, path):
        self.url, self.path = url, path

    def write(self, text):
        self.path.write_text(text)
        return self

    def read(self, **more):
        return run("_definitions", path=str(self.path), store_url=self.url, **more)

    def schedule(self, check=False, **policy):
        read = self.read()
        requests = [each["request"] for each in read["instances"] if each["state"] == "new"]
        return run(
            "_schedule",
            requests=requests,
            sections=read["sections"],
            policy=policy,
            store_url=self.url,
            check=check,
        )["selections"]

    def place(self, **policy):
        """Decide and claim, as roles/place/tasks/decide.yml does; return {name: claim}."""
        self.read(keep=True)
        found = self.read()["instances"]
        begun = [each["selection"] for each in found if each["state"] == "building"]
        claimed = run(
            "allocation",
            selections=[*self.schedule(**policy), *begun],
            of_definitions=True,
            store_url=self.url,
        )
        return {each["name"]: each for each in claimed["claims"]}

    def refused(self, **policy):
        self.read(keep=True)
        requests = [each["request"] for each in self.read()["instances"]]
        return failure("_schedule", requests=requests, policy=policy, store_url=self.url)

    def instances(self):
        with Store.open(self.url).read() as connection:
            return {each["name"]: each for each in instances_for_plans.read_instances(connection)}


def test_sections_are_kept_once(fleet):
    fleet.write(SECTIONS)
    before = fleets.snapshot(fleet.url)
    dry_run = fleet.read(keep=True, check=True, diff=True)
    assert dry_run["changed"] and fleets.snapshot(fleet.url) == before
    assert [each["before_header"] for each in dry_run["diff"]] == [
        "flavor small",
        "image debian-12",
        "aggregate ssd",
        "server group web",
    ]
    done = fleet.read(keep=True, diff=True)
    assert (
        done["diff"] == dry_run["diff"]
        and is_plain(done)
        and all(each["before"] == {} for each in done["diff"])
    )
    assert fleet.read(keep=True, diff=True) == {**done, "changed": False, "diff": []}
    flavor = run("flavor", name="small", store_url=fleet.url, check=True)
    assert not flavor["changed"] and flavor["flavor"]["extra_specs"] == {
        "trait:CUSTOM_SSD": "required"
    }
    assert not run(
        "aggregate", name="ssd", hosts=["kvm2"], metadata={"ssd": "true"}, store_url=fleet.url
    )["changed"]
    assert not run(
        "server_group", name="web", policy="anti-affinity", max_moving=1, store_url=fleet.url
    )["changed"]


def test_what_is_changed_in_the_file_is_changed_in_the_store_and_nothing_else(fleet):
    fleet.write(SECTIONS).read(keep=True)
    run("aggregate", name="ssd", hosts=["kvm3"], metadata={"rack": "7"}, store_url=fleet.url)
    changed = SECTIONS.replace("memory_mb: 512", "memory_mb: 1GiB").replace(
        "{hw_architecture: x86_64}", "{hw_architecture: null, a: b}"
    )
    done = fleet.write(changed.replace('{ssd: "true"}', "{ssd: null}")).read(keep=True, diff=True)
    diffs = {each["before_header"]: each for each in done["diff"]}
    assert set(diffs) == {"flavor small", "image debian-12", "aggregate ssd"}
    assert (
        diffs["flavor small"]["before"]["memory_mb"],
        diffs["flavor small"]["after"]["memory_mb"],
    ) == (512, 1024)
    assert diffs["image debian-12"]["after"]["properties"] == {"a": "b"}
    assert diffs["aggregate ssd"]["after"] == {
        "name": "ssd",
        "hosts": ["kvm2", "kvm3"],
        "metadata": {"rack": "7"},
    }
    gone = SECTIONS.replace("hosts: [kvm2]", "remove_hosts: [kvm3]")
    (diff,) = [
        each
        for each in fleet.write(gone).read(keep=True, diff=True)["diff"]
        if each["before_header"] == "aggregate ssd"
    ]
    assert diff["after"]["hosts"] == ["kvm2"]


def test_a_section_that_cannot_be_kept_keeps_nothing(fleet):
    before = fleets.snapshot(fleet.url)
    fleet.write(SECTIONS.replace("[kvm2]", "[kvm9]"))
    assert "Aggregate ssd: host kvm9 is not in the store" in failure(
        "_definitions", path=str(fleet.path), keep=True, store_url=fleet.url
    )
    assert fleets.snapshot(fleet.url) == before


def test_what_is_claimed_is_what_was_asked(fleet):
    run("resource_class", name="CUSTOM_LICENCE", store_url=fleet.url)
    inventories = {"CUSTOM_LICENCE": {"total": 4}}
    for name in ("kvm1", "kvm3"):
        run("resource_provider", name=name, inventories=inventories, store_url=fleet.url)
    claims = fleet.write(
        SECTIONS
        + """
instances:
  - name: web
    flavor: small
    image: debian-12
    resources: {CUSTOM_LICENCE: 2}
    traits: {forbidden: [CUSTOM_SLOW]}
    project: shop
"""
    ).place()
    # The trait is on kvm2 and kvm3, the licences on kvm1 and kvm3.
    assert claims["web"]["host"] == "kvm3"
    assert list(fleets.holdings(fleet.url).values()) == [
        {"kvm3": {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 5, "CUSTOM_LICENCE": 2}}
    ]
    web = fleet.instances()["web"]
    assert (web["flavor"], web["image"], web["image_name"]) == (
        "small",
        {"hw_architecture": "x86_64"},
        "debian-12",
    )
    assert web["extra_specs"] == {"trait:CUSTOM_SSD": "required", "trait:CUSTOM_SLOW": "forbidden"}
    assert web["required_traits"] == ["CUSTOM_SSD"]
    # A second run finds the claim and claims nothing; a definition that has changed since is
    # refused.
    assert fleet.place()["web"]["new"] is False
    fleet.path.write_text(fleet.path.read_text().replace("[CUSTOM_SLOW]", "[CUSTOM_OTHER]"))
    (begun,) = fleet.read()["instances"]
    refused = failure(
        "allocation", selections=[begun["selection"]], of_definitions=True, store_url=fleet.url
    )
    assert (
        "extra_specs was {'trait:CUSTOM_SLOW': 'forbidden'} and is {'trait:CUSTOM_OTHER':"
        " 'forbidden'}" in refused
    )


def test_what_was_asked_stays_with_the_instance(fleet):
    """The request stays after a discovery has seen the domain, and counts for a move and a
    resize.
    """
    fleet.write(
        "instances: [{name: web, memory_mb: 64, traits: {required: [CUSTOM_SSD]}, image: {name: i,"
        ' properties: {a: "b"}}}]'
    ).place()
    web = fleet.instances()["web"]
    fleets.discover(fleet.url, host(web["host"], domain("web") | {"uuid": web["uuid"]}))
    after = fleet.instances()["web"]
    assert after["state"] == "running"
    assert {key: after[key] for key in ("extra_specs", "image", "image_name")} == {
        "extra_specs": {"trait:CUSTOM_SSD": "required"},
        "image": {"a": "b"},
        "image_name": "i",
    }
    with Store.open(fleet.url).read() as connection:
        request = resize_destination.request(
            connection, *instance_lookup.find(connection, [web["uuid"]])
        )
    assert request["extra_specs"] == {"trait:CUSTOM_SSD": "required"}
    assert request["image"] == {
        "name": "i",
        "id": None,
        "disk_format": None,
        "properties": {"a": "b"},
    }


def test_count_makes_instances_with_names_of_their_own(fleet):
    text = "instances:\n  - {name: web, count: 3, flavor: small, server_group: web}\n"
    claims = fleet.write(SECTIONS.replace("max_moving: 1", "max_server_per_host: 2") + text).place()
    assert (
        sorted(claims) == ["web-1", "web-2", "web-3"]
        and len({each["uuid"] for each in claims.values()}) == 3
    )
    assert sorted(each["host"] for each in claims.values()) in (
        ["kvm2", "kvm2", "kvm3"],
        ["kvm2", "kvm3", "kvm3"],
    )
    assert {each["new"] for each in fleet.place().values()} == {False}
    fleets.build(fleet.url)
    answer = fleet.read(write_back=True)
    assert {each["name"]: each["uuid"] for each in answer["instances"]} == {
        name: each["uuid"] for name, each in claims.items()
    }
    # The store knows them; the file has no new lines.
    assert not answer["changed"] and fleet.path.read_text().endswith(text)
    # One more instance gives one more claim.
    fleet.path.write_text(fleet.path.read_text().replace("count: 3", "count: 4"))
    more = fleet.place()
    assert [name for name, each in more.items() if each["new"]] == ["web-4"]


def test_instances_of_a_count_that_were_removed(fleet):
    fleet.write("instances:\n  - {name: web, count: 2, memory_mb: 64}\n")
    answer = fleet.read(mark_absent=["web-2"])
    assert (answer["changed"], answer["unmarked"]) == (False, ["web-2"])
    answer = fleet.read(mark_absent=["web-1", "web-2"])
    assert (answer["changed"], answer["unmarked"]) == (True, [])
    assert fleet.read()["absent"] == ["web-1", "web-2"]


def test_names_that_nothing_describes(fleet):
    fleet.write(SECTIONS + "instances:\n  - {name: web, flavor: smal}\n")
    message = failure("_definitions", path=str(fleet.path), store_url=fleet.url)
    assert (
        "fleet.yml line 20: instance web: flavor smal is neither under flavors nor in the store"
        " (did you mean small?)" in message
    )
    fleet.write(SECTIONS + "instances:\n  - {name: web, flavor: small, image: debian-13}\n")
    message = failure("_definitions", path=str(fleet.path), store_url=fleet.url)
    assert (
        "instance web: image debian-13 is neither under images nor in the store. There are:"
        " debian-12." in message
    )


def test_check_mode_decides_as_the_run_would(fleet):
    """Flavors, images and aggregates that only the file has are in the store for the decision, and
    not after it."""
    fleet.write(
        SECTIONS
        + """
instances:
  - {name: web, flavor: small, image: debian-12, extra_specs: {"aggregate_instance_extra_specs:ssd": "true"}}
"""
    )
    before = fleets.snapshot(fleet.url)
    policy = {
        "enabled_filters": [
            "ComputeFilter",
            "AggregateInstanceExtraSpecsFilter",
            "ImagePropertiesFilter",
        ]
    }
    (told,) = fleet.schedule(check=True, **policy)
    assert (told["host"], told["alternates"]) == ("kvm2", [])
    assert fleets.snapshot(fleet.url) == before
    assert fleet.place(**policy)["web"]["host"] == "kvm2"


def test_image_properties_filter(fleet):
    policy = {"enabled_filters": ["ImagePropertiesFilter"]}
    text = (
        "images:\n  - {name: arm, properties: {hw_architecture: %s}}\ninstances:\n  - {name: web,"
        " memory_mb: 64, image: arm}\n"
    )
    assert fleet.write(text % "aarch64").place(**policy)["web"]["host"] == "kvm1"
    fleet.write((text % "s390x").replace("web", "db"))
    assert "ImagePropertiesFilter rejected 3" in fleet.refused(**policy)


def test_aggregate_image_properties_isolation(fleet):
    policy = {"enabled_filters": ["AggregateImagePropertiesIsolation"]}
    fleet.write("""
images:
  - {name: win, properties: {os_type: windows}}
  - {name: lin, properties: {os_type: linux}}
aggregates:
  - {name: licensed, hosts: [kvm2], metadata: {os_type: windows}}
  - {name: free, hosts: [kvm1, kvm3], metadata: {os_type: linux}}
instances:
  - {name: win, memory_mb: 64, image: win}
  - {name: lin, memory_mb: 64, image: lin, count: 3}
""")
    claims = fleet.place(**policy)
    assert claims["win"]["host"] == "kvm2"
    assert {each["host"] for name, each in claims.items() if name != "win"} <= {"kvm1", "kvm3"}


@pytest.mark.parametrize("image", ["secret", "{name: secret}"])
def test_isolated_hosts_filter(fleet, image):
    policy = {
        "enabled_filters": ["IsolatedHostsFilter"],
        "isolated_images": ["secret"],
        "isolated_hosts": ["kvm3"],
    }
    fleet.write(f"""
images: [{{name: secret}}, {{name: plain}}]
instances:
  - {{name: hidden, memory_mb: 64, image: {image}}}
  - {{name: open, memory_mb: 64, image: plain, count: 3}}
""")
    claims = fleet.place(**policy)
    assert claims["hidden"]["host"] == "kvm3"
    assert {each["host"] for name, each in claims.items() if name != "hidden"} <= {"kvm1", "kvm2"}
    # The name stays with the instance: a plan for its move calls the filter again.
    assert fleet.instances()["hidden"]["image_name"] == "secret"


def test_other_keys_of_a_request_reach_the_scheduler(fleet):
    claims = fleet.write("""
instances:
  - {name: a, memory_mb: 64, requested_destination: {host: kvm1}}
  - {name: b, memory_mb: 64, force_hosts: kvm2}
  - {name: c, memory_mb: 64, ignore_hosts: [kvm1, kvm2]}
  - {name: d, memory_mb: 2048, scheduler: {weighers: {RAMWeigher: -1.0}}, ignore_hosts: [kvm2]}
""").place()
    assert {name: each["host"] for name, each in claims.items()} == {
        "a": "kvm1",
        "b": "kvm2",
        "c": "kvm3",
        "d": "kvm1",
    }


def test_the_module_image(url):
    image = {
        "name": "arm",
        "properties": {"hw_architecture": "aarch64", "a": "b"},
        "source": "/srv/arm.qcow2",
        "store_url": url,
    }
    before = fleets.snapshot(url)
    dry_run = run("image", check=True, diff=True, **image)
    assert dry_run["changed"] and fleets.snapshot(url) == before
    made = run("image", diff=True, **image)
    assert made["changed"] and made["diff"] == dry_run["diff"] and is_plain(made)
    assert run("image", **image)["changed"] is False
    less = run("image", name="arm", properties={"a": None}, store_url=url)
    assert (less["changed"], less["image"]) == (
        True,
        {**made["image"], "properties": {"hw_architecture": "aarch64"}},
    )
    # A request may name it.
    policy = {"enabled_filters": ["ImagePropertiesFilter"]}
    request = {"name": "web", "vcpus": 1, "memory_mb": 64, "image": "arm"}
    (found,) = run("_schedule", requests=[request], policy=policy, store_url=url)["selections"]
    assert (found["host"], found["alternates"], found["image_name"]) == ("kvm1", [], "arm")
    assert "image arm: checksum must be sha256: and 64" in failure(
        "image", name="arm", checksum="1", store_url=url
    )
    assert run("image", name="arm", state="absent", store_url=url)["changed"]
    assert not run("image", name="arm", state="absent", store_url=url)["changed"]


@pytest.mark.long
def test_the_role_place_keeps_and_decides(url, tmp_path):
    (tmp_path / "fleet.yml").write_text(
        SECTIONS
        + "instances:\n  - {name: web, count: 2, flavor: small, image: debian-12, server_group:"
        " web}\n"
    )
    decide = {
        "ansible.builtin.include_role": {"name": "drover.compute.place", "tasks_from": "decide"}
    }
    show = {
        "ansible.builtin.debug": {
            "msg": "GOES TO {{ place_claims | map(attribute='host') | sort | join(' ') }}."
        }
    }
    values = {"drover_store_url": url, "drover_definitions": str(tmp_path / "fleet.yml")}
    before = fleets.snapshot(url)
    code, output = play(tmp_path, [decide, show], options=["--check", "--diff"], vars=values)
    assert code == 0 and "GOES TO kvm2 kvm3." in output and "flavor small" in output, output
    assert fleets.snapshot(url) == before
    code, output = play(tmp_path, [decide, show], vars=values)
    assert code == 0 and "GOES TO kvm2 kvm3." in output, output
    code, output = play(tmp_path, [decide, show], vars=values)
    assert code == 0 and "changed=0" in output, output


def test_walk_f01_what_was_claimed_and_is_in_the_file_no_more_is_released(fleet, url):
    """The run was killed before the end of the build. If the run is still at work, the instance
    keeps its room, like an instance of another file during its build."""
    ended = f"root@{socket.gethostname()}, process {2**22 + 1}"
    mine = f"root@{socket.gethostname()}, process {os.getpid()}"
    for name, actor in (("gone", ended), ("other", mine), ("ours", ended)):
        with Store.open(url).write(together=True) as connection:
            chosen = fleets.selection(name, "kvm2", explanation={"hosts": 3, "filters": []})
            claims.claim(connection, [chosen], fleets.NOW, actor=actor, defined=True)
    fleet.write("instances: [{name: ours, vcpus: 1, memory_mb: 64}]")
    arguments = {"path": str(fleet.path), "keep": True, "store_url": url}
    foreseen = run("_definitions", check=True, **arguments)
    assert foreseen["released"] == ["gone"] and set(fleets.holdings(url)) == {
        fleets.uuid_of(name) for name in ("gone", "other", "ours")
    }
    assert run("_definitions", **arguments)["released"] == ["gone"]
    assert set(fleets.holdings(url)) == {fleets.uuid_of(name) for name in ("other", "ours")}
    assert run("_definitions", **arguments)["changed"] is False
