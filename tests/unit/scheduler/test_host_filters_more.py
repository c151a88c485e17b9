# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Host filters that read aggregates, images, capabilities and figures, row by row of N2."""

from __future__ import annotations

import json

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.components import find
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import RequestError
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import fleet, host, request


def passing(name, columns, spec, **options):
    """Return the hosts that pass, as one text; every other host must have a rejection reason."""
    states = HostStates(columns)
    policy = Policy.from_mapping({"enabled_filters": [name], **options})
    (host_filter,) = policy.filters
    mask = host_filter.passes(states, spec)
    assert mask.dtype == bool and len(mask) == states.size
    for index in range(states.size):
        if not mask[index]:
            words = host_filter.rejection_reason(states, spec, index)
            assert words and "says no" not in words, words
    return "".join(states.host[index] for index in range(states.size) if mask[index])


def flavored(name="m1", image=None, **extra_specs):
    more = {"image": {"name": "img", "properties": image}} if image else {}
    return request(flavor={"name": name, "extra_specs": extra_specs}, **more)


def specs(**extra_specs):
    return flavored(**{key.replace("__", ":"): value for key, value in extra_specs.items()})


def test_all_hosts_passes_every_host():
    assert (
        passing("AllHostsFilter", fleet(host("a", disabled="x"), host("b", down="y")), request())
        == "ab"
    )


TOLD = fleet(
    host(
        "a",
        hypervisor_version=8002002,
        stats={"gpu": "yes", "load": "7"},
        cpu_info={"arch": "x86_64", "maxphysaddr": {"bits": 46}},
    ),
    host(
        "b",
        hypervisor_version=10000000,
        stats='{"load": "12"}',
        cpu_info='{"arch": "aarch64", "features": ["sve", "aes"]}',
    ),
    host("c", cpu_info="{broken", hypervisor_type="QEMU"),
)


@pytest.mark.parametrize(
    ("key", "text", "passes"),
    [
        # always considered with the scope; missing, null or bad JSON on the way fails
        ("capabilities:hypervisor_version", ">= 8002003", "b"),
        ("capabilities:hypervisor_version", "s== 8002002", "a"),
        ("capabilities:hypervisor_version", "8002002", "a"),
        ("capabilities:hypervisor_version:deeper", "1", ""),
        ("capabilities:nothing", "1", ""),
        ("capabilities:cpu_info:arch", "x86_64", "a"),
        ("capabilities:cpu_info:arch", "<or> arm <or> aarch64", "b"),
        ("capabilities:cpu_info:features", "<in> sve", "b"),
        ("capabilities:cpu_info:features", "<all-in> aes sve", "b"),
        ("capabilities:gpu", "yes", "a"),
        ("capabilities:stats:load", "<= 7", "a"),
        ("capabilities:load", ">= 10", "b"),
        ("hw:maxphysaddr_bits", "44", "a"),
        ("hw:maxphysaddr_bits", "48", ""),
        # without a scope only where the host state has the attribute or the statistic
        ("hypervisor_version", ">= 9000000", "b"),
        ("hypervisor_type", "QEMU", "c"),
        ("gpu", "no", "bc"),
        ("ssd", "true", "abc"),
        # other scopes are ignored
        ("hw:cpu_policy", "dedicated", "abc"),
        ("aggregate_instance_extra_specs:ssd", "true", "abc"),
        # numbers that everybody has
        ("capabilities:free_ram_mb", ">= 8192", "abc"),
        ("capabilities:vcpus_total", "== 9", ""),
        ("capabilities:host", "s> a", "bc"),
    ],
)
def test_compute_capabilities(key, text, passes):
    assert passing("ComputeCapabilitiesFilter", TOLD, flavored(**{key: text})) == passes


@pytest.mark.parametrize(
    ("text", "value", "matches"),
    [
        ("= 5", "7", True),
        ("= 5", "4", False),
        (">= 5", "5", True),
        ("== 5", "5.0", True),
        ("!= 5", "5", False),
        ("<= 5", "5.5", False),
        ("s== a", "a", True),
        ("s!= a", "a", False),
        ("s< b", "a", True),
        ("s<= b", "b", True),
        ("s> b", "b", False),
        ("s>= b", "b", True),
        ("<in> bc", "abcd", True),
        ("<all-in> a d", "abcd", True),
        ("<all-in> a x", "abcd", False),
        ("<or> a <or> b", "b", True),
        ("<or> a <or> b", "c", False),
        ("a b", "a b", True),
        ("~ 5", "~ 5", True),
        ("", "", True),
        ("> 5", "6", False),
        (">= 5", "many", False),
    ],
)
def test_operators(text, value, matches):
    columns = fleet(host("a", stats={"x": value}))
    assert passing("ComputeCapabilitiesFilter", columns, specs(capabilities__x=text)) == (
        "a" if matches else ""
    )


@pytest.mark.parametrize("text", ["=", ">= much", "<in>", "<or>", "s=="])
@pytest.mark.parametrize("key", ["capabilities:x", "aggregate_instance_extra_specs:x", "x"])
def test_malformed_operators_name_the_key(text, key):
    with pytest.raises(RequestError, match=f"the extra spec '{key}' is .*must be followed by"):
        flavored(**{key: text})


GROUPED = fleet(
    host("a", aggregates=["ssd", "odd"]),
    host("b", aggregates=["ssd"]),
    host("c", aggregates=["gold"]),
    host("d"),
    aggregates={
        "ssd": {
            "ssd": "true",
            "tier": "gold, silver",
            "max_instances_per_host": "2",
            "max_io_ops_per_host": "x",
        },
        "odd": {
            "tier": "odd",
            "max_instances_per_host": "1",
            "cpu_allocation_ratio": "2",
            "hw_disk_bus": "virtio,scsi",
        },
        "gold": {
            "filter_tenant_id": "p1,p2",
            "filter_tenant_id_b": "p3",
            "instance_type": "m1.big, m1.huge",
        },
        "empty": {"ssd": "false"},
    },
)


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        ({}, "abcd"),
        ({"aggregate_instance_extra_specs:ssd": "true"}, "ab"),
        ({"ssd": "true"}, "ab"),
        ({"aggregate_instance_extra_specs:tier": "<or> silver <or> odd"}, "ab"),
        ({"aggregate_instance_extra_specs:tier": "odd"}, "a"),
        ({"aggregate_instance_extra_specs:ssd": "true", "tier": "odd"}, "a"),
        ({"aggregate_instance_extra_specs:none": "x"}, ""),
        ({"capabilities:ssd": "x", "hw:watchdog_action": "x"}, "abcd"),
    ],
)
def test_aggregate_instance_extra_specs(wanted, passes):
    assert passing("AggregateInstanceExtraSpecsFilter", GROUPED, flavored(**wanted)) == passes


@pytest.mark.parametrize(
    ("image", "options", "passes"),
    [
        (None, {}, "abcd"),
        ({"hw_disk_bus": "virtio"}, {}, "abcd"),
        ({"hw_disk_bus": "ide"}, {}, "bcd"),
        ({"hw_vif_model": "e1000"}, {}, "abcd"),
        (
            {"hw_disk_bus": "ide"},
            {"aggregate_image_properties_isolation_namespace": "hw_disk"},
            "abcd",
        ),
        (
            {"hw_disk_bus": "ide"},
            {
                "aggregate_image_properties_isolation_namespace": "hw",
                "aggregate_image_properties_isolation_separator": "_",
            },
            "bcd",
        ),
    ],
)
def test_aggregate_image_properties_isolation(image, options, passes):
    assert (
        passing("AggregateImagePropertiesIsolation", GROUPED, flavored(image=image), **options)
        == passes
    )


@pytest.mark.parametrize(
    ("project", "passes"), [("p1", "abcd"), ("p3", "abcd"), ("p4", "abd"), (None, "abd")]
)
def test_aggregate_multi_tenancy_isolation(project, passes):
    assert passing("AggregateMultiTenancyIsolation", GROUPED, request(project=project)) == passes


@pytest.mark.parametrize(
    ("flavor", "passes"), [("m1.big", "abcd"), ("m1.huge", "abcd"), ("m1", "abd")]
)
def test_aggregate_type_affinity(flavor, passes):
    assert passing("AggregateTypeAffinityFilter", GROUPED, flavored(flavor)) == passes
    assert passing("AggregateTypeAffinityFilter", GROUPED, request()) == "abd"


@pytest.mark.parametrize(("vcpus", "passes"), [(1, "abcd"), (3, "bcd")])
def test_aggregate_core_takes_the_least_ratio(vcpus, passes):
    columns = dict(GROUPED)
    columns["resources"] = {
        **GROUPED["resources"],
        "VCPU": {**GROUPED["resources"]["VCPU"], "ratio": [16.0] * 4, "used": [14] * 4},
    }
    assert passing("AggregateCoreFilter", columns, request(vcpus=vcpus)) == passes


@pytest.mark.parametrize(("name", "key"), [("Core", "cpu"), ("Ram", "ram"), ("Disk", "disk")])
def test_aggregate_ratios_are_read_by_their_own_keys(name, key):
    amount = {"Core": "vcpus", "Ram": "memory_mb", "Disk": "disk_gb"}[name]
    node = {amount: 100}
    columns = fleet(
        host("a", **node, aggregates=["low"]),
        host("b", **node),
        aggregates={"low": {f"{key}_allocation_ratio": "0.5"}},
    )
    assert passing(f"Aggregate{name}Filter", columns, request(**{amount: 51})) == "b"
    assert passing(f"Aggregate{name}Filter", columns, request(**{amount: 50})) == "ab"


def test_type_affinity_wants_no_other_flavor():
    columns = fleet(
        host("a"),
        host("b"),
        host("c"),
        host("d"),
        instances=[
            {"name": "1", "host": "a", "flavor": "m1"},
            {"name": "2", "host": "b", "flavor": "m2"},
            {"name": "3", "host": "c", "flavor": "m1"},
            {"name": "4", "host": "c", "flavor": "m2"},
        ],
    )
    assert passing("TypeAffinityFilter", columns, flavored("m1")) == "ad"
    assert passing("TypeAffinityFilter", columns, request()) == "abcd"


RUNS = fleet(
    host(
        "a",
        supported_instances=[["x86_64", "kvm", "hvm"], ["x86_64", "qemu", "hvm"]],
        hypervisor_version=1002003,
    ),
    host(
        "b",
        supported_instances='[["aarch64", "qemu", "hvm"]]',
        cpu_info={"maxphysaddr": {"bits": 40}},
    ),
    host("c", supported_instances=[["i686", "xen", "xen"]], hypervisor_version=2000000),
    host("d"),
)


@pytest.mark.parametrize(
    ("image", "options", "passes"),
    [
        (None, {}, "abcd"),
        ({"hw_disk_bus": "virtio"}, {}, "abcd"),
        ({"hw_architecture": "x86_64"}, {}, "a"),
        ({"hw_architecture": "AMD64"}, {}, "a"),
        ({"hw_architecture": "i386"}, {}, "c"),
        ({"img_hv_type": "qemu"}, {}, "ab"),
        ({"img_hv_type": "kvm"}, {}, "a"),
        ({"img_hv_type": "xapi"}, {}, "c"),
        ({"hw_vm_mode": "hvm"}, {}, "ab"),
        ({"hw_vm_mode": "pv"}, {}, "c"),
        ({"hw_architecture": "aarch64", "img_hv_type": "kvm"}, {}, ""),
        ({}, {"image_properties_default_architecture": "x86_64"}, "a"),
        ({"hw_vm_mode": "hvm", "img_hv_requested_version": ">=1.2.3, <2.0"}, {}, "ab"),
        ({"hw_vm_mode": "hvm", "img_hv_requested_version": "<1.2.3"}, {}, "b"),
        ({"img_hv_requested_version": "<1.0"}, {}, "abcd"),
        ({"hw_vm_mode": "hvm", "hw_maxphysaddr_bits": 42}, {}, "a"),
        ({"hw_vm_mode": "hvm", "hw_maxphysaddr_bits": 40}, {}, "ab"),
    ],
)
def test_image_properties(image, options, passes):
    assert passing("ImagePropertiesFilter", RUNS, flavored(image=image), **options) == passes


@pytest.mark.parametrize(
    ("images", "restrict", "image", "passes"),
    [
        ([], True, "x", "b"),
        ([], False, "x", "ab"),
        (["x"], True, "x", "a"),
        (["x"], True, "y", "b"),
        (["x"], True, None, "b"),
        (["x"], False, "x", "a"),
        (["x"], False, "y", "ab"),
    ],
)
def test_isolated_hosts(images, restrict, image, passes):
    options = {
        "isolated_images": images,
        "isolated_hosts": ["a"],
        "restrict_isolated_hosts_to_isolated_images": restrict,
    }
    assert (
        passing("IsolatedHostsFilter", fleet(host("a"), host("b")), request(image=image), **options)
        == passes
    )


ASKED = fleet(
    host(
        "a",
        memory_mb=1000,
        hypervisor_version=8000000,
        stats={"load": "3"},
        host_ip="10.0.0.1",
        service={"host": "a", "disabled": False, "disabled_reason": None},
    ),
    host(
        "b",
        memory_mb=2000,
        hypervisor_version=9000000,
        disabled="x",
        hypervisor_type="QEMU",
        service={"host": "b", "disabled": True, "disabled_reason": "x"},
    ),
    host("c", memory_mb=3000, down="y"),
)


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        ([], "abc"),
        (["=", "$free_ram_mb", 2000], "b"),
        (["<", "$free_ram_mb", 2000], "a"),
        ([">", "$free_ram_mb", 2000], "c"),
        (["<=", "$free_ram_mb", 2000], "ab"),
        ([">=", "$free_ram_mb", 2000], "bc"),
        # the first against all the others; fewer than two is false
        ([">", 2500, "$free_ram_mb", "$vcpus_total"], "ab"),
        ([">=", "$free_ram_mb"], ""),
        (["in", "$free_ram_mb", 1000, 3000], "ac"),
        (["in", "$hypervisor_hostname", "a", "b"], "ab"),
        (["not", ["=", "$free_ram_mb", 2000]], "ac"),
        (["not", ["=", "$free_ram_mb", 2000], ["=", "$free_ram_mb", 1000]], "abc"),
        (["and", ["not", ["=", "$free_ram_mb", 2000]]], "ac"),
        (["and"], "abc"),
        (["or"], ""),
        (["and", [">=", "$free_ram_mb", 2000], ["or", ["=", "$hypervisor_version", 9000000]]], "b"),
        # null arguments are dropped: an unknown attribute, a missing key, empty text
        (["=", "$hypervisor_version", 8000000], "a"),
        (["=", "$nothing", 1], ""),
        (["=", "$free_ram_mb.x", 1000], ""),
        (["or", ["=", "$free_ram_mb.x", 1000], ["=", "$free_ram_mb", 2000]], "b"),
        (["=", "$stats.load", "3"], "a"),
        (["=", "$stats.num_instances", "0"], "abc"),
        (["=", "", "$free_ram_mb", 1000], "a"),
        (["=", "$hypervisor_type", "QEMU"], "b"),
        (["=", "$host_ip", "10.0.0.1"], "a"),
        (["=", "$cpu_allocation_ratio", 1.0], "abc"),
        (["=", "$service.disabled", True], "b"),
        (["not", ["=", "$service.disabled", False]], "bc"),
        (["in", "$service.host", "a", "c"], "a"),
        (["=", "$service.disabled_reason", "x"], "b"),
        (["=", "$service.nothing", 1], ""),
    ],
)
def test_peers_5_json_queries(query, passes):
    assert passing("JsonFilter", ASKED, request(hints={"query": json.dumps(query)})) == passes
    assert passing("JsonFilter", ASKED, request(hints={"query": [json.dumps(query)]})) == passes
    assert passing("JsonFilter", ASKED, request(hints={"query": query})) == passes


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("[", "is not JSON"),
        ('{"a": 1}', "a query is a list"),
        (["~", 1, 2], '"~" is no operator; there are: ='),
        (["and", []], "an inner query is empty"),
        (["and", [1]], "1 is no operator"),
        (["=", {"a": 1}, 2], "an argument is a mapping"),
    ],
)
def test_malformed_queries(query, says):
    with pytest.raises(RequestError, match="the hint 'query' cannot be read") as caught:
        request(hints={"query": query})
    assert says in str(caught.value)


def test_a_query_that_compares_text_with_numbers():
    with pytest.raises(RequestError, match="cannot be answered: < cannot compare 'a' with 5"):
        passing("JsonFilter", ASKED, request(hints={"query": ["<", "$host", 5]}))


@pytest.mark.parametrize(
    ("hints", "passes"),
    [
        (None, "abcd"),
        ({"build_near_host_ip": "10.0.1.77"}, "a"),
        ({"build_near_host_ip": "10.0.1.77", "cidr": "/22"}, "ab"),
        ({"build_near_host_ip": ["10.0.1.77"], "cidr": ["22"]}, "ab"),
        ({"build_near_host_ip": "fe80::5", "cidr": "/64"}, "d"),
    ],
)
def test_simple_cidr_affinity(hints, passes):
    columns = fleet(
        host("a", host_ip="10.0.1.1"),
        host("b", host_ip="10.0.2.1"),
        host("c"),
        host("d", host_ip="fe80::1"),
    )
    assert passing("SimpleCIDRAffinityFilter", columns, request(hints=hints)) == passes


@pytest.mark.parametrize(
    ("hints", "says"),
    [
        ({"build_near_host_ip": "kvm1"}, "must be an IP address"),
        ({"build_near_host_ip": "10.0.0.1", "cidr": "/99"}, "'cidr' must be like /24"),
        ({"build_near_host_ip": 5}, "must be text"),
        ({"cidr": "/24"}, "goes with 'build_near_host_ip'"),
    ],
)
def test_malformed_cidr_hints(hints, says):
    with pytest.raises(RequestError, match=says):
        request(hints=hints)


def test_num_instances_and_its_aggregate_form():
    columns = dict(GROUPED, num_instances=[1, 1, 2, 50])
    assert passing("NumInstancesFilter", columns, request()) == "abc"
    assert passing("NumInstancesFilter", columns, request(), max_instances_per_host=2) == "ab"
    assert passing("AggregateNumInstancesFilter", columns, request()) == "bc"


def test_io_ops_and_its_aggregate_form():
    columns = dict(GROUPED, num_io_ops=[0, 7, 8, 9])
    assert passing("IoOpsFilter", columns, request()) == "ab"
    # not a number: the option
    assert passing("AggregateIoOpsFilter", columns, request()) == "ab"
    columns["aggregates"] = [
        {"name": "x", "metadata": {"max_io_ops_per_host": "9"}, "hosts": ["c", "d"]}
    ]
    assert passing("AggregateIoOpsFilter", columns, request()) == "abc"


def test_metrics_must_all_be_reported():
    columns = fleet(
        host("a", metrics=[{"name": "load", "value": 1}, {"name": "temp", "value": 3}]),
        host("b", metrics='[{"name": "load", "value": 1}]'),
        host("c"),
    )
    assert passing("MetricsFilter", columns, request()) == "abc"
    assert (
        passing("MetricsFilter", columns, request(), metrics_weight_setting={"load": 1.0}) == "ab"
    )
    assert (
        passing("MetricsFilter", columns, request(), metrics_weight_setting="load=1.0, temp=-1")
        == "a"
    )


@pytest.mark.parametrize(
    ("retry", "passes"),
    [
        (None, "abc"),
        ([], "abc"),
        ([{"host": "a", "node": "a"}, ["b", "other"]], "bc"),
        ({"hosts": [["b", "b"]]}, "ac"),
    ],
)
def test_retry(retry, passes):
    assert (
        passing("RetryFilter", fleet(host("a"), host("b"), host("c")), request(retry=retry))
        == passes
    )


@pytest.mark.parametrize(
    ("name", "key", "amount"),
    [("Core", "vcpus", 8), ("Ram", "memory_mb", 7000), ("Disk", "disk_gb", 60)],
)
def test_exact_filters_want_equality(name, key, amount):
    columns = fleet(
        host("a", used={"memory_mb": 1000, "disk_gb": 40}, memory_mb=8000),
        host("b", vcpus=9, memory_mb=8000, disk_gb=99, disk_available_least_gb=60),
    )
    expected = {"Core": "a", "Ram": "a", "Disk": "ab"}[name]
    assert passing(f"Exact{name}Filter", columns, request(**{key: amount})) == expected
    assert passing(f"Exact{name}Filter", columns, request(**{key: amount - 1})) == ""


def test_every_filter_works_on_a_fleet_that_has_no_optional_column():
    states = HostStates(fleet(host("a"), host("b")))
    spec = request(
        flavor={"name": "m1", "extra_specs": {"capabilities:x": "1"}},
        image={"name": "i", "properties": {"hw_architecture": "x86_64"}},
        hints={"query": ["=", "$host_ip", "1"], "build_near_host_ip": "10.0.0.1"},
    )
    for filter_class in find("host_filters").values():
        mask = filter_class().passes(states, spec)
        for index in range(2):
            assert mask[index] or filter_class().rejection_reason(states, spec, index)
