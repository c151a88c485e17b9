# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The providers of PCI devices are the providers that Nova's own code makes
(tests/benchmarks/pci_record.py)."""

from __future__ import annotations

import json
import pathlib

import pytest
import sqlalchemy as sa

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._placement import allocations
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.tracker.machines import domain, node

CASES = json.loads(pathlib.Path(__file__).with_name("nova_providers.json").read_text())["cases"]
#: Nova's errors, and our messages for them.
REFUSALS = {
    "PlacementPciDependentDeviceException": "a physical function and one of its virtual ones",
    "PlacementPciMixedResourceClassException": "have different resource classes",
    "PlacementPciMixedTraitsException": "have different traits",
    "PlacementPciException": (
        "which cannot have one_time_use|devname does not go with pci_report_in_placement"
    ),
}
USUAL = {"reserved": 0, "min_unit": 1, "step_size": 1, "allocation_ratio": 1.0}


def tree(url):
    """Return the providers below the node, as Nova's answers have them."""
    with Store.open(url).read() as connection:
        rows = connection.execute(
            sa.select(tables.resource_providers).where(
                tables.resource_providers.c.parent_id.is_not(None)
            )
        ).all()
        classes, names, totals, traits, allocation_table = (
            tables.resource_classes,
            tables.traits,
            tables.inventories,
            tables.provider_traits,
            tables.allocations,
        )
        amounts = connection.execute(sa.select(totals, classes.c.name).join(classes)).all()
        words = connection.execute(sa.select(traits.c.provider_id, names.c.name).join(names)).all()
        taken = connection.execute(
            sa.select(allocation_table.c.provider_id, allocation_table.c.used, classes.c.name).join(
                classes
            )
        ).all()
    fields = ("total", "max_unit", *USUAL)
    return {
        row.name: {
            "inventory": {
                each.name: {name: getattr(each, name) for name in fields}
                for each in amounts
                if each.provider_id == row.id
            },
            "traits": sorted(name for key, name in words if key == row.id),
            "allocated": {each.name: each.used for each in taken if each.provider_id == row.id},
        }
        for row in rows
    }


def facts(device):
    return {"parent_addr": None, **device}


@pytest.mark.parametrize("case", CASES, ids=lambda case: json.dumps(case["specs"]))
def test_providers_as_nova_writes_them(prepared_url, case):
    options = {"pci_device_specs": case["specs"], "pci_report_in_placement": True}
    users = (
        [domain("web", 1, 64, devices=[("pci", address) for address in case["taken"]])]
        if case["taken"]
        else []
    )
    report = node(*users, options=options, pci_devices=[facts(each) for each in case["devices"]])
    if "error" in case:
        with pytest.raises(DroverError, match=REFUSALS[case["error"]]):
            fleets.discover(prepared_url, report)
        return
    fleets.discover(prepared_url, report)
    expected = {
        name: {
            **each,
            "inventory": {rc: {**USUAL, **amounts} for rc, amounts in each["inventory"].items()},
        }
        for name, each in case["providers"].items()
    }
    assert tree(prepared_url) == expected
    # Existing providers stay as they are.
    assert not fleets.discover(prepared_url, report)["changed"]


def test_a_device_for_one_use_stays_reserved_until_an_operator_frees_it(prepared_url):
    device = {
        "address": "0000:81:00.0",
        "vendor_id": "10de",
        "product_id": "2204",
        "dev_type": "type-PCI",
        "numa_node": 0,
    }
    options = {
        "pci_device_specs": [{"vendor_id": "10de", "one_time_use": True}],
        "pci_report_in_placement": True,
    }
    more = {"options": options, "pci_devices": [facts(device)]}

    def reserved():
        (provider,) = tree(prepared_url).values()
        return provider["inventory"]["CUSTOM_PCI_10DE_2204"]["reserved"]

    fleets.discover(prepared_url, node(**more))
    assert reserved() == 0
    assert fleets.discover(
        prepared_url, node(domain("web", 1, 64, devices=[("pci", device["address"])]), **more)
    )["changed"]
    assert reserved() == 1
    # The instance is missing, then its room is released: the device was used.
    fleets.discover(prepared_url, node(**more))
    with Store.open(prepared_url).write() as connection:
        allocations.replace(connection, {fleets.uuid_of("web"): {}}, fleets.NOW)
    fleets.discover(prepared_url, node(**more))
    assert reserved() == 1
    with Store.open(prepared_url).write() as connection:
        connection.execute(
            sa.update(tables.inventories).where(tables.inventories.c.total == 1).values(reserved=0)
        )
    fleets.discover(prepared_url, node(**more))
    assert reserved() == 0


def test_a_device_of_a_physical_network_takes_nothing_of_the_card_s_provider(prepared_url):
    functions = [
        {
            "address": f"0000:3b:02.{number}",
            "vendor_id": "8086",
            "product_id": "154c",
            "dev_type": "type-VF",
            "parent_addr": "0000:3b:00.0",
        }
        for number in (0, 1)
    ]
    specs = [{"address": "0000:3b:02.0", "physical_network": "physnet1"}, {"product_id": "154c"}]
    user = domain("web", 1, 64, devices=[("pci", "0000:3b:02.0")])
    options = {"pci_device_specs": specs, "pci_report_in_placement": True}
    fleets.discover(prepared_url, node(user, options=options, pci_devices=functions))
    (provider,) = tree(prepared_url).values()
    assert (
        provider["allocated"] == {} and provider["inventory"]["CUSTOM_PCI_8086_154C"]["total"] == 1
    )
