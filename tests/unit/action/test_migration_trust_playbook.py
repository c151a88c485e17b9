# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The playbook migration_trust: the lines that it removes, and its messages about names and
connections."""

from __future__ import annotations

import json
import sys

import pytest

from ansible_collections.drover.compute.plugins.module_utils._migration.trust import mark
from ansible_collections.drover.compute.tests.unit.action.running import ansible

#: Each host has its own home in place of root's home on this machine.
HOME = """import collections, os, pwd
Entry = collections.namedtuple("Entry", "pw_name pw_dir")
if "HOME_OF_HOST" in os.environ:
    pwd.getpwuid = lambda uid: Entry("root", os.environ["HOME_OF_HOST"])
"""
PYTHON = """#!/bin/sh
HOME_OF_HOST={home} PYTHONPATH={folder}:$PYTHONPATH exec {python} "$@"
"""
HOSTS = ("kvm1", "kvm2", "kvm3")


@pytest.fixture(name="trust")
def a_fleet(tmp_path):
    """``trust(*words)`` runs the playbook on three hosts; kvm1 and kvm2 accept the key of kvm3 and
    of kvm9, which has left.
    """
    (tmp_path / "sitecustomize.py").write_text(HOME)
    hosts = {}
    for name in HOSTS:
        (tmp_path / name / ".ssh").mkdir(parents=True)
        (tmp_path / name / "python").write_text(
            PYTHON.format(home=tmp_path / name, folder=tmp_path, python=sys.executable)
        )
        (tmp_path / name / "python").chmod(0o755)
        lines = [
            f"restrict ssh-ed25519 AAAA {mark(other)}\n"
            for other in ("kvm3", "kvm9")
            if name != "kvm3"
        ]
        (tmp_path / name / ".ssh" / "authorized_keys").write_text("".join(["# by hand\n", *lines]))
        hosts[name] = {
            "ansible_connection": "local",
            "ansible_python_interpreter": str(tmp_path / name / "python"),
        }
        hosts[name]["drover_uris"] = ["test:///default"]
    (tmp_path / "hosts.json").write_text(json.dumps({"hypervisors": {"hosts": hosts}}))

    role = {"name": "drover.compute.hypervisor", "tasks_from": "migration_trust"}
    tasks = [{"ansible.builtin.include_role": role}]
    (tmp_path / "role.json").write_text(
        json.dumps([{"hosts": "hypervisors", "gather_facts": False, "tasks": tasks}])
    )

    def run(*words, name="drover.compute.migration_trust"):
        code, text = ansible(tmp_path, "playbook", name, "-i", "hosts.json", *words)
        accepted = {
            name: (tmp_path / name / ".ssh" / "authorized_keys").read_text().count(mark(""))
            for name in HOSTS
        }
        return code, " ".join(text.split()), accepted

    return run


def absent(*hosts):
    return (
        "-e",
        json.dumps(
            {
                "drover_migration_trust_state": "absent",
                **({"drover_host": hosts[0]} if hosts else {}),
            }
        ),
    )


@pytest.mark.parametrize("given", ["kvm3,kvm9", ["kvm3", "kvm9"]])
def test_several_hosts_are_removed(trust, given):
    code, text, accepted = trust(*absent(given), "--check")
    assert (
        code == 0
        and "4 lines of kvm3, kvm9 would be removed." in text
        and accepted == {"kvm1": 2, "kvm2": 2, "kvm3": 0}
    ), text
    code, text, accepted = trust(*absent(given))
    assert (
        code == 0
        and "4 lines of kvm3, kvm9 were removed." in text
        and accepted == {"kvm1": 0, "kvm2": 0, "kvm3": 0}
    ), text


def test_a_host_of_the_inventory_may_have_no_line(trust):
    code, text, accepted = trust(*absent("kvm2"))
    assert code == 0 and "No line of kvm2 was found, so nothing was removed." in text, text
    assert accepted == {"kvm1": 2, "kvm2": 2, "kvm3": 0}


def test_an_unknown_name_is_no_success(trust):
    code, text, accepted = trust(*absent("kvm3,nope"))
    assert code == 2 and accepted == {"kvm1": 1, "kvm2": 1, "kvm3": 0}
    assert "2 lines of kvm3 were removed." in text, text
    assert (
        "nope is not in the inventory, and none of the 3 hosts that answered has a line of that"
        " name. Is it spelled right?" in text
    ), text


def test_no_name_is_not_all_hosts(trust):
    code, text, accepted = trust(*absent(","), name="role.json")
    assert (
        code == 2
        and "Which host? drover_host has no name." in text
        and accepted == {"kvm1": 2, "kvm2": 2, "kvm3": 0}
    ), text
    for given in ([], ",", " "):
        code, text, accepted = trust(*absent(given))
        assert (
            code == 2 and "Which host?" in text and accepted == {"kvm1": 2, "kvm2": 2, "kvm3": 0}
        ), text
    code, text, accepted = trust(*absent())
    assert (
        code == 0
        and "4 lines of kvm3, kvm9 were removed." in text
        and accepted == {"kvm1": 0, "kvm2": 0, "kvm3": 0}
    ), text
    assert "No line was found, so nothing was removed." in trust(*absent(""))[1]


def test_where_nothing_is_connected_no_success_is_claimed(trust):
    code, text, _dummy = trust("--check")
    assert code == 0 and "No connection was tried. " in text and "reaches" not in text, text
    assert "No connection to kvm1, kvm2, kvm3: the first URI in drover_uris is no QEMU" in text
    assert "kvm1 still accepts the key of kvm9, not in the inventory." in text
