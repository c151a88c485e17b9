# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The roles evacuate and power with senseless variables: one sentence, nothing changed, nothing
left behind."""

from __future__ import annotations

import json
import sys
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.hosts import services
from ansible_collections.drover.compute.plugins.plugin_utils._store.runs import leases
from ansible_collections.drover.compute.tests.unit.action.running import play

pytestmark = pytest.mark.long

NO_NAME = "which is no name of a host; nothing was changed"
#: role, variables -> words of the refusal.
CASES = {
    **{
        f"{role} of {json.dumps(name)}": (role, {"drover_host": name}, words)
        for role in ("evacuate", "power", "power/fence")
        for name, words in (
            ("kvm9", "Host kvm9 is not in the store"),
            ("kvm1:kvm2", "kvm1:kvm2 "),
            ("", NO_NAME),
            ("kvm 1", NO_NAME),
            ("kvm1\n", NO_NAME),
            (None, NO_NAME),
            (["kvm1", "kvm2"], NO_NAME),
            ({"kvm1": 1}, NO_NAME),
        )
        # The other two take these defaults from one file.
        if role == "evacuate" or name in ("kvm 1", None)
    },
    "no host": ("evacuate", {}, "missing required arguments: drover_host"),
    "a host that is up": ("evacuate", {"drover_host": "kvm2"}, "kvm2 is up in the store"),
    "true is not the words": (
        "evacuate",
        {"drover_host": "kvm1", "drover_host_is_off": True},
        'drover_host_is_off is "True"',
    ),
    "words for another": (
        "evacuate",
        {"drover_host": "kvm1", "drover_host_is_off": "kvm2 is powered off"},
        "say exactly",
    ),
    "a list for the words": (
        "evacuate",
        {"drover_host": "kvm1", "drover_host_is_off": ["kvm1 is powered off"]},
        "say exactly",
    ),
    "no number": (
        "evacuate",
        {"drover_host": "kvm1", "drover_evacuate_quiet_seconds": "soon"},
        "drover_evacuate_quiet_seconds",
    ),
    "no action": (
        "power",
        {"drover_host": "kvm2", "drover_power_action": "explode"},
        "value of drover_power_action must be one of",
    ),
    "no driver": ("power", {"drover_host": "kvm2"}, "kvm2 has no power driver"),
    "a driver that is a path": (
        "power",
        {"drover_host": "path"},
        "the power driver ../../../x, which does not exist",
    ),
    "a driver that is a list": ("power", {"drover_host": "list"}, "which does not exist"),
    "a rule that does not exist": (
        "power",
        {"drover_host": "ssh", "drover_power_force": {"not_empty": 1, "all": 2}},
        "the rules are not_empty and not_disabled",
    ),
    "a driver that cannot tell": (
        "power/fence",
        {"drover_host": "ssh"},
        "the power driver ssh cannot do fence",
    ),
    "not in the inventory": (
        "power",
        {"drover_host": "gone"},
        "gone is in the store but not in the inventory",
    ),
}
INVENTORY = {
    "kvm1": {},
    "kvm2": {},
    "path": {"drover_power_driver": "../../../x"},
    "list": {"drover_power_driver": ["ssh"]},
    "ssh": {"drover_power_driver": "ssh"},
}


@pytest.fixture(scope="module", name="refusals")
def of_one_run(tmp_path_factory):
    """Return {case: message of the role's failure}; one run of ansible-playbook for all."""
    folder = tmp_path_factory.mktemp("hostile")
    url = f"sqlite:///{folder}/store.db"
    with Store.open(url).write() as connection:
        services.heartbeat(connection, [*INVENTORY, "gone"], time.time())
        services.record_unreachable(connection, "kvm1", "timed out", time.time())
    tasks = [
        {"ansible.builtin.add_host": {"name": name, "ansible_connection": "local", **values}}
        for name, values in INVENTORY.items()
    ]
    for number, (role, variables, dummy) in enumerate(CASES.values()):
        name, dummy, entry = role.partition("/")
        include = {
            "name": f"drover.compute.{name}",
            "tasks_from": entry or ("begin" if name == "evacuate" else "main"),
        }
        copy_task = {
            "content": "{{ ansible_failed_result.msg | default(ansible_failed_result) | string }}",
            "dest": f"{folder}/{number}",
        }
        tasks.append(
            {
                "block": [{"ansible.builtin.include_role": include, "vars": variables}],
                "rescue": [{"ansible.builtin.copy": copy_task}],
            }
        )
    code, text = play(
        folder, tasks, vars={"drover_store_url": url, "ansible_python_interpreter": sys.executable}
    )
    assert code == 0 and "Traceback" not in text, text
    files = {name: folder / str(number) for number, name in enumerate(CASES)}
    with Store.open(url).read() as connection:
        assert leases.read(connection) == []
    return {
        name: file.read_text() if file.exists() else "it was not refused"
        for name, file in files.items()
    }


@pytest.mark.parametrize("case", CASES)
def test_it_is_refused_in_a_sentence(refusals, case):
    text = " ".join(refusals[case].split())
    # Before ansible-core 2.19 Ansible itself accepts any text.
    assert (
        CASES[case][2] in text
        or case.endswith("of null")
        and "argument 'drover_host' must be" in text
    )
    assert (
        "Traceback" not in text and "has no attribute" not in text and "object of type" not in text
    )
