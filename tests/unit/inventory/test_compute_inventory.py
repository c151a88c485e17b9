# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The inventory plugin, as ansible-inventory runs it, over a real store."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils.store import Store, aggregates
from ansible_collections.drover.compute.plugins.plugin_utils.tracker import host_status
from ansible_collections.drover.compute.tests.unit import examples
from ansible_collections.drover.compute.tests.unit import postgres as server
from ansible_collections.drover.compute.tests.unit.store import fleets

postgres = server.postgres
store_url = server.store_url


def nic(*addresses):
    return [{"mac": "52:54:00:00:00:01", "type": "network", "source": "default", "addresses": list(addresses)}]


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
    """What ansible-inventory says: (exit code, output)."""
    settings = {"plugin": "drover.compute.compute", **settings}
    (folder / "fleet.drover.yml").write_text(yaml.safe_dump(settings))
    kept = {name: os.environ[name] for name in ("PATH", "ANSIBLE_COLLECTIONS_PATH", "LANG") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "ansible", "inventory", "-i", "fleet.drover.yml", *(options or ["--list"])],
        cwd=folder,
        env={**kept, "HOME": str(folder), "LC_ALL": "C.UTF-8", "DROVER_STORE_URL": url, **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def listed(folder, url, **settings):
    code, text = inventory(folder, url, **settings)
    assert code == 0, text
    # As it writes what is never taken for a template.
    return json.loads(text, object_hook=lambda found: found.get("__ansible_unsafe", found))


def members(found):
    return {name: group["hosts"] for name, group in found.items() if "hosts" in group}


def test_hosts_with_their_groups_and_figures(url, tmp_path):
    with Store.open(url).write() as connection:
        aggregates.ensure(connection, "ssd", hosts=["kvm1"])
        host_status.change(connection, "kvm2", "maintenance", "new fan", None)
    found = listed(tmp_path, url)
    assert members(found) == {
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
    host = found["_meta"]["hostvars"]["kvm1"]["drover_compute"]
    assert (host["memory_mb"], host["memory_mb_used"], host["memory_mb_free"]) == (4096, 1088, 3008)
    assert (host["vcpus_free"], host["instances"], host["zones"], host["traits"]) == (2, 2, ["az1"], ["CUSTOM_SSD"])
    assert found["_meta"]["hostvars"]["kvm2"]["drover_compute"]["disabled_reason"] == "new fan"


def test_instances_as_hosts(url, tmp_path):
    found = listed(tmp_path, url, instances=True)
    twins = sorted(f"twin-{fleets.uuid_of(name)}" for name in ("twin", "other"))
    assert sorted(found["instances"]["hosts"]) == [*twins, "web"]
    web = found["_meta"]["hostvars"]["web"]
    assert (web["ansible_host"], web["drover_compute"]["host"]) == ("192.0.2.7", "kvm1")
    assert "ansible_host" not in found["_meta"]["hostvars"][twins[0]]


def test_what_the_constructed_plugins_have(url, tmp_path):
    found = listed(
        tmp_path,
        url,
        compose={"free_vcpus": "drover_compute.vcpus_free"},
        groups={"roomy": "drover_compute.memory_mb_free > 3500"},
        keyed_groups=[{"key": "drover_compute.zones", "prefix": "az"}],
        strict=True,
    )
    assert found["_meta"]["hostvars"]["kvm1"]["free_vcpus"] == 2
    groups = members(found)
    assert (groups["roomy"], groups["az_az1"], groups["az_az2"]) == (["kvm2"], ["kvm1"], ["kvm2"])


def test_what_is_in_the_store_is_no_template(url, tmp_path):
    """Whoever names an instance or gives a reason does not thereby run anything on the controller."""
    hostile = "{{ 6 * 7 }}"
    fleets.discover(url, fleets.host("kvm3", fleets.domain(hostile)), now=time.time())
    with Store.open(url).write() as connection:
        host_status.change(connection, "kvm2", "disabled", hostile, None)
    (tmp_path / "fleet.drover.yml").write_text("{plugin: drover.compute.compute, instances: true}")
    show = {"debug": {"msg": "<{{ drover_compute.disabled_reason | default(drover_compute.name) }}>"}}
    plays = [{"hosts": f"kvm2:~{re.escape('{{')}", "gather_facts": False, "tasks": [show]}]
    (tmp_path / "show.yml").write_text(yaml.safe_dump(plays))
    done = examples.command(tmp_path, "ansible-playbook", "-i", "fleet.drover.yml", "show.yml", url=url)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count(f"<{hostile}>") == 2, done.stdout


def test_the_cache_answers_until_it_is_flushed(url, tmp_path):
    settings = {"cache": True, "cache_plugin": "ansible.builtin.jsonfile", "cache_connection": str(tmp_path / "cache")}
    before = listed(tmp_path, url, **settings)
    fleets.discover(url, fleets.host("kvm3"), now=time.time())
    assert listed(tmp_path, url, **settings) == before
    code, text = inventory(tmp_path, url, "--list", "--flush-cache", **settings)
    assert (code, json.loads(text)["hypervisors"]["hosts"]) == (0, ["kvm1", "kvm2", "kvm3"])


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
