# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""power_event in a real playbook run."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.action.running import run


@pytest.fixture(name="url")
def of_a_store_with_kvm1(prepared_url):
    with Store.open(prepared_url).write() as connection:
        services.heartbeat(connection, ["kvm1"], 1000)
    return prepared_url


def test_before_and_after(url):
    assert run("_power_event", host="kvm1", store_url=url) == {"changed": False, "event": None}
    begun = run(
        "_power_event", host="kvm1", action="cycle", driver="ipmi", boot_id="old", store_url=url
    )
    assert begun["changed"] and begun["event"]["status"] == "running"
    ended = run(
        "_power_event",
        host="kvm1",
        uuid=begun["event"]["uuid"],
        status="completed",
        power_state="on",
        boot_id="new",
        store_url=url,
    )
    assert ended["event"] == run("_power_event", host="kvm1", store_url=url)["event"]
    assert (ended["event"]["status"], ended["event"]["boot_id"]) == ("completed", "new")


def test_check_mode_writes_nothing(url):
    assert run(
        "_power_event", check=True, host="kvm1", action="fence", driver="ipmi", store_url=url
    )["changed"]
    assert run("_power_event", host="kvm1", store_url=url)["event"] is None


def test_mistakes(url):
    with pytest.raises(AnsibleActionFail, match="Host kvm9 is not in the store"):
        run("_power_event", host="kvm9", store_url=url)
    with pytest.raises(AnsibleActionFail, match="required together"):
        run("_power_event", host="kvm1", action="fence", store_url=url)
