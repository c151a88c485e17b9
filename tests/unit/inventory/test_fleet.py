# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin, as ansible-inventory runs it, over a real store."""

from __future__ import annotations

import json
import os
import re
import time

import pytest
import sqlalchemy as sa
import yaml
from hypothesis import given, strategies

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import instance_names
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.database import clock
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import aggregates
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import hosts
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests import deprecations
from ansible_collections.drover.compute.tests.unit import ansible_process, examples
from ansible_collections.drover.compute.tests.unit import postgres as server
from ansible_collections.drover.compute.tests.unit.store import fleets, prepared

postgres = server.postgres
store_url = server.store_url
prepared_sqlite = prepared.prepared_sqlite
prepared_postgres = prepared.prepared_postgres
prepared_url = prepared.prepared_url


def nic(*addresses):
    return [
        {
            "mac": "52:54:00:00:00:01",
            "type": "network",
            "source": "default",
            "addresses": list(addresses),
        }
    ]


@pytest.fixture
def url(store_url):
    fleets.discover(
        store_url,
        fleets.host(
            "kvm1",
            fleets.domain("web", memory_mb=1024, interfaces=nic("192.0.2.7", "2001:db8::7")),
            fleets.domain("twin"),
            availability_zone="az1",
            cell="east",
            traits=["CUSTOM_SSD"],
            hypervisor_type="QEMU",
            hypervisor_version=7002000,
        ),
        fleets.host("kvm2", {**fleets.domain("other"), "name": "twin"}, availability_zone="az2"),
        now=time.time(),
    )
    return store_url


def inventory(folder, url, *options, environment=None, **settings):
    """Run ansible-inventory; return (exit code, output)."""
    settings = {"plugin": "drover.compute.fleet", **settings}
    (folder / "fleet.drover.yml").write_text(yaml.safe_dump(settings))
    kept = {
        name: os.environ[name]
        for name in ("PATH", "ANSIBLE_COLLECTIONS_PATH", "LANG")
        if name in os.environ
    }
    status, output = ansible_process.run(
        folder,
        ["inventory", "-i", "fleet.drover.yml", *(options or ["--list"])],
        {
            **kept,
            "HOME": str(folder),
            "LC_ALL": "C.UTF-8",
            "DROVER_STORE_URL": url,
            **(environment or {}),
        },
    )
    deprecations.refuse(output)
    return status, output


def listed(folder, url, **settings):
    code, text = inventory(folder, url, **settings)
    assert code == 0, text
    return unwrapped(text)


def unwrapped(text):
    """Return the list of ansible-inventory without its wraps; it wraps texts that are never
    templates."""
    return json.loads(text, object_hook=lambda found: found.get("__ansible_unsafe", found))


def members(found):
    return {name: group["hosts"] for name, group in found.items() if "hosts" in group}


def test_the_default_store_is_found(tmp_path):
    """The file is in Ansible's home, as with modules and lookups, for any place of the inventory
    file."""
    home = tmp_path / ".ansible" / "drover"
    home.mkdir(parents=True)
    fleets.discover(f"sqlite:///{home}/store.db", fleets.host("kvm1"), now=time.time())
    code, text = inventory(tmp_path, "", environment={"DROVER_STORE_URL": ""})
    assert code == 0 and members(unwrapped(text))["hypervisors"] == ["kvm1"], text


def test_an_unknown_key_of_the_file_is_refused(url, tmp_path):
    code, text = inventory(tmp_path, url, service_down_tiem=5)
    assert "unknown key service_down_tiem (did you mean service_down_time?)" in " ".join(
        text.split()
    ), text


def test_hosts_with_their_groups_and_figures(url, tmp_path):
    with Store.open(url).write() as connection:
        aggregates.ensure(connection, "ssd", hosts=["kvm1"])
        host_state.change(connection, "kvm2", "maintenance", "new fan", None)
    listing = listed(tmp_path, url)
    assert members(listing) == {
        "hypervisors": ["kvm1", "kvm2"],
        "state_up": ["kvm1", "kvm2"],
        "state_enabled": ["kvm1"],
        "state_disabled": ["kvm2"],
        "state_maintenance": ["kvm2"],
        "zone_az1": ["kvm1"],
        "zone_az2": ["kvm2"],
        "aggregate_az1": ["kvm1"],
        "aggregate_az2": ["kvm2"],
        "aggregate_ssd": ["kvm1"],
        "cell_east": ["kvm1"],
        "hypervisor_type_QEMU": ["kvm1"],
        "hypervisor_version_7002000": ["kvm1"],
        "trait_CUSTOM_SSD": ["kvm1"],
    }
    host = listing["_meta"]["hostvars"]["kvm1"]["drover_compute"]
    assert (host["memory_mb"], host["memory_mb_used"], host["memory_mb_free"]) == (4096, 1088, 3008)
    with Store.open(url).read() as connection:
        (host_row,) = [
            each
            for each in hosts.listing(connection, clock.now(connection))
            if each["host"] == "kvm1"
        ]
    figures = {
        name: value
        for name, value in host_row.items()
        if name.startswith(("vcpus", "memory_mb", "disk_gb"))
    }
    assert len(figures) == 15 and figures.items() <= host.items(), "the names of host_info"
    assert host["memory_mb"] == host["memory_mb_capacity"] + host["memory_mb_reserved"]
    assert (host["vcpus_free"], host["instances"], host["zones"], host["traits"]) == (
        2,
        2,
        ["az1"],
        ["CUSTOM_SSD"],
    )
    assert listing["_meta"]["hostvars"]["kvm2"]["drover_compute"]["disabled_reason"] == "new fan"


def test_instances_as_hosts(url, tmp_path):
    listing = listed(tmp_path, url, instances=True)
    twins = sorted(f"twin-{fleets.uuid_of(name)}" for name in ("twin", "other"))
    assert sorted(listing["instances"]["hosts"]) == [*twins, "web"]
    web = listing["_meta"]["hostvars"]["web"]
    assert (web["ansible_host"], web["drover_compute"]["host"]) == ("192.0.2.7", "kvm1")
    assert "ansible_host" not in listing["_meta"]["hostvars"][twins[0]]


def test_labels_are_variables_and_groups(prepared_url, tmp_path):
    labelled = fleets.domain("web", metadata={"labels": "project=shop,app.kubernetes.io/name=x"})
    fleets.discover(
        prepared_url,
        fleets.host("kvm1", labelled, labels={"rack": "7", "a.b/c": "x"}),
        fleets.host("kvm2"),
        now=time.time(),
    )
    listing = listed(
        tmp_path,
        prepared_url,
        instances=True,
        keyed_groups=[{"key": "drover_compute.labels", "prefix": "fleet"}],
        strict=True,
    )
    variables = listing["_meta"]["hostvars"]
    assert variables["kvm1"]["drover_compute"]["labels"] == {"rack": "7", "a.b/c": "x"}
    assert variables["kvm2"]["drover_compute"]["labels"] == {}
    assert variables["web"]["drover_compute"]["labels"] == {
        "project": "shop",
        "app.kubernetes.io/name": "x",
    }
    groups = members(listing)
    assert groups["label_rack_7"] == groups["label_a_b_c_x"] == groups["fleet_rack_7"] == ["kvm1"]
    assert groups["fleet_project_shop"] == groups["fleet_app_kubernetes_io_name_x"] == ["web"]


def test_safety_08_a_label_of_an_instance_makes_it_no_hypervisor(prepared_url, tmp_path):
    """A hypervisor decides the labels of its guests."""
    guest = fleets.domain("web", metadata={"labels": "rack=7"})
    fleets.discover(
        prepared_url,
        fleets.host("kvm1", labels={"rack": "7"}),
        fleets.host("kvm2", guest),
        now=time.time(),
    )
    code, output = inventory(
        tmp_path,
        prepared_url,
        instances=True,
        keyed_groups=[{"key": "drover_compute.labels", "prefix": "label"}],
    )
    assert code == 0 and "keyed_groups would put instances into label_rack_7" in " ".join(
        output.split()
    )
    groups = members(unwrapped("{" + output.partition("{")[2]))
    assert groups["label_rack_7"] == ["kvm1"] and groups["instances"] == ["web"]


# Names of instances

OTHERS = {
    "all": {
        "hosts": {
            "other": {"ansible_host": "192.0.2.9", "drover_power_password": "theirs"},
            "bare": None,
        },
        "children": {
            "databases": {"hosts": {"db1": {"ansible_host": "192.0.2.8"}}, "vars": {"port": 5432}},
            "hypervisors": {"hosts": {"kvm1": {"ansible_host": "192.0.2.1"}, "kvm2": None}},
        },
    }
}
# Names of existing objects of all kinds; their guests have addresses.
TAKEN = [
    "kvm1",
    "kvm2",
    "other",
    "bare",
    "db1",
    "localhost",
    "127.0.0.1",
    "::1",
    "all",
    "ungrouped",
    "databases",
    "hypervisors",
    "instances",
    "state_up",
    "zone_az1",
    "roomy",
    "-oProxyCommand=touch pwned",
]


def hostile(url):
    guests = [
        {**fleets.domain(f"guest {name}"), "name": name, "interfaces": nic("198.51.100.7")}
        for name in TAKEN
    ]
    fleets.discover(
        url,
        fleets.host(
            "kvm1",
            *guests,
            fleets.domain("plain", interfaces=nic("198.51.100.8")),
            availability_zone="az1",
        ),
        fleets.host("kvm2"),
        now=time.time(),
    )


def form(name):
    return f"{name if name[0] != '-' else 'instance' + name}-{fleets.uuid_of(f'guest {name}')[:8]}"


@pytest.mark.parametrize("place", ["before", "after"])
def test_safety_08_an_instance_is_never_taken_for_a_host_a_group_or_this_machine(
    prepared_url, tmp_path, place
):
    """Names of domains and the order of the sources do not change the rest of the inventory."""
    hostile(prepared_url)
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(OTHERS))
    sources = ["-i", "hosts.yml", "-i", "fleet.drover.yml"]
    sources = sources[2:] + sources[:2] if place == "after" else sources
    settings = {
        "groups": {"roomy": "drover_compute.memory_mb_free is defined"},
        "compose": {"where": "drover_compute.host"},
    }

    def read(instances):
        (tmp_path / "fleet.drover.yml").write_text(
            yaml.safe_dump({"plugin": "drover.compute.fleet", "instances": instances, **settings})
        )
        done = examples.command(tmp_path, "ansible-inventory", *sources, "--list", url=prepared_url)
        assert done.returncode == 0, done.stdout
        return done.stdout.partition("{\n")[0], unwrapped("{" + done.stdout.partition("{")[2])

    dummy, without = read(False)
    output, listing = read(True)
    expected = {form(name) for name in TAKEN} | {"plain"}
    assert set(listing["instances"]["hosts"]) == expected
    variables = listing["_meta"]["hostvars"]
    for name in expected:
        assert (
            variables[name]["ansible_host"] in ("198.51.100.7", "198.51.100.8")
            and variables[name]["where"] == "kvm1"
        )
    assert {name: values for name, values in variables.items() if name not in expected} == without[
        "_meta"
    ]["hostvars"]
    groups = {
        name: group for name, group in listing.items() if name not in ("_meta", "instances", "all")
    }
    assert groups == {
        name: group for name, group in without.items() if name not in ("_meta", "all")
    }
    assert "localhost" not in variables
    text = " ".join(output.split())
    assert (
        "Instances with other names" in text
        and f"kvm2 is {form('kvm2')}" in text
        and "plain is" not in text
    )


def test_safety_08_no_group_of_others_by_what_an_instance_is_called(prepared_url, tmp_path):
    """keyed_groups make names of data: a project, a name, metadata."""
    names = {
        "a": "hypervisors",
        "b": "kvm2",
        "c": "databases",
        "d": "shop",
        "e": "zone_az1",
        "f": "trusted",
        "g": "instances",
    }
    guests = [fleets.domain(name, metadata={"project": project}) for name, project in names.items()]
    fleets.discover(
        prepared_url,
        fleets.host("kvm1", *guests, availability_zone="az1"),
        fleets.host("kvm2"),
        now=time.time(),
    )
    (tmp_path / "hosts.yml").write_text(yaml.safe_dump(OTHERS))
    keyed = [
        {
            "key": "drover_compute.project | default('')",
            "prefix": "",
            "separator": "",
            "parent_group": "databases",
        }
    ]
    settings = {"plugin": "drover.compute.fleet", "instances": True, "keyed_groups": keyed}
    settings["groups"] = {"trusted": "drover_compute.name | default('') == 'd'"}
    (tmp_path / "fleet.drover.yml").write_text(yaml.safe_dump(settings))
    done = examples.command(
        tmp_path,
        "ansible-inventory",
        "-i",
        "fleet.drover.yml",
        "-i",
        "hosts.yml",
        "--list",
        url=prepared_url,
    )
    assert done.returncode == 0, done.stdout
    listing = unwrapped("{" + done.stdout.partition("{")[2])
    groups = members(listing)
    assert (groups["hypervisors"], groups["databases"], groups["zone_az1"]) == (
        ["kvm1", "kvm2"],
        ["db1"],
        ["kvm1"],
    )
    # An instance may have its own group, also below a group that is in a file.
    assert groups["trusted"] == ["d"] and sorted(groups["instances"]) == sorted(names)
    assert (
        groups["shop"] == ["d"]
        and "shop" in listing["databases"]["children"]
        and "kvm2" not in listing
    )
    assert (
        "keyed_groups would put instances into databases, hypervisors, kvm2, trusted, zone_az1"
        in " ".join(done.stdout.split())
    )


def test_safety_08_an_address_that_is_none_is_not_given_to_ssh(prepared_url, tmp_path):
    """A value in the store may be older than the checks of the hosts' reports."""
    fleets.discover(
        prepared_url,
        fleets.host("kvm1", fleets.domain("web"), fleets.domain("app")),
        now=time.time(),
    )
    with Store.open(prepared_url).write() as connection:
        for name, address in (("web", "-oProxyCommand=touch pwned"), ("app", "{{ 6 * 7 }}")):
            facts = {"interfaces": [{"mac": None, "addresses": [address]}]}
            connection.execute(
                sa.update(tables.domains).where(tables.domains.c.name == name).values(facts=facts)
            )
    found = listed(tmp_path, prepared_url, instances=True)
    assert not any("ansible_host" in values for values in found["_meta"]["hostvars"].values())


NAMES = strategies.sampled_from(["kvm1", "a", "b", "a-", "-a", "localhost", ""]) | strategies.text(
    max_size=3
)
UUIDS = strategies.uuids(version=4).map(str)


@given(
    strategies.lists(strategies.tuples(NAMES, UUIDS), max_size=8, unique_by=lambda each: each[1]),
    strategies.sets(NAMES, max_size=5),
    strategies.data(),
)
def test_safety_08_each_instance_has_a_name_that_nothing_else_has(pairs, taken, data):
    instances = [{"name": name, "uuid": uuid} for name, uuid in pairs]
    if pairs:
        # A user may give an instance the longer name that another one would get.
        name, uuid = data.draw(strategies.sampled_from(pairs))
        for end in (8, 13, 36):
            instances.append({"name": f"{name}-{uuid[:end]}", "uuid": data.draw(UUIDS)})
    choice = instance_names.choose(instances, taken)
    assert sorted(each["uuid"] for each in choice.names.values()) == sorted(
        each["uuid"] for each in instances
    )
    assert not set(choice.names) & taken and not any(name.startswith("-") for name in choice.names)
    for name, instance in choice.names.items():
        alone = [other["name"] for other in instances].count(instance["name"]) == 1
        if (
            alone
            and instance["name"]
            and instance["name"] not in taken
            and not instance["name"].startswith("-")
        ):
            assert name == instance["name"]
        else:
            assert instance["uuid"][:8] in name
    turned = instance_names.choose(list(reversed(instances)), taken)
    assert turned == choice


def test_what_the_constructed_plugins_have(url, tmp_path):
    listing = listed(
        tmp_path,
        url,
        compose={"free_vcpus": "drover_compute.vcpus_free"},
        groups={"roomy": "drover_compute.memory_mb_free > 3500"},
        keyed_groups=[{"key": "drover_compute.zones", "prefix": "az"}],
        strict=True,
    )
    # A text before ansible-core 2.19.
    assert str(listing["_meta"]["hostvars"]["kvm1"]["free_vcpus"]) == "2"
    groups = members(listing)
    assert (groups["roomy"], groups["az_az1"], groups["az_az2"]) == (["kvm2"], ["kvm1"], ["kvm2"])


def test_what_is_in_the_store_is_no_template(url, tmp_path):
    """A name of an instance or a reason cannot run code on the controller."""
    hostile = "{{ 6 * 7 }}"
    fleets.discover(url, fleets.host("kvm3", fleets.domain(hostile)), now=time.time())
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm2", "disabled", hostile, None)
    (tmp_path / "fleet.drover.yml").write_text("{plugin: drover.compute.fleet, instances: true}")
    show = {
        "debug": {"msg": "<{{ drover_compute.disabled_reason | default(drover_compute.name) }}>"}
    }
    plays = [{"hosts": f"kvm2:~{re.escape('{{')}", "gather_facts": False, "tasks": [show]}]
    (tmp_path / "show.yml").write_text(yaml.safe_dump(plays))
    done = examples.command(
        tmp_path, "ansible-playbook", "-i", "fleet.drover.yml", "show.yml", url=url
    )
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(f"<{hostile}>") == 2, done.stdout


def test_awx_14_only_what_could_be_a_template_is_marked(url, tmp_path):
    """AWX shows what ansible-inventory writes, with the marks."""
    with Store.open(url).write() as connection:
        host_state.change(connection, "kvm1", "disabled", "new fan", None)
    code, text = inventory(tmp_path, url, instances=True)
    assert code == 0 and "new fan" in text and "__ansible_unsafe" not in text, text


def test_the_cache_answers_until_it_is_flushed(url, tmp_path):
    settings = {
        "cache": True,
        "cache_plugin": "ansible.builtin.jsonfile",
        "cache_connection": str(tmp_path / "cache"),
    }
    before = listed(tmp_path, url, **settings)
    fleets.discover(url, fleets.host("kvm3"), now=time.time())
    assert listed(tmp_path, url, **settings) == before
    # ansible and ansible-inventory have the option only since ansible-core 2.19.
    show = {"ansible.builtin.debug": {"var": "groups.hypervisors"}}
    (tmp_path / "show.yml").write_text(
        yaml.safe_dump([{"hosts": "localhost", "gather_facts": False, "tasks": [show]}])
    )
    done = examples.command(
        tmp_path, "ansible-playbook", "-i", "fleet.drover.yml", "show.yml", "--flush-cache", url=url
    )
    assert done.returncode == 0 and "kvm3" in done.stdout, done.stdout


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"store_url": "sqlite:////nowhere/store.db"}, "/nowhere/store.db"),
        ({"store_url": "postgresql://drover:topsecret@127.0.0.1:1/drover"}, "127.0.0.1"),
        ({"traits": {"a": 1}}, "traits"),
    ],
)
def test_what_is_wrong_is_said(tmp_path, settings, words):
    code, text = inventory(tmp_path, "sqlite:////nowhere/other.db", **settings)
    assert words in text
    assert "topsecret" not in text
    assert "Traceback" not in text


def test_a_file_of_another_name_is_not_taken(url, tmp_path):
    (tmp_path / "hosts.yml").write_text("all: {hosts: {a: }}\n")
    code, text = inventory(tmp_path, url, "-i", "hosts.yml", "--list")
    assert code == 0
    assert "a" in json.loads(text)["_meta"].get("hostvars", {}) or "ungrouped" in json.loads(text)
