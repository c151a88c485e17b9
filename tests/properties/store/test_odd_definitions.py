# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Wrong definitions: each gets one sentence, and nothing is claimed. From the text of the file to
the claim."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils._conductor import scheduling
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (
    check,
    document,
    identity,
    keeping,
)
from ansible_collections.drover.compute.plugins.plugin_utils._scheduler.policy import Policy
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import instances
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker import machines

POLICY = {"pci_alias": [{"name": "gpu", "vendor_id": "10de", "product_id": "2204"}]}

#: The keys besides name and memory_mb, in the form of YAML.
KEYS = [
    *(
        f"vcpus: {value}"
        for value in ("0", "-1", "1.5", ".nan", ".inf", "true", "2147483648", "1e400", "[1]")
    ),
    *(f"count: {value}" for value in ("0", "-1", "1.0", "true", ".nan", "10001", "'3'")),
    *(
        f"disk_gb: {value}"
        for value in (
            "-1",
            ".nan",
            ".inf",
            "0.4",
            "9223372036854775808",
            "1e30TiB",
            "'99999999999999999999T'",
        )
    ),
    *(
        f"disks: {value}"
        for value in ("7", "{}", "[null]", "[{}]", "[[1]]", "[{size_gb: 0}]", "[{size_gb: .nan}]")
    ),
    *(
        f"networks: [{value}]"
        for value in (
            "{}",
            "{bridge: 7}",
            "{bridge: b, network: n}",
            "{bridge: b, mtu: .nan}",
            "{bridge: b, mac: 5}",
        )
    ),
    *(f"resources: {{VGPU: {value}}}" for value in (".nan", "-1", "1e10", "true", "7")),
    *(
        "resources: {VCPU: 4}",
        "resources: {nope: 1}",
        "traits: {required: [A], forbidden: [A]}",
        "hints: {query: [nope]}",
    ),
    *(
        "scheduler: {weighers: {RAMWeigher: .nan}}",
        "scheduler: {weighers: {Nope: 1}}",
        "policy: {priority: .inf}",
        "labels: {a: [1]}",
    ),
    *(
        "requested_destination: {host: nope}",
        "flavor: {name: x, vcpus: 1, memory_mb: .nan}",
        "flavor: nope",
        "image: nope",
        "name: b",
    ),
    *(
        "extra_specs: &again {x: *again}",
        "image: {properties: {hw_numa_nodes: .nan}}",
        "image: {properties: {hw_mem_page_size: 2048}}",
    ),
]
#: Extra specs of an instance with 3 vCPUs.
SPECS = [
    {"hw:cpu_policy": "nope"},
    {"hw:cpu_policy": "DEDICATED"},
    {"hw:cpu_policy": "shared", "hw:cpu_dedicated_mask": "0"},
    {"hw:cpu_policy": "dedicated", "hw:cpu_dedicated_mask": "0"},
    {"hw:cpu_policy": "mixed"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-2"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "7"},
    {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "0-4294967295"},
    {"hw:cpu_policy": "shared", "hw:cpu_thread_policy": "isolate"},
    {"hw:cpu_policy": "dedicated", "resources:PCPU": "3"},
    {"resources:VCPU": "1", "resources:PCPU": "2"},
    {"hw:emulator_threads_policy": "isolate"},
    {"hw:numa_nodes": "0"},
    {"hw:numa_nodes": "2"},
    {"hw:numa_nodes": "99999999999"},
    {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-1", "hw:numa_mem.0": "64"},
    {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-3", "hw:numa_mem.0": "64"},
    {"hw:numa_nodes": "1", "hw:numa_cpus.0": "0-2", "hw:numa_mem.0": "65"},
    {
        "hw:numa_nodes": "2",
        "hw:numa_cpus.0": "0-1",
        "hw:numa_mem.0": "32",
        "hw:numa_cpus.1": "1-2",
        "hw:numa_mem.1": "32",
    },
    {"hw:mem_page_size": "-1"},
    {"hw:mem_page_size": "3"},
    {"hw:mem_page_size": "99999999999999999999"},
    {"pci_passthrough:alias": "gpu"},
    {"pci_passthrough:alias": "nope:1"},
    {"pci_passthrough:alias": "gpu:-1"},
    {"pci_passthrough:alias": "gpu:9999999999999"},
    # The host has one device: two equal aliases request two devices.
    {"pci_passthrough:alias": "gpu:1,gpu:1"},
    {"resources:VGPU": "1e3"},
    {"hw:cpu_cores": "99999999999999999999"},
    {"hw:nope": "1"},
]


@pytest.fixture
def place(prepared_url, tmp_path):
    """Return a function text of a file -> its claims, by the steps of place."""
    sets = {"cpu_shared_set": "0,8,4,12", "cpu_dedicated_set": "1-3,9-11,5-7,13-15"}
    options = {**sets, "pci_device_specs": [{"vendor_id": "10de", "product_id": "2204"}]}
    fleets.discover(prepared_url, machines.node(options=options, **machines.devices()))

    def place_text(text):
        path = tmp_path / "fleet.yml"
        path.write_text(text, encoding="utf-8")
        read = document.Document(str(path))
        sections = {
            name: to_plain(rule(read.section(name), read.where))
            for name, rule in keeping.CHECKS.items()
        }
        items = read.section("instances")
        checked = to_plain(check.instances(items, read.where))
        places = {name: read.where(item) for item in items for name in check.names_of(item)}
        with Store.open(prepared_url).read() as connection:
            known_flavors, known_images = keeping.known(connection, sections)
            definitions = check.with_flavors(checked, known_flavors, places)
            resolved = identity.resolve(
                definitions, instances.listing(connection), [], known_flavors, known_images, places
            )
            check.known_names("images", list(zip(definitions, resolved)), known_images, places)
            selections = scheduling.decide(
                connection,
                [each["request"] for each in resolved],
                Policy.from_mapping(POLICY),
                fleets.NOW,
            )
        return fleets.claim(prepared_url, *selections)

    return place_text


@pytest.fixture
def refused(prepared_url, place):
    """Return a function that takes the text of a file and checks the sentence of its refusal. After
    all calls the store must be unchanged."""

    def refuse(text):
        with pytest.raises(DroverError) as problem:
            place(text)
        sentence = str(problem.value)
        assert (
            sentence.isprintable() and sentence.endswith((".", ")")) and "defect" not in sentence
        ), sentence

    before = fleets.snapshot(prepared_url)
    yield refuse
    assert fleets.snapshot(prepared_url) == before


def test_odd_values(refused):
    for key in KEYS:
        refused(f"instances:\n  - {{name: a, memory_mb: 64, {key}}}\n")
    for value in (
        "0",
        "-1",
        ".nan",
        ".inf",
        "1e3",
        "64.5",
        "99999999999999999999",
        "'99999999999TiB'",
        "[64]",
        "12:30",
    ):
        refused(f"instances:\n  - {{name: a, memory_mb: {value}}}\n")


def test_contradicting_extra_specs(refused):
    for specs in SPECS:
        text = ", ".join(f'"{key}": "{value}"' for key, value in specs.items())
        refused(f"instances:\n  - {{name: a, vcpus: 3, memory_mb: 64, extra_specs: {{{text}}}}}\n")


@pytest.mark.parametrize(
    "text",
    [
        "instances: 7\n",
        "instances: [7]\n",
        "instances: [{name: a, memory_mb: 64}, {name: a, memory_mb: 64}]\n",
        "instances: [{name: a, count: 2, memory_mb: 64}, {name: a-1, memory_mb: 64}]\n",
        "instances:\n  - &one {name: a, memory_mb: 64}\n  - *one\n",
        "one: &one {name: a, memory_mb: 64}\ninstances: [*one]\n",
        "instances: &all\n  - {name: a, memory_mb: 64, labels: *all}\n",
        "instances: [{name: a, memory_mb: 64, memory_mb: 32}]\n",
        "instances: !!python/object/apply:os.system ['true']\n",
        (
            "flavors: [{name: f, vcpus: 1, memory_mb: 64}, {name: f, vcpus: 2, memory_mb:"
            " 64}]\ninstances: []\n"
        ),
    ],
)
def test_odd_files(refused, text):
    refused(text)


def test_anchors_that_mean_something(place):
    text = (
        "instances:\n  - &one {name: a, memory_mb: 64, disks: &disks [{size_gb: 1}]}\n  - {<<:"
        " *one, name: b, disks: *disks}\n"
    )
    assert [each["name"] for each in place(text)] == ["a", "b"]
