# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The modules for resource providers, in this process and by ansible-playbook."""

from __future__ import annotations

import importlib
import pathlib
import re

import pytest
import yaml

from ansible_collections.drover.compute.tests.unit.action.running import (
    failure,
    is_plain,
    play,
    run,
)
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODULES = (
    "resource_class",
    "trait",
    "resource_provider",
    "resource_provider_info",
    "allocation_info",
)
AGG = uuid_of("agg")
NASTY = "x'); DROP TABLE resource_providers; --"


@pytest.fixture
def url(prepared_url):
    fleets.discover(prepared_url, host("kvm1", domain("web", 2, 512)))
    return prepared_url


def test_resource_provider(url):
    arguments = {
        "name": "gpu",
        "parent": "kvm1",
        "inventories": {"PGPU": {"total": 2, "max_unit": 1}},
        "traits": ["HW_GPU_API_VULKAN"],
        "aggregates": [AGG],
        "store_url": url,
    }
    before = fleets.snapshot(url)
    assert run("resource_provider", check=True, **arguments)["changed"] is True
    assert fleets.snapshot(url) == before
    first = run("resource_provider", diff=True, **arguments)
    made = first["resource_provider"]
    assert (first["changed"], first["diff"][0]["before"], first["diff"][0]["after"]) == (
        True,
        {},
        made,
    )
    assert (made["parent"], made["root"], made["compute_node"]["host"]) == ("kvm1", "kvm1", "kvm1")
    assert is_plain(first)
    after = fleets.snapshot(url)
    second = run("resource_provider", diff=True, **arguments)
    assert (second["changed"], second["resource_provider"]) == (False, made)
    assert second["diff"][0]["before"] == second["diff"][0]["after"]
    assert fleets.snapshot(url) == after
    third = run(
        "resource_provider",
        name="gpu",
        traits=[],
        generation=made["generation"],
        diff=True,
        store_url=url,
    )
    assert third["diff"][0]["before"]["traits"] == ["HW_GPU_API_VULKAN"]
    assert third["diff"][0]["after"]["traits"] == []
    gone = run("resource_provider", name="gpu", state="absent", diff=True, store_url=url)
    assert (gone["changed"], gone["diff"][0]["after"], "resource_provider" in gone) == (
        True,
        {},
        False,
    )
    assert run("resource_provider", name="gpu", state="absent", store_url=url)["changed"] is False


def test_a_dry_run_goes_on_past_what_a_task_before_would_have_made(url):
    before = fleets.snapshot(url)
    arguments = {
        "name": "license",
        "inventories": {"CUSTOM_LICENSE": {"total": 4}},
        "traits": ["CUSTOM_PAID"],
        "store_url": url,
    }
    run("resource_class", check=True, name="CUSTOM_LICENSE", store_url=url)
    dry = run("resource_provider", check=True, **arguments)
    assert (
        dry["changed"] is True
        and dry["resource_provider"]["inventories"]["CUSTOM_LICENSE"]["total"] == 4
    )
    assert [text.partition(": ")[2].partition(" yet")[0] for text in dry["warnings"]] == [
        "there is no resource class CUSTOM_LICENSE",
        "there is no trait CUSTOM_PAID",
    ]
    quota = run("quota", check=True, project="shop", resources={"CUSTOM_LICENSE": 2}, store_url=url)
    assert quota["changed"] is True and "CUSTOM_LICENSE" in quota["warnings"][0]
    assert fleets.snapshot(url) == before
    assert "there is no resource class CUSTOM_LICENSE" in failure("resource_provider", **arguments)
    assert "there is no resource class LICENSE" in failure(
        "resource_provider", check=True, name="x", inventories={"LICENSE": {}}, store_url=url
    )


def test_resource_provider_warns(prepared_url):
    fleets.discover(prepared_url, host("kvm1"))
    arguments = {"name": "pool", "store_url": prepared_url}
    run("resource_provider", inventories={"DISK_GB": {"total": 4}}, **arguments)
    assert "warnings" not in run(
        "resource_provider", inventories={"DISK_GB": {"total": 3}}, **arguments
    )


def test_names(url):
    for module in ("resource_class", "trait"):
        arguments = {"names": ["CUSTOM_B", "CUSTOM_A"], "store_url": url}
        assert run(module, check=True, **arguments)["changed"] is True
        found = run(module, diff=True, **arguments)
        assert (found["changed"], found["names"]) == (True, ["CUSTOM_A", "CUSTOM_B"])
        assert found["diff"] == [
            {"before": {"names": []}, "after": {"names": ["CUSTOM_A", "CUSTOM_B"]}}
        ]
        assert run(module, **arguments)["changed"] is False
        assert run(module, name="CUSTOM_A", state="absent", store_url=url)["names"] == []
        assert run(module, name="CUSTOM_A", state="absent", store_url=url)["changed"] is False
    assert "is a standard one" in failure("trait", name="HW_CPU_X86_AVX", store_url=url)
    assert "is a standard one" in failure(
        "resource_class", name="VCPU", state="absent", store_url=url
    )


def test_resource_provider_info(url):
    answer = run("resource_provider_info", store_url=url)
    (row,) = answer["resource_providers"]
    assert (row["name"], row["inventories"]["VCPU"]["used"], answer["changed"]) == (
        "kvm1",
        2,
        False,
    )
    assert is_plain(answer)
    for filters, count in (
        ({"name": "kvm1"}, 1),
        ({"name": NASTY}, 0),
        ({"uuid": row["uuid"].upper()}, 1),
        ({"in_tree": row["uuid"]}, 1),
        ({"member_of": AGG}, 0),
        ({"member_of": f"!in:{AGG},{uuid_of('x')}"}, 1),
        ({"required": "COMPUTE_NODE,!STORAGE_DISK_SSD"}, 1),
        ({"required": ["in:COMPUTE_NODE,STORAGE_DISK_SSD"]}, 1),
        ({"resources": {"VCPU": 2}}, 1),
        ({"resources": "VCPU:3,MEMORY_MB:1"}, 0),
    ):
        answer = run("resource_provider_info", store_url=url, **filters)
        assert len(answer["resource_providers"]) == count, filters
    assert "did you mean VCPU?" in failure(
        "resource_provider_info", resources={"VCPUX": 1}, store_url=url
    )
    assert "uuid must be a uuid such as 1b4e28ba-2fa1-11d2-883f-0016d3cca427, not 'x'" in failure(
        "resource_provider_info", uuid="x", store_url=url
    )


def test_allocation_info(url):
    found = run("allocation_info", store_url=url)
    assert found["usages"] == {"MEMORY_MB": 512, "VCPU": 2}
    assert ("consumers" in found, found["changed"], is_plain(found)) == (False, False, True)
    one = run("allocation_info", consumer=uuid_of("web"), store_url=url)
    assert [(row["name"], row["type"]) for row in one["consumers"]] == [("web", "INSTANCE")]
    assert run("allocation_info", provider="kvm1", store_url=url)["consumers"] == one["consumers"]
    assert (
        run("allocation_info", project=NASTY, user="x", consumer_type="MIGRATION", store_url=url)[
            "usages"
        ]
        == {}
    )
    assert (
        "consumers must be a uuid such as 1b4e28ba-2fa1-11d2-883f-0016d3cca427, not 'x'"
        in failure("allocation_info", consumers=["x"], store_url=url)
    )
    assert "no resource provider kvm9" in failure("allocation_info", provider="kvm9", store_url=url)


# By ansible-playbook


def ran(folder, tasks, *options, **keywords):
    """Run a play with the store in a file of ``folder``; return (exit code, output) without line
    breaks."""
    code, output = play(
        folder,
        tasks,
        f"[drover]\nstore_url = sqlite:///{folder}/store.db\n",
        None,
        options,
        **keywords,
    )
    assert "Traceback" not in output, output
    return code, re.sub(r"\s+", " ", output)


def provider(**args):
    return {
        "name": f"Provider {args.get('name', '')[:30]}",
        "drover.compute.resource_provider": args,
    }


TASKS = [
    {"drover.compute.resource_class": {"names": ["CUSTOM_GPU", "CUSTOM_LICENSE"]}},
    {"drover.compute.trait": {"name": "CUSTOM_NVLINK"}},
    provider(name=NASTY),
    provider(
        name="gpu",
        parent=NASTY,
        inventories={"CUSTOM_GPU": {"total": "{{ 1 + 1 }}", "allocation_ratio": 1.5}},
        traits=["CUSTOM_NVLINK"],
        aggregates=[AGG],
    ),
]


@pytest.mark.long
def test_a_play_makes_checks_and_changes(tmp_path):
    code, output = ran(tmp_path, TASKS[:2], "--check", "--diff")
    assert (code, output.count("changed: [localhost]")) == (0, 2), output
    assert not (tmp_path / "store.db").exists()
    code, output = ran(tmp_path, TASKS, "--diff")
    assert (code, output.count("changed: [localhost]")) == (0, 4), output
    assert '+ "total": 2' in output
    code, output = ran(tmp_path, TASKS, "--diff")
    assert (code, output.count("ok: [localhost]")) == (0, 4), output
    change = [provider(name="gpu", inventories={"CUSTOM_GPU": {"total": 3}})]
    for options in (("--check", "--diff"), ("--diff",)):
        code, output = ran(tmp_path, change, *options)
        assert code == 0 and "changed=1" in output
        assert '- "total": 2' in output and '+ "total": 3' in output
    assert "changed=0" in ran(tmp_path, change)[1]


REFUSALS = [
    (provider(name="n" * 201), "has 201 characters; 200 are the most"),
    (
        provider(name="a", parent="gpus"),
        "there is no resource provider gpus to be its parent (did you mean gpu?)",
    ),
    (provider(name=NASTY, parent="gpu"), "gpu is below it, and a tree has no loops"),
    (provider(name=NASTY, state="absent"), "has children: gpu"),
    (
        provider(name="gpu", generation=77),
        "changed meanwhile: its generation is 2|changed meanwhile: its generation is 3",
    ),
    (provider(name="gpu", uuid=AGG), "The name gpu is taken"),
    (provider(name="a", traits=["CUSTOM_NVLINKS"]), "did you mean CUSTOM_NVLINK?"),
    (provider(name="a", traits=["gpu"]), "nothing but A-Z, 0-9 and _"),
    (
        provider(name="a", inventories={"CUSTOM_GPU": {"total": -1}}),
        "total must be a whole number from 1 to 2147483647, not -1",
    ),
    (
        provider(name="a", inventories={"CUSTOM_GPU": {"total": 10**30}}),
        "total must be a whole number from 1 to 2147483647",
    ),
    (provider(name="a", inventories={"CUSTOM_GPU": 4}), "must be a mapping such as"),
    (
        provider(name="a", inventories={"CUSTOM_GPU": {"total": 1, "reserved": 2}}),
        "2 cannot be reserved of a total of 1",
    ),
    (
        provider(name="a", aggregates=["fast"]),
        "aggregates must be a uuid such as 1b4e28ba-2fa1-11d2-883f-0016d3cca427, not 'fast'",
    ),
    (provider(state="absent"), "one of the following is required: name, uuid"),
    (
        {"drover.compute.trait": {"name": "CUSTOM_NVLINK", "state": "absent"}},
        "in use by the resource providers gpu",
    ),
    (
        {"drover.compute.resource_class": {"name": "CUSTOM_GPU", "state": "absent"}},
        "in use by the resource providers gpu",
    ),
    ({"drover.compute.resource_class": {"name": NASTY}}, "nothing but A-Z, 0-9 and _"),
    ({"drover.compute.resource_provider_info": {"required": "!"}}, "without an empty name"),
    ({"drover.compute.resource_provider_info": {"resources": [1]}}, "expected a text"),
    (
        {"drover.compute.allocation_info": {"provider": "y" * 300}},
        "There is no resource provider yyy",
    ),
]


@pytest.mark.long
def test_a_play_is_refused_in_sentences(tmp_path):
    tasks = [{**task, "ignore_errors": True} for task, dummy in REFUSALS]
    code, output = ran(tmp_path, TASKS + tasks)
    assert f"ignored={len(REFUSALS)}" in output, output
    for _dummy, words in REFUSALS:
        assert any(each in output for each in words.split("|")), (words, output)
    assert "defect" not in output
    assert "changed=0" in ran(tmp_path, TASKS)[1]


@pytest.mark.long
def test_a_play_warns_of_capacity_below_use(tmp_path):
    store = f"sqlite:///{tmp_path}/store.db"
    fleets.discover(store, host("kvm1"))
    tasks = [provider(name="pool", inventories={"DISK_GB": {"total": 10}})]
    assert ran(tmp_path, tasks)[0] == 0
    hold(store, "pool", {"DISK_GB": 8})
    code, output = ran(tmp_path, [provider(name="pool", inventories={"DISK_GB": {"total": 4}})])
    assert code == 0 and "[WARNING]: Resource provider pool: 8 of DISK_GB are in use" in output
    tasks = [
        {**provider(name="pool", inventories={}), "ignore_errors": True},
        provider(name="pool", state="absent"),
    ]
    code, output = ran(tmp_path, tasks)
    assert (
        code == 2
        and "cannot be removed while it is in use" in output
        and "has allocations: INSTANCE" in output
    )


def hold(url, name, held):
    """Let a consumer hold something of a provider."""
    engine = "ansible_collections.drover.compute.plugins.plugin_utils"
    store = importlib.import_module(f"{engine}._store")
    allocations = importlib.import_module(f"{engine}._placement.allocations")
    providers = importlib.import_module(f"{engine}._placement.providers")
    uuid = run("resource_provider_info", name=name, store_url=url)["resource_providers"][0]["uuid"]
    with store.Store.open(url).write() as connection:
        key = providers.ids(connection, [uuid])[uuid]
        allocations.replace(connection, {uuid_of("web"): {key: held}}, fleets.NOW)


@pytest.mark.long
@pytest.mark.parametrize("discovered", [False, True], ids=["empty", "discovered"])
def test_the_examples_run_as_they_stand(tmp_path, discovered):
    for module in MODULES:
        folder = tmp_path / module
        folder.mkdir()
        if discovered:
            fleets.discover(f"sqlite:///{folder}/store.db", host("kvm1"), host("kvm2"))
        stub = importlib.import_module(
            f"ansible_collections.drover.compute.plugins.modules.{module}"
        )
        (example,) = yaml.safe_load(stub.EXAMPLES)
        tasks = example.pop("tasks")
        code, output = ran(folder, tasks, **example)
        assert code == 0, (module, output)


@pytest.mark.long
def test_the_examples_of_the_guide_run_as_they_stand(tmp_path):
    fleets.discover(f"sqlite:///{tmp_path}/store.db", host("kvm1"))
    text = (ROOT / "docs" / "resource-providers.md").read_text()
    examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert len(examples) == 4
    for changes in (True, False):
        for each in examples:
            (example,) = yaml.safe_load(each)
            tasks = example.pop("tasks")
            code, output = ran(tmp_path, tasks, **example)
            assert code == 0, output
            assert changes or "changed=0" in output, output
