# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""These tests run on both databases: take ``store_url`` (no schema yet) or ``prepared_url``."""

from __future__ import annotations

import subprocess

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of


@pytest.fixture
def there(fleet_url, tmp_path, monkeypatch):
    """Return the hypervisors: the shipped modules on libvirt's test driver. Guests have a disk of 1
    GiB each."""
    pytest.importorskip("libvirt")
    from ansible_collections.drover.compute.tests.unit import hypervisors

    fleet = hypervisors.Fleet(tmp_path / "hosts", monkeypatch)
    hypervisors.connect_actions(fleet, monkeypatch)
    for name in ("web", "db"):
        path = str(tmp_path / f"{name}.qcow2")
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "1G"], check=True)
        fleet.hosts["kvm1"].define(name, uuid_of(name), disks=[path])
    yield fleet
    fleet.close()


@pytest.fixture
def fleet_url(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", domain("web", disk_gb=1), domain("db", disk_gb=1)),
        host("kvm2"),
        host("kvm3"),
    )
    with Store.open(prepared_url).write() as connection:
        flavors.ensure(connection, "big", {"vcpus": 2, "memory_mb": 128, "disk_gb": 2}, fleets.NOW)
    return prepared_url
