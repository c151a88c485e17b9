# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook rolling_maintenance on hypervisors of libvirt's test driver, without a reboot: the
role's use of the steps."""

from __future__ import annotations

import json

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import rolling, services
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.tests.unit.action import running
from ansible_collections.drover.compute.tests.unit.hypervisors import NODE
from ansible_collections.drover.compute.tests.unit.store import fleets

pytest.importorskip("libvirt")

HOSTS = ("kvm1", "kvm2", "kvm3")


class Maintenance:
    """Write its inventory and store."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.log = folder / "hooked"
        node = folder / "node.xml"
        node.write_text(NODE.format(cpus=4, memory=4096 * 1024))
        hosts = {name: {"drover_uris": [f"test://{node}"]} for name in HOSTS}
        variables = {
            "ansible_connection": "local",
            "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        }
        (folder / "inventory.json").write_text(
            json.dumps({"all": {"vars": variables, "children": {"hypervisors": {"hosts": hosts}}}}),
        )
        (folder / "ansible.cfg").write_text(
            "[defaults]\nlocalhost_warning = false\nshow_custom_stats = true\n"
        )

    def hook(self, name, *tasks):
        """Write a hook file; it records the host first."""
        path = self.folder / f"{name}.yml"
        note = {
            "name": "Note it",
            "ansible.builtin.shell": f"echo {name} {{{{ drover_host }}}} >> {self.log}",
        }
        path.write_text(json.dumps([note, *tasks]))
        return str(path)

    def hooked(self):
        """Return the records of the hooks, in the order of the stages."""
        return self.log.read_text().splitlines() if self.log.exists() else []

    def roll(self, *words, **variables):
        """Run the playbook.

        :returns: (exit code, its whole output).
        """
        given = {"drover_store_url": self.url, "drover_rolling_reboot": "never", **variables}
        (self.folder / "vars.json").write_text(json.dumps(given))
        play = (
            "playbook",
            "-i",
            "inventory.json",
            "-e",
            "@vars.json",
            "drover.compute.rolling_maintenance",
            *words,
        )
        return running.ansible(self.folder, *play)

    def stages(self):
        with Store.open(self.url).read() as connection:
            return {
                each["host"]: (each["stage"], each["message"]) for each in rolling.read(connection)
            }

    def states(self):
        """Return {host: True if it is disabled}, and check that no lease is left."""
        with Store.open(self.url).read() as connection:
            assert leases.read(connection) == []
            return {name: services.get(connection, name).disabled for name in HOSTS}


@pytest.fixture(name="fleet")
def of_three_hosts(prepared_url, tmp_path):
    if not prepared_url.startswith("sqlite"):
        pytest.skip("the role asks no database itself")
    fleets.discover(prepared_url, *map(fleets.host, HOSTS))
    return Maintenance(tmp_path, prepared_url)


def flat(said):
    return " ".join(said.split())


def test_a_hook_that_fails_ends_the_run_after_its_batch_and_the_next_one_goes_on(fleet):
    refuse = {
        "name": "Refuse",
        "ansible.builtin.fail": {"msg": "the mirror is down"},
        "when": "inventory_hostname == 'kvm2'",
    }
    hooks = {name: fleet.hook(name) for name in ("before_drain", "after_reboot", "after_enable")}
    code, output = fleet.roll(
        drover_rolling_hooks={**hooks, "after_drain": fleet.hook("after_drain", refuse)},
        drover_rolling_batch_size=2,
    )
    assert code == 2 and "Traceback" not in output, output
    assert (
        "This batch: kvm1, kvm2. 1 host waits." in output
        and "kvm2 did not come through; no other batch is begun." in flat(output)
    )
    assert (
        "kvm2: stopped at after_drain, up, in maintenance, 0 instances (Refuse: the mirror is down)"
        in output
    )
    assert (
        "kvm1: stopped at back, up, enabled, 0 instances (" in output
        and "kvm3: not begun, up, enabled, 0 instances" in output
    )
    assert "Correct the cause and run the same command again" in flat(
        output
    ) and "The rolling maintenance is not finished: kvm1, kvm2, kvm3" in flat(output)
    assert fleet.stages() == {
        "kvm1": ("back", None),
        "kvm2": ("after_drain", "Refuse: the mirror is down"),
        "kvm3": ("waiting", None),
    }
    assert fleet.states() == {"kvm1": False, "kvm2": True, "kvm3": False}
    # No host was rebooted; the hosts of a batch stay in step.
    begun = sorted(f"before_drain {host}" for host in ("kvm1", "kvm2")) + sorted(
        f"after_drain {host}" for host in ("kvm1", "kvm2")
    )
    assert sorted(fleet.hooked()[:2]) + sorted(fleet.hooked()[2:4]) + fleet.hooked()[4:] == [
        *begun,
        "after_enable kvm1",
    ]

    fleet.log.unlink()
    code, output = fleet.roll(
        drover_rolling_hooks={**hooks, "after_drain": fleet.hook("after_drain")},
        drover_rolling_batch_size=2,
    )
    assert code == 0, output
    assert (
        "Going on with a maintenance that was not finished: kvm1, kvm2 was begun with, 1 wait."
        in flat(output)
    )
    of_the_last = [f"{stage} kvm3" for stage in ("before_drain", "after_drain", "after_enable")]
    assert fleet.hooked() == ["after_drain kvm2", "after_enable kvm2", *of_the_last]
    for host in HOSTS:
        assert f"{host}: done, up, enabled, 0 instances" in output
    assert fleet.stages() == {} and fleet.states() == dict.fromkeys(HOSTS, False)
    # The job's artifact; ansible-playbook shows it by a setting.
    assert '"finished": true' in flat(output), output
