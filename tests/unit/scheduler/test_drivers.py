# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The older drivers (N4) and the flow around the host filters (N1.4, N1.5)."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._scheduler import drivers
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.errors import (
    NoValidHost,
    PolicyError,
    RequestError,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.host_states import (
    HostStates,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.request_spec import (
    RequestSpec,
)
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import (
    fleet,
    host,
    request,
    uuid_of,
)


def decide(columns, *specs, **policy):
    return drivers.schedule(HostStates(columns), list(specs), Policy.from_mapping(policy))


def hosts(selections):
    return "".join(each["host"] for each in selections)


MIXED = [host("a", disabled="x"), host("b", down="y"), host("c"), host("d"), host("e")]


def test_chance_picks_distinct_living_hosts_the_same_every_time():
    batch = [request(f"vm{number}") for number in range(3)]
    chosen = decide(fleet(*MIXED), *batch, driver="chance")
    assert sorted(hosts(chosen)) == ["c", "d", "e"]
    assert hosts(decide(fleet(*MIXED), *batch, driver="chance")) == hosts(chosen)
    picks = {
        hosts(decide(fleet(*MIXED), request(f"n{number}"), driver="chance")) for number in range(30)
    }
    assert picks == {"c", "d", "e"}
    assert len(decide(fleet(*MIXED), *[request(f"vm{n}") for n in range(7)], driver="chance")) == 7
    ignored = decide(fleet(*MIXED), request(ignore_hosts=["C", "d"]), driver="chance")
    assert hosts(ignored) == "e" and ignored[0]["alternates"] == []
    with pytest.raises(NoValidHost, match="ComputeFilter rejected 1"):
        decide(fleet(MIXED[0]), request(), driver="chance")


def test_simple_takes_the_fewest_cores_up_to_max_cores():
    nodes = [
        host("a", 32, used={"vcpus": 6}),
        host("b", 32, used={"vcpus": 2}),
        host("c", 32, used={"vcpus": 4}),
        host("d", 32, down="x"),
    ]
    batch = [request(f"vm{number}", vcpus=3) for number in range(3)]
    assert hosts(decide(fleet(*nodes), *batch, driver="simple")) == "bcb"
    with pytest.raises(
        NoValidHost,
        match=(
            r"least loaded host, b, has 2 vCPU in use, and with 3 more it would pass max_cores"
            r" \(4\)"
        ),
    ):
        decide(fleet(*nodes), batch[0], driver="simple", max_cores=4)
    isolation = {
        "driver": "simple",
        "max_cores": 4,
        "isolated_images": ["i"],
        "isolated_hosts": ["a"],
    }
    assert hosts(decide(fleet(*nodes), request(vcpus=3, image="i"), **isolation)) == "a"
    with pytest.raises(NoValidHost, match="max_cores"):
        decide(
            fleet(*nodes), request(vcpus=3, image="i"), skip_isolated_core_check=False, **isolation
        )


def test_least_cost_lowest_sum_wins():
    nodes = [
        host("a", memory_mb=3000),
        host("b", memory_mb=9000),
        host("c", memory_mb=6000),
        host("d", memory_mb=9000),
    ]
    (chosen,) = decide(fleet(*nodes), request(), driver="least_cost")
    assert (chosen["host"], chosen["weight"]) == ("b", -9000.0)
    assert [each["host"] for each in chosen["alternates"]] == ["d", "c"]
    fill = {"driver": "least_cost", "least_cost_functions": {"compute_fill_first": 1.0}}
    assert hosts(decide(fleet(*nodes), request(), **fill)) == "a"
    assert hosts(decide(fleet(*nodes), request("x"), request("y"), driver="least_cost")) == "bd"
    assert (
        hosts(
            decide(fleet(*nodes), request(), driver="least_cost", least_cost_functions={"noop": 1})
        )
        == "a"
    )
    with pytest.raises(
        PolicyError, match="'nonsense' under 'least_cost_functions'.*compute_fill_first, noop"
    ):
        decide(fleet(*nodes), request(), driver="least_cost", least_cost_functions={"nonsense": 1})


def test_a_batch_of_an_old_driver_is_all_or_nothing():
    states = HostStates(fleet(host("a", memory_mb=100)))
    with pytest.raises(NoValidHost):
        drivers.schedule(
            states, [request("x"), request("y")], Policy.from_mapping({"driver": "least_cost"})
        )
    assert states.resources["MEMORY_MB"].used.tolist() == [0]


def test_unknown_drivers_are_refused():
    with pytest.raises(
        PolicyError, match="there are: filter_scheduler, chance, simple, least_cost"
    ):
        Policy.from_mapping({"driver": "random"})


def test_forced_hosts_skip_the_host_filters_but_not_room_zone_and_status():
    nodes = [
        host("a", disabled="x", zones=["az1"]),
        host("b", down="y", zones=["az1"]),
        host("c", memory_mb=32, zones=["az1"]),
        host("d", zones=["az2"]),
    ]
    columns = fleet(*nodes)
    filters = {
        "enabled_filters": [
            "ComputeFilter",
            "AvailabilityZoneFilter",
            "SameHostFilter",
            "RamFilter",
        ]
    }
    assert (
        hosts(decide(columns, request(force_hosts=["B"], hints={"same_host": "nobody"}), **filters))
        == "b"
    )
    assert (
        hosts(decide(columns, request(force_nodes=["b", "d"], availability_zone="az2"), **filters))
        == "d"
    )
    for forced, says in (
        ("a", "compute_status rejected 1"),
        ("c", "RAM: asked 64 MiB"),
        ("d", "availability_zone rejected 1"),
    ):
        with pytest.raises(NoValidHost, match=says):
            decide(columns, request(force_hosts=[forced], availability_zone="az1"), **filters)
    # room is checked even if no host filter is
    with pytest.raises(NoValidHost, match="room rejected 1"):
        decide(columns, request(force_hosts=["c"]), enabled_filters=[])


def test_ignored_hosts_go_before_forced_ones():
    with pytest.raises(NoValidHost, match="ignore_hosts rejected 1"):
        decide(fleet(*MIXED), request(force_hosts=["c"], ignore_hosts=["c"]))


def test_num_instances_with_consumption():
    specs = RequestSpec.expand(
        {
            "name": "web",
            "vcpus": 1,
            "memory_mb": 64,
            "num_instances": 3,
            "uuids": [uuid_of(n) for n in "xyz"],
        }
    )
    assert [spec.name for spec in specs] == ["web-1", "web-2", "web-3"]
    chosen = decide(
        fleet(host("a", memory_mb=128), host("b", memory_mb=64)),
        *specs,
        enabled_filters=["ComputeFilter"],
    )
    assert sorted(hosts(chosen)) == ["a", "a", "b"]
    with pytest.raises(NoValidHost):
        decide(fleet(host("a", memory_mb=128)), *specs, enabled_filters=["ComputeFilter"])
    with pytest.raises(RequestError, match="'uuids' has 1 entries for 2 instances"):
        RequestSpec.expand(
            {
                "name": "web",
                "vcpus": 1,
                "memory_mb": 64,
                "num_instances": 2,
                "uuids": [uuid_of("x")],
            }
        )


def test_requested_destination():
    columns = fleet(host("a", node="a1"), host("a", node="a2"), host("b"))
    spec = request(requested_destination={"host": "a", "node": "a2"})
    assert decide(columns, spec)[0]["node"] == "a2"


def test_shuffle_stays_among_the_best():
    columns = fleet(host("a"), host("b"), host("c", memory_mb=64))
    picks = {
        hosts(decide(columns, request(f"n{n}"), shuffle_best_same_weighed_hosts=True))
        for n in range(30)
    }
    assert picks == {"a", "b"}


def test_pre_filters():
    columns = fleet(
        host("a", aggregates=["mine"]),
        host("b", aggregates=["windows"], traits=["COMPUTE_STORAGE_BUS_VIRTIO", "CUSTOM_WIN"]),
        host("c", traits=["COMPUTE_IMAGE_TYPE_QCOW2"]),
        aggregates={
            "mine": {"filter_tenant_id": "p1"},
            "without hosts": {"filter_tenant_id_2": "p3"},
            "windows": {"trait:CUSTOM_WIN": "required"},
        },
    )

    def left(spec, **policy):
        return sorted(
            each["host"]
            for each in decide(columns, spec, max_attempts=9, **policy)[0]["alternates"]
        ) + [decide(columns, spec, max_attempts=9, **policy)[0]["host"]]

    tenants = {"limit_tenants_to_placement_aggregate": True}
    assert left(request(project="p1"), **tenants) == ["a"]
    assert len(left(request(project="p2"), **tenants)) == 3
    with pytest.raises(NoValidHost, match="tenant rejected 3"):
        left(request(project="p3"), **tenants)
    with pytest.raises(NoValidHost, match="tenant rejected 3"):
        left(request(project="p2"), placement_aggregate_required_for_tenants=True, **tenants)
    isolated = {"enable_isolated_aggregate_filtering": True}
    assert sorted(left(request(), **isolated)) == ["a", "c"]
    images = {"query_placement_for_image_type_support": True}
    assert left(request(image={"name": "i", "disk_format": "qcow2"}), **images) == ["c"]
    # A format without a trait requires nothing, as in Nova.
    assert len(left(request(image={"name": "i", "disk_format": "danformat"}), **images)) == 3
    windows = {"name": "m1", "extra_specs": {"trait:CUSTOM_WIN": "required"}}
    assert left(request(flavor=windows), **isolated) == ["b"]
    assert left(
        request(image={"name": "i", "properties": {"traits_required": ["CUSTOM_WIN"]}}), **isolated
    ) == ["b"]
    image = {"name": "i", "properties": {"hw_disk_bus": "virtio"}}
    assert left(request(image=image), image_metadata_prefilter=True) == ["b"]
    assert len(left(request(image=image))) == 3
    qcow2 = {"name": "i", "disk_format": "qcow2"}
    assert left(request(image=qcow2), query_placement_for_image_type_support=True) == ["c"]
    assert len(left(request(), query_placement_for_image_type_support=True)) == 3
    assert len(left(request(image=qcow2))) == 3


def test_traits_of_a_tpm_and_secure_boot():
    tpm, secure = (
        ["COMPUTE_SECURITY_TPM_2_0", "COMPUTE_SECURITY_TPM_TIS"],
        "COMPUTE_SECURITY_UEFI_SECURE_BOOT",
    )
    columns = fleet(
        host("a", traits=tpm),
        host("b", traits=[*tpm, "COMPUTE_SECURITY_TPM_CRB", secure]),
        host("c"),
    )

    def names(specs, **properties):
        decision = decide(
            columns,
            request(
                flavor={"name": "m1", "extra_specs": specs},
                image={"name": "i", "properties": properties},
            ),
        )[0]
        return sorted(each["host"] for each in (decision, *decision["alternates"]))

    assert names({"hw:tpm_version": "2.0"}) == ["a", "b"]
    assert names({}, hw_tpm_version="2.0", hw_tpm_model="tpm-crb") == ["b"]
    assert names({"os:secure_boot": "required"}) == names({}, os_secure_boot="required") == ["b"]
    assert (
        names({"os:secure_boot": "optional"})
        == names({"hw:tpm_model": "tpm-crb"})
        == ["a", "b", "c"]
    )
    with pytest.raises(
        NoValidHost,
        match=(
            r"required_traits rejected 3 \(asked COMPUTE_SECURITY_TPM_1_2,"
            r" COMPUTE_SECURITY_TPM_TIS\)"
        ),
    ):
        names({"hw:tpm_version": "1.2"})


def test_traits_of_the_flavor():
    columns = fleet(
        host("a", traits=["CUSTOM_SSD"]), host("b", traits=["CUSTOM_SSD", "CUSTOM_OLD"]), host("c")
    )

    def one(**traits):
        specs = {f"trait:{name}": value for name, value in traits.items()}
        return decide(columns, request(flavor={"name": "m1", "extra_specs": specs}))[0]

    assert one(CUSTOM_SSD="required", CUSTOM_OLD="forbidden")["host"] == "a"
    assert one(CUSTOM_SSD="forbidden")["host"] == "c"
    with pytest.raises(
        NoValidHost, match=r"required_traits rejected 3 \(asked CUSTOM_X, not CUSTOM_OLD\)"
    ):
        one(CUSTOM_X="required", CUSTOM_OLD="forbidden")
    with pytest.raises(
        RequestError,
        match="the extra spec 'trait:CUSTOM_X' must be required or forbidden, not 'maybe'",
    ):
        one(CUSTOM_X="maybe")
    policy = Policy.from_mapping()
    assert "traits" not in policy.needs(
        [request(flavor={"name": "m1", "extra_specs": {"hw:x": "1"}})]
    )
    assert "traits" in policy.needs(
        [request(flavor={"name": "m1", "extra_specs": {"trait:CUSTOM_X": "required"}})]
    )


def test_flavors_by_name_and_their_amounts():
    flavors = {"m1": {"vcpus": 2, "memory_mb": 512, "disk_gb": 5, "extra_specs": {}}}
    spec = RequestSpec.from_request({"name": "x", "flavor": "m1", "memory_mb": 256}, flavors)
    assert spec.resources == {"VCPU": 2, "MEMORY_MB": 256, "DISK_GB": 5}
    with pytest.raises(RequestError, match=r"flavor 'm2' is not in the store \(it has: m1\)"):
        RequestSpec.from_request({"name": "x", "flavor": "m2"}, flavors)
    own = {
        "name": "f",
        "vcpus": 1,
        "memory_mb": 1,
        "root_gb": 1,
        "ephemeral_gb": 2,
        "swap_mb": 1025,
    }
    assert request(vcpus=None, memory_mb=None, disk_gb=None, flavor=own).resources["DISK_GB"] == 5
