# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook power does not cut the power of the controller's own host, for any lifted rules."""

from __future__ import annotations

import json
import sys
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import power
from ansible_collections.drover.compute.tests.unit.action.running import ansible
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

DRIVER = {
    "drover_power_driver": "libvirt",
    "drover_power_domain": "test",
    "drover_power_address": "test:///default",
}


@pytest.fixture
def run(tmp_path):
    """Return a function that runs the playbook power and returns (exit code, its output, the last
    power event of the host)."""
    pytest.importorskip("libvirt")
    url = f"sqlite:///{tmp_path / 'store.db'}"
    old = domain("web", state="shutoff", autostart=True)
    fleets.discover(url, host("kvm1", domain("web")), host("kvm2", old), now=time.time())
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = {
        "all": {
            "hosts": {"localhost": local},
            "vars": {"drover_controller": "kvm1"},
            "children": {
                "hypervisors": {"hosts": {"kvm1": {**local, **DRIVER}, "kvm2": {**local, **DRIVER}}}
            },
        }
    }
    (tmp_path / "hosts.json").write_text(json.dumps(inventory))

    def ran(name, *options, action="hard_off", force=True):
        variables = json.dumps(
            {
                "drover_store_url": url,
                "drover_host": name,
                "drover_power_action": action,
                "drover_power_force": force,
            }
        )
        code, output = ansible(
            tmp_path,
            "playbook",
            "-i",
            "hosts.json",
            "-e",
            variables,
            "drover.compute.power",
            *options,
        )
        with Store.open(url).read() as connection:
            return code, output, power.last(connection, name)

    return ran


@pytest.mark.parametrize("options", [[], ["--check"]], ids=["real", "check"])
def test_issue_44_power_refuses_the_host_of_the_controller(run, options):
    code, output, event = run("kvm1", *options)
    assert (
        code == 2
        and "kvm1: hard_off is refused and nothing was changed, because it is the controller and its store"
        in output
    ), output
    assert event is None


def test_issue_44_the_power_of_another_host_is_not_refused(run):
    code, said, _event = run("kvm2", "--check")
    assert code == 0 and "hard_off would be done by libvirt" in said, said


@pytest.mark.parametrize("options", [[], ["--check"]], ids=["real", "check"])
@pytest.mark.parametrize("action", ["reboot", "cycle"])
def test_b1_power_boots_no_host_that_starts_a_guest_of_another_one(run, options, action):
    """web runs on kvm1, and kvm2 has an old definition of it with autostart."""
    code, output, event = run("kvm2", *options, action=action, force="not_empty,not_disabled")
    output = " ".join(output.split())
    assert (
        code == 2
        and f"kvm2: {action} is refused and nothing was changed, because its libvirt starts web"
        in output
    ), output
    assert "web is on kvm1 (running) too" in output and event is None
    code, output, _event = run(
        "kvm2", "--check", action=action, force="not_empty,not_disabled,autostart"
    )
    assert code == 0 and f"{action} would be done by libvirt" in output, output
