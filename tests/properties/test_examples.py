# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of every plugin and role run unchanged. examples.WHERE has the place of each."""

from __future__ import annotations

import json
import os
import re
import shutil

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import host_state
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit import examples

pytestmark = pytest.mark.long

FOUND = {
    *(("module", path.stem) for path in (examples.ROOT / "plugins/modules").glob("[a-z]*.py")),
    *(("lookup", path.stem) for path in (examples.ROOT / "plugins/lookup").glob("[a-z]*.py")),
    *(("inventory", path.stem) for path in (examples.ROOT / "plugins/inventory").glob("[a-z]*.py")),
    *(("filter", path.stem) for path in (examples.ROOT / "plugins/filter").glob("*.yml")),
    *(("role", path.name) for path in (examples.ROOT / "roles").iterdir() if path.is_dir()),
}
RUN_HERE = sorted(
    key for key, where in examples.WHERE.items() if examples.HERE in where and key[0] != "inventory"
)
GROUPS = 4
# The answers of a power controller; tests/lab/test_power.py uses the real one.
PYGHMI = """
class Command:
    def __init__(self, bmc=None, userid=None, password=None, **more):
        assert (bmc, userid, password) == ("kvm1-bmc.example.com", "operator", "secret"), (bmc, userid)
        self.ipmi_session = self
    def get_power(self):
        return {"powerstate": "on"}
    def logout(self):
        pass
"""


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "store.db"
    examples.fill(f"sqlite:///{path}")
    return path


@pytest.fixture
def fleet(filled, tmp_path):
    """Return the URL of a store with the small fleet; the inventory is in tmp_path."""
    shutil.copyfile(filled, tmp_path / "store.db")
    examples.inventory(tmp_path)
    return f"sqlite:///{tmp_path / 'store.db'}"


def test_every_plugin_and_role_is_in_the_table():
    assert set(examples.WHERE) == FOUND


@pytest.mark.parametrize("kind, name", sorted(set(examples.WHERE) - {("inventory", "fleet")}))
def test_every_play_is_in_the_table(kind, name):
    assert len(examples.plays(kind, name)) == len(examples.WHERE[kind, name])
    assert set(examples.WHERE[kind, name]) <= {examples.HERE, examples.LAB}


@pytest.mark.parametrize("number", range(GROUPS))
def test_examples_run(filled, tmp_path, number):
    """One run has several examples, because each start of Ansible takes time; each plugin has a
    separate store."""
    examples.inventory(tmp_path)
    plays = []
    for kind, name in RUN_HERE[number::GROUPS]:
        store = tmp_path / f"{kind}-{name}.db"
        shutil.copyfile(filled, store)
        if name == "evacuation":
            # The module is for dead hosts only.
            with Store.open(f"sqlite:///{store}").write() as connection:
                host_state.change(connection, "kvm1", forced_down=True)
        for play in examples.plays_for(kind, name, examples.HERE):
            plays.append(
                {**play, "vars": {"drover_store_url": f"sqlite:///{store}", **play.get("vars", {})}}
            )
    examples.write_play(tmp_path, plays)
    package = tmp_path / "stand-in" / "pyghmi" / "ipmi"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").touch()
    (package / "command.py").write_text(PYGHMI)
    # There is no Ceph here; tests/lab/test_storage_fence.py has one.
    (tmp_path / "stand-in" / "ceph").write_text("#!/bin/sh\necho '{\"blocklist\": {}}'\n")
    (tmp_path / "stand-in" / "ceph").chmod(0o755)
    done = examples.command(
        tmp_path,
        "ansible-playbook",
        "-i",
        "inventory.yml",
        "-e",
        "vault_bmc_password=secret",
        "example.yml",
        environment={
            "PYTHONPATH": str(package.parents[1]),
            "PATH": f"{package.parents[1]}:{os.environ['PATH']}",
        },
    )
    assert done.returncode == 0, done.stdout
    assert all(f"PLAY [{play['name']}]" in done.stdout for play in plays)
    assert set(re.findall(r"(?:unreachable|failed|ignored)=(\d+)", done.stdout)) == {"0"}
    assert "[DEPRECATION" not in done.stdout, done.stdout


def test_inventory_example_runs(fleet, tmp_path):
    (tmp_path / "fleet.drover.yml").write_text(examples.text("inventory", "fleet"))
    done = examples.command(
        tmp_path, "ansible-inventory", "-i", "fleet.drover.yml", "--list", url=fleet
    )
    assert done.returncode == 0, done.stdout
    answer = json.loads(done.stdout)
    assert set(examples.HOSTS) <= set(answer["_meta"]["hostvars"])
