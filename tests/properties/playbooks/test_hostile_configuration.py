# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of ansible.cfg that change plays: none of them changes the effect of the collection's
playbooks.

place and drain with real hypervisors and the same settings:
tests/lab/test_hostile_configuration.py.
"""

from __future__ import annotations

import ansible
import pytest
import yaml

from ansible_collections.drover.compute.plugins.filter import _without_tags
from ansible_collections.drover.compute.tests.unit.action.test_rolling_role import (
    HOSTS,
    of_three_hosts,
)

PLAYBOOKS = sorted(_without_tags.PLAYBOOKS.glob("*.yml"))
#: The keyword of each play, for each setting that would change the play.
KEYWORDS = {
    "strategy": "linear",
    "gather_facts": False,
    "any_errors_fatal": False,
    "timeout": 0,
    "debugger": "never",
}
#: More lines of [defaults] in ansible.cfg.
HOSTILE = """\
strategy = free
gathering = implicit
any_errors_fatal = true
task_timeout = 3
enable_task_debugger = true
forks = 1
hash_behaviour = merge
private_role_vars = true
inject_facts_as_vars = false
force_handlers = true
duplicate_dict_key = error
display_skipped_hosts = false
stdout_callback = minimal
callbacks_enabled = ansible.posix.profile_tasks
"""

# A newer Ansible always has native types, and warns about the setting.
if tuple(map(int, ansible.__version__.split(".")[:2])) < (2, 19):
    HOSTILE += "jinja2_native = true\n"

fleet = of_three_hosts


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.stem)
def test_f17_each_play_says_what_a_configuration_could_change(path):
    for play in yaml.safe_load(path.read_text(encoding="utf-8")):
        if "hosts" in play:
            assert {name: play.get(name) for name in KEYWORDS} == KEYWORDS, play["name"]


@pytest.mark.long
def test_f17_rolling_under_a_hostile_configuration(fleet):
    """With the strategy free it ended in "object of type 'HostVarsVars' has no attribute
    'rolling_seen'".
    """
    with (fleet.folder / "ansible.cfg").open("a", encoding="utf-8") as config:
        config.write(HOSTILE)
    fail = {
        "name": "Refuse",
        "ansible.builtin.fail": {"msg": "the mirror is down"},
        "when": "inventory_hostname == 'kvm2'",
    }
    slow = {
        "name": "Take longer than the limit of the configuration",
        "ansible.builtin.command": "sleep 5",
    }
    code, output = fleet.roll(
        drover_rolling_hooks={
            "before_drain": fleet.hook("before_drain"),
            "after_drain": fleet.hook("after_drain", slow, fail),
        },
        drover_rolling_batch_size=2,
    )
    assert code == 2 and "Traceback" not in output and "HostVarsVars" not in output, output
    # A failure of one host of the batch does not affect the other; the next batch is not begun.
    assert fleet.stages() == {
        "kvm1": ("back", None),
        "kvm2": ("after_drain", "Refuse: the mirror is down"),
        "kvm3": ("waiting", None),
    }
    # The hosts of a batch stay in step.
    begun = fleet.hooked()
    assert sorted(begun[:2]) == ["before_drain kvm1", "before_drain kvm2"] and sorted(
        begun[2:]
    ) == ["after_drain kvm1", "after_drain kvm2"]
    code, output = fleet.roll(drover_rolling_hooks={"after_drain": fleet.hook("after_drain")})
    assert code == 0 and fleet.stages() == {} and fleet.states() == dict.fromkeys(HOSTS, False), (
        output
    )
