# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a hypervisor are input: refused facts, omitted facts, and proof that no writer
avoids the check."""

from __future__ import annotations

import ast
import copy
import pathlib
import re
import urllib.parse

import pytest
from ansible.errors import AnsibleActionFail
from hypothesis import example, given, settings, strategies

from ansible_collections.drover.compute.plugins.action import compute_node
from ansible_collections.drover.compute.plugins.module_utils._domain import definition
from ansible_collections.drover.compute.plugins.module_utils._host import storage
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import (
    checked_facts,
    domain,
    node,
)
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets

PLUGINS = pathlib.Path(__file__).resolve().parents[3] / "plugins"
DISK = {
    "target": "vda",
    "device": "disk",
    "bus": "virtio",
    "type": "file",
    "source": "/srv/web.qcow2",
    "format": "qcow2",
    "cache": None,
    "readonly": False,
    "shareable": False,
    "capacity_bytes": 2**40,
    "allocation_bytes": 200704,
}
FILE = {
    "type": "file",
    "source": "/srv/vars",
    "format": "raw",
    "written": True,
    "path": "/srv/vars",
    "real_path": None,
    "shared_id": None,
    "chain": [],
}
NIC = {
    "mac": "52:54:00:00:00:01",
    "type": "network",
    "source": "default",
    "model": "virtio",
    "target": None,
    "addresses": ["192.0.2.5", "fe80::1"],
}
FACTS = {
    "uri": "qemu:///system",
    "hypervisor_hostname": "kvm1.example.com",
    "hypervisor_type": "QEMU",
    "hypervisor_version": 7002011,
    "libvirt_version": 9000000,
    "host_uuid": fleets.uuid_of("host"),
    "cpu": {
        "arch": "x86_64",
        "model": "EPYC-v4",
        "vendor": "AMD",
        "features": ["aes", "sse4.1"],
        "count": 2,
        "online": [0, 1],
        "mhz": 2000,
        "topology": {"cells": 1, "sockets": 1, "cores": 2, "threads": 1},
    },
    "memory_mb": 24576,
    "memory_used_mb": -3,
    "numa_cells": [
        {
            "id": 0,
            "memory_mb": 24576,
            "cpus": [{"id": 0, "socket": 0, "core": 0, "siblings": [0]}],
            "pages": [{"size_kb": 4, "count": 2**33}],
        }
    ],
    "storage": {
        "instances_path": "/srv",
        "total_gb": 100,
        "used_gb": 40,
        "free_gb": 60,
        "shared_id": None,
        "disk_available_least_gb": -5,
    },
    "pools": [
        {
            "name": "default",
            "uuid": fleets.uuid_of("pool"),
            "type": "dir",
            "state": "running",
            "path": "/srv",
            "shared_id": "nfs:a:/x",
            "capacity_gb": 100.3,
            "allocation_gb": 40,
            "available_gb": 60.2,
            "autostart": True,
            "persistent": True,
        }
    ],
    "missing_drivers": [
        {
            "driver": "secret",
            "package": "a (Debian, Ubuntu) or b (Fedora, RHEL, SUSE)",
            "daemon": "virtsecretd",
        }
    ],
    "missing_pool_types": {"iscsi-direct": "libvirt-daemon-driver-storage-iscsi-direct"},
    "networks": [
        {"name": "default", "uuid": fleets.uuid_of("net"), "bridge": None, "active": True}
    ],
    "supported_instances": [["x86_64", "kvm", "hvm"]],
    "pci_devices": [
        {
            "address": "0000:3b:00.0",
            "product": "Ünlimited <GPU>",
            "mdev_types": [],
            "iommu_group": 12,
            "numa_node": None,
        }
    ],
    "mdev_devices": [],
    "untold_domains": [],
    "domains": [
        {
            **fleets.domain("web"),
            "disks": [DISK],
            "other_files": [FILE],
            "interfaces": [NIC],
            "hostdevs": [],
            "metadata": {"project": "shop\n2"},
            "title": "tät",
            "xml": "<domain>\n\t</domain>",
            "persistent": True,
        }
    ],
}
HOSTILE = [
    "",
    "\0",
    "a\0b",
    "\ud800",
    "x" * 300,
    "../../etc/passwd",
    "kvm2/system?command=/tmp/evil&no_verify=1#",
    "-oProxyCommand=x",
    "{{ lookup('pipe', 'id') }}",
    "a b",
    "a\nb",
    "[::1]",
    "kvm2@",
    "%2e",
    7,
    -1,
    2**70,
    1.5,
    float("nan"),
    True,
    None,
    [],
    {},
    [[]],
]


def reported(**changes):
    return checked_facts.reported({**copy.deepcopy(FACTS), **changes}, "Host kvm1")


def test_what_hypervisors_really_say_passes():
    report = reported()
    assert report.facts.reported == FACTS and report.facts.domains == FACTS["domains"]
    assert report.untold == report.sentences == []
    assert set(checked_facts.STATES) == set(definition.STATES)
    assert set(checked_facts.POOL_STATES) == {*storage._POOL_STATES, "unknown"}


@pytest.mark.parametrize(
    "name",
    [
        "kvm3/system?command=/tmp/evil.sh&no_verify=1#",
        "kvm3:22",
        "root@kvm3",
        "kvm 3",
        "kvm3\n",
        "-oProxyCommand=x",
        "",
        ".",
        "kvm3%",
        "kvm\0",
        None,
        5,
        "[::1]",
        "kvm3?",
        "kvm3#",
        "ümlaut",
        "x" * 256,
    ],
)
def test_safety_10_a_host_name_has_a_strict_form(name):
    with pytest.raises(
        DroverError, match="^Host kvm1: hypervisor_hostname must be the name of a host"
    ):
        reported(hypervisor_hostname=name)


@pytest.mark.parametrize("name", ["kvm1", "KVM-1.example.com", "10.0.0.1", "a", "node_7"])
def test_names_that_hosts_have(name):
    assert reported(hypervisor_hostname=name).facts.name == name


@pytest.mark.parametrize(
    ("path", "values"),
    [
        (("hypervisor_type",), ["", "\0", "a" * 65, 7, [], "<b>"]),
        (("hypervisor_version",), [-1, 2**31, "7", True, 1.5]),
        (("memory_mb",), [-1, 2**31, "64", [64]]),
        (("memory_used_mb",), ["much", 2**40]),
        (("host_uuid",), ["x", "../../x", fleets.uuid_of("x").upper(), 5]),
        (("cpu",), ["x86", []]),
        (("cpu", "arch"), ["x86_64'><script>", 5]),
        (("cpu", "count"), [-1, "2", 2**16 + 1]),
        (("cpu", "online"), [[-1], ["0"], [2**40], 5]),
        (("cpu", "features"), ["aes", ["\0"], [5], ["x" * 300]]),
        (("cpu", "topology", "cores"), [-2, "a"]),
        (("storage",), [[], "x"]),
        (("storage", "total_gb"), [-100, 2**60, "1"]),
        (("storage", "disk_available_least_gb"), ["x", 2**40]),
        (("storage", "shared_id"), [5, "", "\0", "x" * 5000]),
        (("pools",), [{}, "x", [5]]),
        (("pools", 0, "name"), ["", None, 5, "\0", "x" * 300]),
        (("pools", 0, "path"), [5, "\0"]),
        (("pools", 0, "uuid"), ["../x"]),
        (("pools", 0, "state"), ["fine"]),
        (("pools", 0, "capacity_gb"), [-1, "x", float("nan"), float("inf")]),
        (
            ("supported_instances",),
            [[["x86_64", "kvm"]], [5], "kvm", [["x86_64", "kvm' x='", "hvm"]]],
        ),
        (
            ("guest_hardware",),
            [[5], "x", {"firmware": "efi"}, {"firmware": [5]}, {"tpm_models": ["<x>"]}],
        ),
        (
            ("host_model",),
            [
                [5],
                "x",
                {"model": "<x>"},
                {"model": "x", "type": "xen"},
                {"model": "x", "features": ["<"]},
                {"model": "x", "arch": 5},
            ],
        ),
        (
            ("missing_drivers",),
            [
                5,
                [5],
                [{"driver": []}],
                [{"driver": "storage"}],
                [{"driver": "rm", "package": "x", "daemon": None}],
                [{"driver": "storage", "package": "\0", "daemon": None}],
                [{"driver": "storage", "package": "x", "daemon": "a;b"}],
            ],
        ),
        (("missing_pool_types",), [5, [], {"rbd": 5}, {"rbd": ""}, {"<x>": "x"}]),
        (("networks",), [[5], "x", [{"name": "\0"}]]),
        (("pci_devices",), [[{"a": [[[[[[[[[[1]]]]]]]]]]}], [{"a": 2**70}], [{"a": float("nan")}]]),
        (("pci_devices", 0, "address"), ["", None, "3b:00.0", "0000:3b:00.0\n", 5]),
        (("pci_devices", 0, "vendor_id"), ["10dex", 5, "0x10de"]),
        (("pci_devices", 0, "class"), ["0300"]),
        (("pci_devices", 0, "parent_addr"), ["PF"]),
        (("pci_devices", 0, "dev_type"), ["type-GPU", []]),
        (("pci_devices", 0, "numa_node"), [-1, "0"]),
        (("pci_devices", 0, "interface"), [["ens1"]]),
        (
            ("mdev_types",),
            [
                [{}],
                [{"parent": "a b", "type": "t", "available_instances": 1}],
                [{"parent": "p", "type": "t"}],
                [{"parent": "p", "type": "t", "available_instances": -1}],
            ],
        ),
        (
            ("mdev_devices",),
            [
                [{"uuid": "x"}],
                [{"uuid": fleets.uuid_of("m"), "parent": "p"}],
                [{"uuid": fleets.uuid_of("m"), "parent": "p", "type": "t", "active": "no"}],
                [{"uuid": fleets.uuid_of("m"), "parent": "p", "type": "t"}] * 2,
            ],
        ),
        (
            ("numa_cells",),
            [
                [7],
                [{"pages": [{"count": 2**70}]}],
                [{"id": -1, "memory_mb": 1}],
                [{"id": 0, "memory_mb": 1}] * 2,
            ],
        ),
        (("numa_cells", 0, "memory_mb"), [None, -1, "1"]),
        (
            ("numa_cells", 0, "cpus"),
            [
                "0-3",
                [5],
                [{"id": -1}],
                [{"id": 2**20}],
                [{"id": 0}, {"id": 0}],
                [{"id": 0, "socket": "a"}],
                [{"id": 0, "siblings": "0"}],
                [{"id": 0, "siblings": [-1]}],
            ],
        ),
        (
            ("numa_cells", 0, "pages"),
            [
                [{"size_kb": 0, "count": 1}],
                [{"size_kb": 4}],
                [{"size_kb": 4, "count": 1}] * 2,
                [{"size_kb": 4, "count": 1, "free": -1}],
            ],
        ),
        (("domains",), ["web", {"a": 1}]),
        (("mounts",), [[5], [{"path": 5}], [{"path": "/srv", "shared_id": ["nfs"]}]]),
        (("block_devices",), [[{"id": None}], [{"id": "naa.6", "names": "/dev/sdb"}]]),
        (("images",), [[{"path": "/srv/a", "digest": 5}], "x"]),
    ],
)
def test_safety_10_a_fact_of_a_host_that_cannot_be(path, values):
    for value in values:
        facts = copy.deepcopy(FACTS)
        place = facts
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with pytest.raises(DroverError, match="^Host kvm1"):
            checked_facts.reported(facts, "Host kvm1")


@pytest.mark.parametrize(
    "change",
    [
        {"uuid": "../../../etc/passwd"},
        {"uuid": None},
        {"uuid": ["a"]},
        {"name": None},
        {"name": 5},
        {"vcpus": -1},
        {"vcpus": "2"},
        {"memory_mb": 2**40},
        {"state": "dancing"},
        {"disks": "x"},
        {"disks": [5]},
        {"disks": [{**DISK, "capacity_bytes": -1}]},
        {"disks": [{**DISK, "source": "/a\0b"}]},
        {"disks": [{**DISK, "source": ["/a"]}]},
        {"disks": [{**DISK, "path": 5}]},
        {"disks": [{**DISK, "shared_id": []}]},
        {"disks": [{**DISK, "chain": ["/a"]}]},
        {"disks": [{**DISK, "chain": [{"path": None}]}]},
        {"other_files": "x"},
        {"other_files": [5]},
        {"other_files": [{**FILE, "source": ""}]},
        {"other_files": [{**FILE, "source": "/a\0b"}]},
        {"other_files": [{**FILE, "path": "/" + "x" * 5000}]},
        {"other_files": [{**FILE, "type": "odd"}]},
        {"other_files": [{**FILE, "written": 1}]},
        {"other_files": [{**FILE, "chain": [{}]}]},
        {"other_files": [FILE] * 10_001},
        {"metadata": ["x"]},
        {"metadata": {"project": 5}},
        {"xml": 5},
        {"xml": "x" * 2**23},
        {"persistent": "no"},
        {"interfaces": [{**NIC, "mac": 5}]},
        {"hostdevs": [{"address": {"a": float("inf")}}]},
        {"hostdevs": [{"type": "pci", "address": ["a"]}]},
        {"numa": 5},
        {"numa": {"cpuset": "0-3"}},
        {"numa": {"vcpu_pins": [1]}},
        {"numa": {"vcpu_pins": {"a": [1]}}},
        {"numa": {"vcpu_pins": {"0": [-1]}}},
        {"numa": {"memory": [0]}},
        {"numa": {"memory": {"nodes": ["0"]}}},
        {"numa": {"cells": [{"id": 0}]}},
        {"numa": {"cells": [{"id": 0, "memory_mb": 1}]}},
        {"numa": {"cells": [{"id": 0, "memory_mb": 1, "cpus": [0]}] * 2}},
        {"numa": {"pages": [{"size_kb": -1}]}},
        {"numa": {"pages": [{"size_kb": 4}]}},
    ],
)
def test_safety_10_a_bad_domain_is_left_out_and_hides_no_other(change):
    bad = {**copy.deepcopy(FACTS["domains"][0]), **change}
    report = reported(domains=[fleets.domain("a"), bad, fleets.domain("b")])
    assert [each["name"] for each in report.facts.domains] == ["a", "b"]
    (untold,) = report.untold
    assert untold["uuid"] == (str(bad["uuid"]) if bad["uuid"] else None)
    (sentence,) = report.sentences
    assert sentence.startswith("Host kvm1: domain 2") and "The domain was left out" in sentence
    with pytest.raises(DroverError):
        domain.describe(bad)


def test_safety_10_a_uuid_that_stands_twice():
    report = reported(domains=[fleets.domain("a"), {**fleets.domain("a"), "name": "b"}])
    assert [each["name"] for each in report.facts.domains] == ["a"]
    assert "stands twice" in report.sentences[0]


@pytest.mark.parametrize(
    ("name", "kept"),
    [("a\0b", "a_b"), ("\ud800x", "_x"), ("x" * 300, "x" * 255), ("", fleets.uuid_of("web"))],
)
def test_safety_10_a_guest_is_there_whatever_it_is_called(name, kept):
    """The names of its guests must not make a host look empty."""
    report = reported(domains=[{**fleets.domain("web"), "name": name}])
    assert [each["name"] for each in report.facts.domains] == [kept]
    assert "has a name that cannot be kept" in report.sentences[0]


def test_a_cell_without_its_cpus_is_refused():
    with pytest.raises(DroverError, match="numa_cells, cell 0: cpus must be a list of mappings"):
        checked_facts.reported(
            {**FACTS, "numa_cells": [{**FACTS["numa_cells"][0], "cpus": None}]}, "Host kvm1"
        )


def test_safety_10_addresses_are_addresses():
    nic = {**NIC, "addresses": ["192.0.2.5", "-oProxyCommand=touch x", "{{ x }}", 5, "2001:db8::7"]}
    report = reported(domains=[{**fleets.domain("web"), "interfaces": [nic]}])
    (shown,) = report.facts.domains
    assert shown["interfaces"][0]["addresses"] == ["192.0.2.5", "2001:db8::7"]
    assert "'-oProxyCommand=touch x', '{{ x }}', 5 is no IP address" in report.sentences[0]


def paths(value, before=()):
    """Yield the places of values in nested data."""
    yield before
    for key, child in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from paths(child, (*before, key))


EVERYWHERE = [path for path in paths(FACTS) if path]


@settings(max_examples=400, deadline=None)
@given(
    strategies.lists(
        strategies.tuples(
            strategies.sampled_from(EVERYWHERE),
            strategies.sampled_from(HOSTILE) | strategies.text(max_size=8),
        ),
        max_size=3,
    )
)
@example([(("pools", 0, "name"), "\t"), (("pools", 0, "state"), "")])
def test_safety_10_whatever_a_host_says_is_recorded_as_it_must_be_or_refused_in_words(changes):
    facts = copy.deepcopy(FACTS)
    for path, value in changes:
        place = facts
        try:
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = copy.deepcopy(value)
        except (TypeError, KeyError, IndexError):
            continue  # an earlier change removed the place
    try:
        found, _untold, sentences = checked_facts.reported(facts, "Host kvm1")
        described = node.describe(found, {"host": "kvm1"})
    except DroverError as problem:
        assert str(problem).isprintable() or "\n" in str(problem)
        return
    columns = described["columns"]
    assert re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", described["hypervisor_hostname"])
    assert columns["migration_uri"] in (None, "qemu+ssh://root@kvm1/system")
    assert all(0 <= each["total"] <= 2**31 for each in described["inventories"].values())
    for domain_report in described["domains"]:
        assert re.fullmatch(
            r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", domain_report["columns"]["uuid"]
        )
        assert (
            0 < len(domain_report["columns"]["name"]) <= 255
            and "\0" not in domain_report["columns"]["name"]
        )
        assert all(amount is None or amount >= 0 for amount in domain_report["resources"].values())
    assert all(isinstance(sentence, str) for sentence in sentences)


# The URI for migrations


@pytest.mark.parametrize(
    ("host", "uri"),
    [
        ("kvm1", "qemu+ssh://root@kvm1/system"),
        ("kvm1.example.com", "qemu+ssh://root@kvm1.example.com/system"),
        ("192.0.2.1", "qemu+ssh://root@192.0.2.1/system"),
        ("2001:db8::1", "qemu+ssh://root@[2001:db8::1]/system"),
        ("fe80::1%eth0", None),
        ("kvm 1", None),
        ("kvm1/system?command=x", None),
        ("-kvm1", None),
        ("kvm1#", None),
    ],
)
def test_safety_10_the_uri_is_made_of_the_name_in_the_inventory(host, uri):
    facts = {**FACTS, "hypervisor_hostname": "kvm9.elsewhere"}
    described = fleets.described(facts, {"host": host})
    assert described["columns"]["migration_uri"] == uri
    if uri is None:
        assert (
            f"Host {host} cannot be reached by its name" in described["warnings"][0]
            and "drover_migration_uri" in described["warnings"][0]
        )
    else:
        parts = urllib.parse.urlsplit(uri)
        assert (parts.hostname, parts.path, parts.query, parts.fragment) == (
            host,
            "/system",
            "",
            "",
        )
    own = fleets.described(facts, {"host": host, "migration_uri": "qemu+tls://x/system"})
    assert own["columns"]["migration_uri"] == "qemu+tls://x/system" and own["warnings"] == []


# The action


def discover(url, monkeypatch, facts):
    answers = {"hypervisor_info": {"hypervisor": facts}}
    monkeypatch.setattr(
        compute_node.ActionModule,
        "_execute_module",
        lambda self, module_name, **more: copy.deepcopy(answers[module_name.rpartition(".")[2]]),
    )
    return run("compute_node", {"inventory_hostname": "kvm1"}, store_url=url)


def test_safety_10_a_host_that_says_nonsense_is_told_from_a_dead_one(prepared_url, monkeypatch):
    evil = "kvm3/system?command=/tmp/evil.sh&no_verify=1#"
    with pytest.raises(AnsibleActionFail) as caught:
        discover(prepared_url, monkeypatch, {**FACTS, "hypervisor_hostname": evil})
    sentence = str(caught.value)
    assert (
        "Host kvm1, as it reports itself: hypervisor_hostname must be" in sentence
        and "Nothing of host kvm1 was recorded" in sentence
    )
    result = getattr(caught.value, "_result", None) or caught.value.result
    assert result["answers"] is True
    for nonsense in ("hypervisor", None, [], {}, 5):
        with pytest.raises(AnsibleActionFail, match="as it reports itself"):
            discover(prepared_url, monkeypatch, nonsense)
    with Store.open(prepared_url).read() as connection:
        assert connection.execute(tables.services.select()).all() == []


def test_safety_10_a_guest_with_a_hostile_name_blinds_nobody(prepared_url, monkeypatch):
    hostile = [
        {**fleets.domain(f"evil{number}"), "name": name}
        for number, name in enumerate(("\0", "x" * 300, 5))
    ]
    discovered = discover(
        prepared_url,
        monkeypatch,
        {
            **FACTS,
            "domains": [fleets.domain("web"), *hostile],
            "uri": "qemu+ssh://kvm9/system?command=x",
        },
    )
    assert discovered["adopted"] == ["_", "web", "x" * 255] and len(discovered["warnings"]) == 4
    assert discovered["warnings"][-1].startswith(
        "The store is new, and there are instances already."
    )
    with Store.open(prepared_url).read() as connection:
        (row,) = connection.execute(tables.compute_nodes.select()).all()
    assert (row.uri, row.migration_uri) == ("qemu:///system", "qemu+ssh://root@kvm1/system")


def test_safety_14_a_host_with_a_guest_that_cannot_be_told_of_is_not_empty(
    prepared_url, monkeypatch
):
    bad = {**fleets.domain("bad"), "vcpus": -1}
    silent = {"uuid": fleets.uuid_of("silent"), "name": "silent"}
    discovered = discover(
        prepared_url, monkeypatch, {**FACTS, "domains": [bad], "untold_domains": [silent]}
    )
    assert [(each["name"], each["state"]) for each in discovered["occupants"]["running"]] == [
        ("silent", "unknown"),
        ("bad", "unknown"),
    ]


@pytest.mark.parametrize(
    ("variables", "asked", "warned"),
    [
        ({}, {}, False),
        ({"drover_probe_kvm": True}, {"probe_kvm": True}, True),
        (
            {"drover_probe_kvm": True, "drover_cpu": {"model": "qemu64"}},
            {"probe_kvm": True, "probe_cpu": {"mode": "custom", "model": "qemu64"}},
            True,
        ),
        ({"drover_probe_kvm": True, "drover_domain_type": "qemu"}, {}, False),
    ],
)
def test_kvm_that_does_not_work_is_a_warning(prepared_url, monkeypatch, variables, asked, warned):
    module_calls = []

    def answer(self, module_name, module_args, **more):
        module_calls.append(module_args)
        probed = (
            {"offered": True, "works": False, "message": "failed to set MSR 0x10a"}
            if module_args.get("probe_kvm")
            else None
        )
        return {"hypervisor": {**copy.deepcopy(FACTS), "kvm": probed}}

    monkeypatch.setattr(compute_node.ActionModule, "_execute_module", answer)
    discovered = run(
        "compute_node", {"inventory_hostname": "kvm1", **variables}, store_url=prepared_url
    )
    assert {
        key: value for key, value in module_calls[0].items() if key.startswith("probe")
    } == asked
    words = " ".join(discovered.get("warnings", []))
    assert (
        "Host kvm1 offers KVM, but no guest starts with it: failed to set MSR 0x10a" in words
    ) is warned


def test_nonsense_for_guests_is_refused_where_the_host_is_read(prepared_url):
    for variables, words in (
        ({"drover_cpu": {"mode": "fast"}}, "drover_cpu.*cpu: mode must be"),
        ({"drover_domain_type": "xen"}, "drover_domain_type.*domain_type must be"),
    ):
        with pytest.raises(AnsibleActionFail, match=words):
            run("compute_node", {"inventory_hostname": "kvm1", **variables}, store_url=prepared_url)


# No writer avoids the check


def calls(tree):
    for each in ast.walk(tree):
        if isinstance(each, ast.Call):
            yield each, ast.unparse(each.func).split(".")[-2:]


def detours(text, file):
    """Return the places that may write an unchecked value into the store."""
    tree, places = ast.parse(text), []
    described = {
        target.id
        for each in ast.walk(tree)
        if isinstance(each, ast.Assign)
        and isinstance(each.value, ast.Call)
        and ast.unparse(each.value.func) == "domain.describe"
        for target in each.targets
        if isinstance(target, ast.Name)
    }
    for call, names in calls(tree):
        words = [ast.unparse(argument) for argument in call.args]
        if names[-1] in ("write_domain", "write_domains") and not file.endswith(
            ("tracker/record_domain.py", "tracker/record_instances.py", "hosts/compute_nodes.py")
        ):
            places.append(names[-1])
        if names[-1] in ("record_built", "record_seen"):
            arguments = [
                argument
                for argument in call.args
                if ast.unparse(argument).startswith("domain.describe(")
            ]
            places += [] if arguments or described & set(words) else [names[-1]]
        if names[-1] in ("HostFacts", "CheckedDomain") and not file.endswith("checked_facts.py"):
            places.append(names[-1])
        # The simulation has a copy of the store, and records the nodes that node_data described.
        if names == ["record", "record"] and not file.endswith(
            ("_conductor/discovery.py", "_simulation/fleet.py")
        ):
            places.append("record")
    return places


def test_safety_10_all_that_is_recorded_was_described():
    by_file = {
        str(file): detours(file.read_text(), file.as_posix()) for file in PLUGINS.rglob("*.py")
    }
    assert {file: each for file, each in by_file.items() if each} == {}
    assert detours("node_rows.write_domain(c, 1, {}, 0)", "plugins/action/x.py") == ["write_domain"]
    assert detours("record_domain.record_seen(c, u, h, facts, 0)", "plugins/action/x.py") == [
        "record_seen"
    ]
    assert detours("record.record(c, {}, 0)", "plugins/action/x.py") == ["record"]


def test_safety_10_what_is_described_was_checked():
    """Only the check makes the records that node.describe() takes, so no facts avoid it."""
    with pytest.raises(DroverError):
        domain.describe({**fleets.domain("web"), "uuid": "../../x"})
    with pytest.raises(AttributeError):
        node.describe(FACTS, {"host": "kvm1"})
    assert detours("HostFacts(name='kvm1')", "_tracker/node.py") == ["HostFacts"]
    assert detours("facts.CheckedDomain(found)", "_tracker/node.py") == ["CheckedDomain"]
    with pytest.raises(DroverError):
        fleets.described({**FACTS, "memory_mb": -1}, {"host": "kvm1"})
    with pytest.raises(DroverError):
        fleets.described({**FACTS, "domains": [{"uuid": "x", "name": "y"}]}, {"host": "kvm1"})


@pytest.mark.parametrize(
    ("option", "text", "words"),
    [
        ("migration_uri", "qemu+ssh://root@fd00::20/system", "an IPv6 address needs brackets"),
        (
            "migration_uri",
            "qemu+ssh://root@[fd00::20/system",
            "its host or its port cannot be read",
        ),
        ("migration_uri", "qemu+ssh://kvm1:ssh/system", "its host or its port cannot be read"),
        ("migration_uri", "kvm1.example.com", "it has no scheme"),
        ("migration_address", "tcp://10.98.0.11", "it has a scheme"),
        ("migration_address", "root@10.98.0.11", "more than a host and a port"),
        ("migration_address", "10.98.0.11/24", "more than a host and a port"),
        ("migration_address", "[fd00::20", "its brackets or its port are wrong"),
        ("migration_address", "10.98.0.11:x", "its brackets or its port are wrong"),
    ],
)
def test_f19_brothers_addresses_of_migrations_are_refused_in_words(option, text, words):
    """The first fact made an evacuation end in a traceback, the last made a move fail after its
    claim."""
    with pytest.raises(DroverError, match=f"drover_{option} is .*{words}"):
        fleets.described({**FACTS, "hypervisor_hostname": "kvm1"}, {"host": "kvm1", option: text})


@pytest.mark.parametrize(
    "text",
    [
        "10.98.0.11",
        "fd00::20",
        "[fd00::20]",
        "fe80::1%eth1",
        "kvm1-storage",
        "kvm1-storage:49200",
        "[fd00::20]:49200",
    ],
)
def test_f19_brothers_addresses_that_a_migration_takes(text):
    described = fleets.described(
        {**FACTS, "hypervisor_hostname": "kvm1"}, {"host": "kvm1", "migration_address": text}
    )
    assert described["columns"]["migration_address"] == text
