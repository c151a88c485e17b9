# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""rolling_host in a real playbook run."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleActionFail

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.tests.unit.action.running import run


@pytest.fixture(name="url")
def of_a_store_with_two_hosts(prepared_url):
    with Store.open(prepared_url).write() as connection:
        services.heartbeat(connection, ["kvm1", "kvm2"], 1000)
    return prepared_url


def stages(result):
    return {each["host"]: each["stage"] for each in result["hosts"]}


def test_from_the_beginning_to_the_end(url):
    assert run("_rolling_host", store_url=url) == {"changed": False, "hosts": []}
    begun = run("_rolling_host", hosts=["kvm1", "kvm2"], store_url=url)
    assert begun["changed"] and stages(begun) == {"kvm1": "waiting", "kvm2": "waiting"}
    home = [{"uuid": "u", "host": "kvm1", "node": "kvm1"}]
    run(
        "_rolling_host",
        hosts=["kvm1"],
        stage="drain",
        instances=home,
        message="no room",
        store_url=url,
    )
    after = run(
        "_rolling_host", hosts=["kvm1"], stage="reboot", boot_id="b1", message="", store_url=url
    )
    (found,) = [each for each in after["hosts"] if each["host"] == "kvm1"]
    assert (found["stage"], found["boot_id"], found["instances"], found["message"]) == (
        "reboot",
        "b1",
        home,
        None,
    )
    assert not run("_rolling_host", hosts=["kvm1"], stage="reboot", store_url=url)["changed"]
    assert stages(run("_rolling_host", hosts=["kvm2"], state="absent", store_url=url)) == {
        "kvm1": "reboot"
    }
    gone = run("_rolling_host", state="absent", store_url=url)
    assert gone["changed"] and gone["hosts"] == []
    assert not run("_rolling_host", state="absent", store_url=url)["changed"]


def test_check_mode_writes_nothing(url):
    assert run("_rolling_host", check=True, hosts=["kvm1"], store_url=url)["changed"]
    assert run("_rolling_host", store_url=url)["hosts"] == []


def test_an_unknown_host_and_an_unknown_stage(url):
    with pytest.raises(AnsibleActionFail, match="Host kvm9 is not in the store"):
        run("_rolling_host", hosts=["kvm9"], store_url=url)
    with pytest.raises(AnsibleActionFail, match="stage"):
        run("_rolling_host", hosts=["kvm1"], stage="nap", store_url=url)
