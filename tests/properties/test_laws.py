# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All code uses the modules that keep the laws: the tests read the syntax trees of the files.

Each rule holds on the collection, and breaks on a small file with one violation, so every rule is
active.
"""

from __future__ import annotations

import ast
import functools
import pathlib

import pytest
import yaml

from ansible_collections.drover.compute.plugins.plugin_utils._conductor import starting

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLUGINS = ROOT / "plugins"

#: Functions that free room, or let an instance start on another host.
FREEING = {"undo", "finish", "confirm", "revert", "clear_source", "release", "reclaim", "forget"}
#: The files that may take a person's word as a proof, and the files that may conclude from the
#: journal that nothing was begun.
MAY_TAKE = {
    "word": {"action/allocation.py"},
    "never_begun": {
        "plugin_utils/_conductor/building.py",
        "plugin_utils/_conductor/evacuation_restarts.py",
        "plugin_utils/_conductor/evacuation_settling.py",
        "plugin_utils/_placement/audit/repair.py",
        "plugin_utils/_placement/claims.py",
    },
    "is_off": {"plugin_utils/_conductor/evacuation_settling.py"},
    # The proofs of a start.
    "may_start": {"plugin_utils/_conductor/starting.py"},
    "is_new": {"plugin_utils/_conductor/starting.py"},
}
#: The file that calls modules that may start a domain, with a StartProof of each domain.
STARTING = "plugin_utils/_conductor/starting.py"
#: Calls that may start a domain on a hypervisor, and the files with them: the files of the modules
#: that STARTING knows, and the end of a move of a guest that its source has shut down itself.
STARTS = {"boot", "createWithFlags", "revertToSnapshot", "pMWakeup"}
#: Pools, folders and devices have methods with the same names.
STARTS_OF_DOMAINS = {("domain", "create"), ("domain", "resume"), ("power", "start")}
STARTERS = {
    "module_utils/_changes/presence.py",
    "module_utils/_changes/power.py",
    "module_utils/_migration/worker.py",
    "module_utils/_domain/power.py",
    "module_utils/_domain/reboot.py",
    "module_utils/_restart/restart.py",
    "module_utils/_snapshots/steps.py",
}


def files():
    return {
        str(path.relative_to(PLUGINS)): path.read_text(encoding="utf-8")
        for path in sorted(PLUGINS.rglob("*.py"))
    }


@functools.lru_cache(maxsize=1)
def nodes_of(tree):
    """Return all nodes of a tree. All rules read the tree of one file before that of the next."""
    return list(ast.walk(tree))


def names_of(tree):
    """Yield every name, attribute and imported name of a tree."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.alias):
            yield node.name


def calls_of(tree):
    """Yield (module or None, function, call) of every call."""
    for node in nodes_of(tree):
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute):
                owner = node.func.value
                yield getattr(owner, "id", getattr(owner, "attr", None)), node.func.attr, node
            elif isinstance(node.func, ast.Name):
                yield None, node.func.id, node


def hypervisors_by_one_way(name, tree):
    """Action plugins reach modules on hypervisors through remote_module only."""
    ways = {"_execute_module", "_low_level_execute_command", "AnsibleConnectionFailure"}
    return (
        []
        if name == "plugin_utils/_ansible_border/remote_module.py"
        else sorted(ways & set(names_of(tree)))
    )


def proofs_from_one_place(name, tree):
    """Only certainty makes a Proof, and only the listed files may take a word, or the journal, as a
    proof."""
    calls = [
        function
        for owner, function, dummy in calls_of(tree)
        if function in ("Proof", "StartProof") and name != "plugin_utils/_common/certainty.py"
    ]
    calls += [
        f"certainty.{function}"
        for owner, function, dummy in calls_of(tree)
        if owner == "certainty" and name not in MAY_TAKE.get(function, {name})
    ]
    return calls


def no_room_freed_without_a_proof(name, tree):
    """A function that frees room gets a variable with a proof, or a call of certainty; a constant
    is no proof."""
    calls = []
    for owner, function, call in calls_of(tree):
        if owner not in ("claims", "migration_claims") or function not in FREEING:
            continue
        if not any(_is_proof(each) for each in call.args):
            calls.append(f"{owner}.{function}")
    return calls


def _is_proof(node):
    if isinstance(node, ast.Name):
        return node.id == "proof"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = getattr(node.func.value, "id", None)
        return owner == "certainty" or (owner == "self" and node.func.attr in ("_word", "_is_over"))
    return False


def answers_are_judged(name, tree):
    """On the controller, only certainty reads the keys with a module's certain facts."""
    if (
        not name.startswith(("action/", "plugin_utils/"))
        or name == "plugin_utils/_common/certainty.py"
    ):
        return []
    read = [
        call.args[0] for dummy, function, call in calls_of(tree) if function == "get" and call.args
    ]
    read += [node.slice for node in nodes_of(tree) if isinstance(node, ast.Subscript)]
    return [
        node.value
        for node in read
        if isinstance(node, ast.Constant) and node.value in ("begun", "domain_left")
    ]


def modules_know_their_machine(name, tree):
    """A module that runs on a hypervisor is a HostModule, which refuses on another machine; only
    the border makes the way to one.
    """
    calls = [
        function
        for dummy, function, dummy2 in calls_of(tree)
        if function == "AnsibleModule" and name.startswith("modules/")
    ]
    if name not in (
        "plugin_utils/_ansible_border/action.py",
        "plugin_utils/_ansible_border/delegation.py",
    ):
        calls += [
            function
            for dummy, function, dummy2 in calls_of(tree)
            if function in ("Hand", "RemoteHand") and name.startswith(OWN)
        ]
    return calls


#: The code that runs on the controller.
OWN = ("action/", "plugin_utils/", "modules/")


def starts_with_a_proof(name, tree):
    """Only starting calls a module that may start a domain; all others name a module that starts
    none.
    """
    if name == STARTING or name.startswith(("modules/", "module_utils/")):
        return []
    called = [
        call.args[0]
        for dummy, function, call in calls_of(tree)
        if function == "act" and len(call.args) == 2
    ]
    called_names = [
        each.value if isinstance(each, ast.Constant) else f"variable {ast.unparse(each)}"
        for each in called
    ]
    # The one call of a plugin through its base class.
    return [
        each
        for each in called_names
        if each in starting.STARTING
        or not (each.startswith(("_", "ansible.builtin.")) or each == "variable args")
    ]


def only_known_files_start_domains(name, tree):
    """On hypervisors domains start in a few files; the modules of starting use these files."""
    if name in STARTERS or not name.startswith(("modules/", "module_utils/")):
        return []
    called = [(owner, function) for owner, function, dummy in calls_of(tree)]
    return [
        f"{owner}.{function}"
        for owner, function in called
        if function in STARTS or (owner, function) in STARTS_OF_DOMAINS
    ]


#: The file with the conductor's reading of other hosts before files are removed, and the functions
#: of the store that only it may use for that.
REMOVING = "plugin_utils/_conductor/removing.py"
NEEDED_ELSEWHERE = {"elsewhere", "on_ways", "shared_elsewhere"}


def removals_look_at_other_hosts(name, tree):
    """A hypervisor gets ``used_elsewhere`` from Removing, which reads the other hosts; no other
    code gives their needs."""
    if name == REMOVING or not name.startswith(("action/", "plugin_utils/")):
        return []
    violations = [
        f"{owner}.{function}"
        for owner, function, dummy in calls_of(tree)
        if owner == "used_files" and function in NEEDED_ELSEWHERE
    ]
    pairs = [
        (key, value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
    ]
    pairs += [
        (target.slice, node.value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Subscript)
    ]
    pairs += [
        (ast.Constant(each.arg), each.value)
        for node in nodes_of(tree)
        if isinstance(node, ast.Call)
        for each in node.keywords
    ]
    for key, value in pairs:
        if (
            isinstance(key, ast.Constant)
            and key.value == "used_elsewhere"
            and not _is_looked_up(value)
        ):
            violations.append(f"used_elsewhere of {ast.unparse(value)}")
    return violations


def _is_looked_up(node):
    """Return True for a call of Removing, or of a method of the same class that calls it."""
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and "_removing." in f"{ast.unparse(node.func)}."
        or (isinstance(node, ast.Call) and ast.unparse(node.func) == "self._used_elsewhere")
    )


#: The modules that remove files, and their callers: all callers take the needs of other hosts from
#: Removing.
REMOVERS = {"_domain_disk_move", "_domain_migration", "_domain_snapshot", "_image_file"}


def removers_are_called_with_a_look(name, tree):
    """A file that calls a module that removes files uses Removing, its own or an
    InstanceOrder's.
    """
    called = {
        each.value
        for owner, function, call in calls_of(tree)
        if function in ("act", "order")
        for each in call.args
        if isinstance(each, ast.Constant) and each.value in REMOVERS
    }
    return (
        sorted(called)
        if name.startswith(("action/", "plugin_utils/"))
        and not {"Removing", "_removing"} & set(names_of(tree))
        else []
    )


RULES = {
    removals_look_at_other_hosts: "given['used_elsewhere'] = []",
    removers_are_called_with_a_look: "answer = hand.act('_image_file', given)",
    modules_know_their_machine: "hand = Hand(self, 'kvm1', {}, machines)",
    starts_with_a_proof: "answer = hand.act('domain_power', given)",
    only_known_files_start_domains: "power.start(domain, 60)",
    hypervisors_by_one_way: "result = self._execute_module(module_name='drover.compute.domain')",
    proofs_from_one_place: "proof = certainty.word('nobody')",
    no_room_freed_without_a_proof: (
        "migration_claims.undo(connection, uuid, None, 'it failed', now)"
    ),
    answers_are_judged: "if result.get('begun') is False: alternate()",
}


@functools.cache
def breaches():
    """Return {rule: {file: violations}}. Each file is parsed once for all rules."""
    by_rule = {rule: {} for rule in RULES}
    for name, text in files().items():
        tree = ast.parse(text)
        for rule, broken in by_rule.items():
            if around := rule(name, tree):
                broken[name] = around
    return by_rule


@pytest.mark.parametrize("rule", RULES)
def test_nothing_goes_around(rule):
    assert breaches()[rule] == {}


def test_what_other_hosts_need_comes_from_a_look():
    """A value of the store, a constant and another function are violations; a look is not."""
    for text in (
        "x = used_files.elsewhere(c, u, h)",
        "act(m, {'used_elsewhere': []})",
        "dict(used_elsewhere=recorded(u))",
    ):
        assert removals_look_at_other_hosts("plugin_utils/_conductor/other.py", ast.parse(text)), (
            text
        )
    assert not removals_look_at_other_hosts(
        "action/x.py", ast.parse("given['used_elsewhere'] = self._removing.look(u, h, p)")
    )


def test_the_module_of_a_start_is_known_by_its_constant():
    """A module in a variable is a violation, and so is a module that starts domains."""
    for text in (
        "hand.act(MODULE, given)",
        "hand.act('_domain_restart', given)",
        "self._hand.act(module, {**given})",
    ):
        assert starts_with_a_proof("plugin_utils/_conductor/other.py", ast.parse(text)), text


@pytest.mark.parametrize("rule", RULES)
def test_each_rule_breaks(rule):
    folder = "modules" if rule is only_known_files_start_domains else "action"
    assert rule(f"{folder}/other.py", ast.parse(RULES[rule]))


def tasks_of(data):
    """Yield every task of a file of a role, also the tasks in blocks."""
    for task in data or []:
        yield task
        for key in ("block", "rescue", "always"):
            yield from tasks_of(task.get(key))


def role_tasks(*roles):
    return {
        f"{role}/{path.name}": list(tasks_of(yaml.safe_load(path.read_text(encoding="utf-8"))))
        for role in roles
        for path in sorted((ROOT / "roles" / role / "tasks").glob("*.yml"))
    }


def test_whether_a_host_is_empty_is_never_decided_by_where_instances_are_recorded():
    """Roles that switch hosts off, or report one as empty, read the host's newest report."""
    deciding = {
        name: [task["name"] for task in tasks if "drover.compute.instance_info" in task]
        for name, tasks in role_tasks("drain", "power", "evacuate").items()
    }
    assert {name: found for name, found in deciding.items() if found} == {}


def test_a_role_builds_elsewhere_only_by_what_the_hypervisor_says():
    """No task of role place releases a claim, or takes an alternate: the module does, with a
    proof.
    """
    for name, tasks in role_tasks("place").items():
        for task in tasks:
            assert "state" not in (task.get("drover.compute.allocation") or {}), (
                f"{name}: {task['name']}"
            )
