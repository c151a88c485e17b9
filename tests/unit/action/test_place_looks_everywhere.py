# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hostile C2: what is new to this store may be on a host already, as another store has placed it there since the last discovery."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

NEW = {"name": "new", "vcpus": 1, "memory_mb": 64}


def test_hostile_c2_a_name_that_a_host_has_and_the_store_does_not_know(fleet_url, there):
    there.hosts["kvm3"].define("new", uuid_of("other"), "shutoff")
    sentence = failure("_schedule", None, store_url=fleet_url, requests=[NEW])
    assert f"kvm3 has new (uuid {uuid_of('other')})" in sentence and "drover.compute.discover" in sentence


def test_hostile_c2_a_uuid_that_a_host_has(fleet_url, there):
    there.hosts["kvm2"].define("old-name", uuid_of("new"))
    assert "kvm2 has new" in failure("_schedule", None, store_url=fleet_url, requests=[{**NEW, "uuid": uuid_of("new")}])


def test_an_instance_of_the_store_may_have_the_name(fleet_url, there):
    """Of another project: the store knows it."""
    found = run("_schedule", None, store_url=fleet_url, requests=[{**NEW, "name": "web"}])
    assert found["selections"] and found["looked_at"]


def test_a_host_that_does_not_answer_is_named_and_holds_nothing_back(fleet_url, there, capsys):
    there.hosts["kvm3"].reached = False
    assert run("_schedule", None, store_url=fleet_url, requests=[NEW])["selections"]
    assert "Not read, as they do not answer: kvm3" in " ".join(capsys.readouterr().out.split())
