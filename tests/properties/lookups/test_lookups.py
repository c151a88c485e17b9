# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lookups, as Ansible calls them, over a real store."""

from __future__ import annotations

import importlib
import json
import re

import pytest
import sqlalchemy as sa
import yaml
from ansible import constants as C
from ansible.errors import AnsibleError
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar

from ansible_collections.drover.compute.plugins.plugin_utils._common import errors
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.scheduler.fleets import uuid_of

try:
    from ansible.template import trust_as_template
except ImportError:
    # Before ansible-core 2.19 every text is a template.
    trust_as_template = str

REQUEST = {"name": "new", "vcpus": 1, "memory_mb": 64, "disk_gb": 1}


def plugin_named(name, templar):
    """Return a lookup with its documented options, as Ansible's loader returns it.

    The loader finds collections only through an import hook, which must exist before anything of
    the collection is imported. The playbook tests use the loader.
    """
    module = importlib.import_module(f"ansible_collections.drover.compute.plugins.lookup.{name}")
    document = yaml.safe_load(module.DOCUMENTATION)
    options = document["options"]
    for fragment in document["extends_documentation_fragment"]:
        file, _dot, variant = fragment.removeprefix("drover.compute.").partition(".")
        base = "ansible_collections.drover.compute.plugins.doc_fragments"
        found = importlib.import_module(f"{base}.{file}").ModuleDocFragment
        for option, more in yaml.safe_load(getattr(found, variant.upper() or "DOCUMENTATION"))[
            "options"
        ].items():
            options[option] = {**options.get(option, {}), **more}
    C.config.initialize_plugin_configuration_definitions(
        "lookup", f"drover.compute.{name}", options
    )
    plugin = module.LookupModule(loader=DataLoader(), templar=templar)
    plugin._load_name = f"drover.compute.{name}"
    return plugin


def ask(name, *terms, variables=None, **options):
    templar = Templar(loader=DataLoader(), variables=variables or {})
    return plugin_named(name, templar).run(list(terms), variables=variables or {}, **options)


def refusal(name, *terms, **options):
    with pytest.raises(AnsibleError) as caught:
        ask(name, *terms, **options)
    assert "Traceback" not in str(caught.value)
    return str(caught.value)


def contents(url):
    with Store.open(url).read() as connection:
        return {
            table.name: [tuple(map(str, row)) for row in connection.execute(sa.select(table))]
            for table in tables.EXPORTED
        }


def test_schedule_answers_in_plain_data_and_writes_nothing(fleet_url):
    before = contents(fleet_url)
    chosen = ask(
        "schedule",
        REQUEST,
        [dict(REQUEST, name="two"), dict(REQUEST, name="three")],
        store_url=fleet_url,
    )
    assert [each["name"] for each in chosen] == ["new", "two", "three"]
    assert len({each["uuid"] for each in chosen}) == 3
    # Free memory 576, 512, 256; disk 50 everywhere; CPUs 12, 16, 16 (ratio 4).
    assert [each["host"] for each in chosen] == ["kvm2", "kvm1", "kvm3"]
    assert chosen[0]["alternates"][0]["host"] == "kvm1"
    assert json.loads(json.dumps(chosen)) == chosen
    assert contents(fleet_url) == before


def test_schedule_keeps_the_uuid_of_the_request(fleet_url):
    (chosen,) = ask("schedule", dict(REQUEST, uuid=uuid_of("x")), store_url=fleet_url)
    assert chosen["uuid"] == uuid_of("x")


def test_an_empty_batch_needs_no_store(tmp_path):
    assert ask("schedule", [], store_url=f"sqlite:///{tmp_path}/none.db") == []
    assert not (tmp_path / "none.db").exists()


def test_options_from_variables_are_templated(fleet_url):
    variables = {
        "drover_store_url": trust_as_template("{{ where }}"),
        "where": fleet_url,
        "drover_scheduler": {"weighers": {"RAMWeigher": trust_as_template("{{ 0 - 1 }}")}},
    }
    assert ask("schedule", REQUEST, variables=variables)[0]["host"] == "kvm3"
    # An option of the call overrides the variable.
    assert (
        ask("schedule", REQUEST, variables=variables, policy={"weighers": ["RAMWeigher"]})[0][
            "host"
        ]
        == "kvm1"
    )


def test_service_down_time(fleet_url):
    assert ask("schedule", REQUEST, store_url=fleet_url, service_down_time=600)
    with Store.open(fleet_url).write() as connection:
        connection.execute(
            sa.update(tables.services).values(last_seen_up=tables.services.c.last_seen_up - 1000)
        )
    assert ask("schedule", REQUEST, store_url=fleet_url)
    message = refusal(
        "schedule", REQUEST, store_url=fleet_url, variables={"drover_service_down_time": 600}
    )
    assert "ComputeFilter rejected 3" in message and "down, last seen" in message


@pytest.mark.parametrize(
    ("request_", "options", "says"),
    [
        (
            dict(REQUEST, memory_mb=2000),
            {},
            "No valid host for new (1 vCPU, 2000 MiB, 1 GiB): of 3 hosts, RamFilter",
        ),
        (
            dict(REQUEST, memory_mb=-1),
            {},
            (
                "'memory_mb' must be a whole number of MiB from 1 to 2147483647, or a size such as"
                " 512MiB, 4GiB or 2T, not -1"
            ),
        ),
        (dict(REQUEST, availability_zone="az9"), {}, "which no host is in (zones: az1, az2)"),
        (dict(REQUEST, server_group="none"), {}, "Server group 'none' is not in the store"),
        ("kvm1", {}, "must be a mapping"),
        (REQUEST, {"policy": {"enabled_filters": ["Nonsense"]}}, "there are: AggregateCoreFilter"),
        (REQUEST, {"polcy": {}}, "unknown option polcy (did you mean policy?)"),
        (REQUEST, {"store_url": "postgresql://u:secret@nowhere.invalid:port/x"}, "malformed"),
        (REQUEST, {"service_down_time": "soon"}, "service_down_time"),
    ],
)
def test_schedule_refuses_in_a_sentence(fleet_url, request_, options, says):
    said = refusal("schedule", request_, **{"store_url": fleet_url, **options})
    assert says in said
    assert "secret" not in said


def test_no_store_yet(tmp_path):
    said = refusal("schedule", REQUEST, store_url=f"sqlite:///{tmp_path}/none.db")
    assert "Run the playbook drover.compute.discover first" in said
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize(
    ("module", "name", "package"),
    [("_scheduler.node_columns", "np", "numpy"), ("_store.engine", "sa", "SQLAlchemy")],
)
def test_a_missing_package_is_named(fleet_url, monkeypatch, module, name, package):
    base = "ansible_collections.drover.compute.plugins.plugin_utils"
    monkeypatch.setattr(f"{base}.{module}.{name}", errors.MissingPackage(package))
    said = refusal("schedule", REQUEST, store_url=fleet_url)
    assert f"The Python package {package} is missing on this controller" in said
    assert re.search(r"pip install -r /\S+/requirements\.txt$", said)


def test_schedule_names_the_providers_of_other_classes_in_plain_types(fleet_url):
    inventories, classes, providers = (
        tables.inventories,
        tables.resource_classes,
        tables.resource_providers,
    )
    with Store.open(fleet_url).write() as connection:
        licence = connection.execute(
            sa.insert(classes).values(name="CUSTOM_LICENCE")
        ).inserted_primary_key[0]
        kvm2 = connection.execute(
            sa.select(providers.c.id).where(providers.c.name == "kvm2")
        ).scalar_one()
        room = {
            "total": 1,
            "reserved": 0,
            "min_unit": 1,
            "max_unit": 1,
            "step_size": 1,
            "allocation_ratio": 1.0,
        }
        connection.execute(
            sa.insert(inventories).values(provider_id=kvm2, class_id=licence, **room)
        )
    request = {**REQUEST, "resources": {"CUSTOM_LICENCE": 1}}
    (found,) = ask("schedule", request, store_url=fleet_url)
    assert found["host"] == "kvm2" and json.loads(json.dumps(found)) == found
    assert found["allocations"] == {found["provider"]: found["resources"]}
    assert "allocations" not in ask("schedule", REQUEST, store_url=fleet_url)[0]
    said = refusal("schedule", [request, {**request, "name": "second"}], store_url=fleet_url)
    assert "CUSTOM_LICENCE rejected 3 (asked 1, no host has that free)" in said
