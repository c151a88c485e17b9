# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A task that an action sends to another host reaches that host as ``delegate_to`` does, with each
version of ansible-core.

Ansible's own ssh plugin starts a program that records its arguments and runs the command here. So
the test sees the connection of a task, with its user, port and interpreter.
"""

from __future__ import annotations

import json
import re
import sys

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import ansible

#: An action that sends one task to a host, by the function that all actions use.
PROBE = """
from ansible.plugins.action import ActionBase
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.delegation import Delegation


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        given = self._task.args
        way = Delegation(self, task_vars)
        found = [
            way.run(host, given["module"], given.get("with") or {}, given.get("check"), given.get("limit")) for host in given["hosts"].split(",")
        ]
        return {"changed": False, "found": found}
"""
SSH = """#!{python}
import json, subprocess, sys
with open({log!r}, "a") as log:
    log.write(json.dumps(sys.argv[1:]) + "\\n")
if "dead" in sys.argv:
    sys.stderr.write("ssh: connect to host dead port 22: No route to host\\n")
    sys.exit(255)
sys.exit(subprocess.run(["/bin/sh", "-c", sys.argv[-1]]).returncode)
"""
#: A stand-in for sudo: it records the user, and sets a variable that the command sees.
SUDO = """#!/bin/sh
echo "sudo $*" >> {log}
while [ "$1" != /bin/sh ]; do shift; done
exec env BECAME=yes "$@"
"""
COMMAND = {"module": "ansible.builtin.command", "with": {"argv": ["printenv", "BECAME", "SEEN"]}}
FACT = {"module": "ansible.builtin.setup", "with": {"gather_subset": ["!all", "!min", "env"]}}


class Sent:
    """Playbooks with the probe, and the records of the fake programs."""

    def __init__(self, folder):
        self.folder, self.log, self.sudo_log = folder, folder / "ssh.log", folder / "sudo.log"
        (folder / "action_plugins").mkdir()
        (folder / "action_plugins" / "send.py").write_text(PROBE)
        self.program("ssh", SSH.format(python=sys.executable, log=str(self.log)))
        self.program("sudo", SUDO.format(log=self.sudo_log))
        self.variables = {
            "ansible_python_interpreter": sys.executable,
            "ansible_ssh_executable": str(folder / "ssh"),
            "ansible_pipelining": True,
        }

    def program(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def __call__(
        self,
        args,
        hosts=("far",),
        options=(),
        variables=None,
        settings="",
        play=None,
        block=None,
        **keywords,
    ):
        """Send one task; return (exit code, the results of the hosts, the whole output).

        :param variables: {host: its variables in the inventory}, without variables of all hosts.
        :param play: more keywords of the play; block: of the block around the task; keywords: of
            the task.
        """
        members = {
            host: (variables or {}).get(host, {})
            for host in {*hosts, "localhost"}
            if host != "localhost"
        }
        inventory = {"all": {"children": {"far_ones": {"hosts": members, "vars": self.variables}}}}
        (self.folder / "inventory.json").write_text(json.dumps(inventory))
        task = {"send": {"hosts": ",".join(hosts), **args}, "register": "sent", **keywords}
        copy_task = {
            "ansible.builtin.copy": {
                "content": "{{ sent | to_json }}",
                "dest": str(self.folder / "found.json"),
            },
            "connection": "local",
        }
        tasks = [
            {"block": [task], **(block or {})},
            {**copy_task, "become": False, "check_mode": False},
        ]
        (self.folder / "play.json").write_text(
            json.dumps(
                [{"hosts": "localhost", "gather_facts": False, "tasks": tasks, **(play or {})}]
            )
        )
        (self.folder / "ansible.cfg").write_text(
            f"[defaults]\nlocalhost_warning = false\n{settings}"
        )
        (self.folder / "found.json").unlink(missing_ok=True)
        code, output = ansible(
            self.folder, "playbook", "-i", "inventory.json", *options, "play.json"
        )
        try:
            document = json.loads((self.folder / "found.json").read_text())
        except FileNotFoundError:
            return code, None, output
        return (
            code,
            document.get("found")
            or [each for item in document.get("results", []) for each in item["found"]],
            output,
        )

    def calls(self):
        """Return the arguments of each call of ssh."""
        return (
            [json.loads(line) for line in self.log.read_text().splitlines()]
            if self.log.exists()
            else []
        )


@pytest.fixture
def send(tmp_path):
    return Sent(tmp_path)


def option(call, name):
    """Return the value of an option of ssh, such as User."""
    return next(
        (word.partition("=")[2].strip('"') for word in call if word.startswith(f"{name}=")), None
    )


@pytest.mark.parametrize(
    "around",
    [
        {},
        {"play": {"connection": "local"}},
        {"block": {"connection": "local"}},
        {"connection": "local"},
        {"play": {"vars": {"mine": "local"}}, "block": {"connection": "{{ mine }}"}},
        {"play": {"vars": {"mine": "local"}}, "connection": "{{ mine }}"},
    ],
    ids=["none", "play", "block", "task", "template of the block", "template of the task"],
)
def test_no_task_for_a_host_runs_on_the_controller(send, around):
    """The connection of the calling task is about localhost, for any keyword that set it."""
    code, found, said = send(COMMAND, **around)
    assert code == 0 and len(found) == 1, said
    assert [call[-2] for call in send.calls()] == ["far"] * len(send.calls()) and send.calls(), said


def test_a_host_with_a_connection_of_its_own_has_that(send):
    """A controller that is a hypervisor itself has ansible_connection: local in the inventory."""
    code, answers, output = send(
        COMMAND, ["near", "far"], variables={"near": {"ansible_connection": "local"}}
    )
    assert code == 0 and len(answers) == 2, output
    assert {call[-2] for call in send.calls()} == {"far"}, output


def test_a_connection_keyword_other_than_local_goes_on(send, tmp_path):
    folder = tmp_path / "connection_plugins"
    folder.mkdir()
    (folder / "noted.py").write_text(
        "DOCUMENTATION = '''\\nname: noted\\nshort_description: notes\\ndescription:"
        " notes\\noptions: {}\\n'''\\n".replace("\\n", "\n")
        + "from ansible.plugins.connection.local import Connection as Local\n"
        + "class Connection(Local):\n    transport = 'noted'\n"
        + f"    def exec_command(self, *args, **kwargs):\n        open({str(tmp_path / 'noted')!r},"
        " 'a').write('x')\n" + "        return super().exec_command(*args, **kwargs)\n"
    )
    for keywords in ({"connection": "noted"}, {"play": {"connection": "noted"}}):
        (tmp_path / "noted").unlink(missing_ok=True)
        code, answers, output = send(
            COMMAND,
            **keywords,
            options=["-e", json.dumps({"ansible_python_interpreter": sys.executable})],
        )
        assert code == 0 and answers and (tmp_path / "noted").exists() and not send.calls(), output


def test_a_version_that_is_newer_than_all_that_were_tested_says_so_once(send):
    newer = (
        "from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import"
        " delegation\ndelegation.__version__ = '2.99.1rc1'\n"
    )
    plugin = send.folder / "action_plugins" / "send.py"
    plugin.write_text(plugin.read_text() + newer)
    code, answers, output = send(COMMAND, ["far", "plain"], loop=[1, 2])
    assert code == 0 and len(answers) == 4, output
    text = " ".join(output.split())
    assert len(re.findall("ansible-core 2.99.1rc1 is newer than", text)) == 1, output


def test_a_tested_version_says_nothing(send):
    assert "is newer than" not in send(COMMAND)[2]


def test_user_port_and_address_are_those_of_the_host(send):
    variables = {
        "far": {"ansible_host": "192.0.2.7", "ansible_port": 2222, "ansible_user": "keeper"}
    }
    code, found, said = send(COMMAND, variables=variables)
    assert code == 0 and found, said
    for call in send.calls():
        assert (call[-2], option(call, "User"), option(call, "Port")) == (
            "192.0.2.7",
            "keeper",
            "2222",
        ), call


def test_the_task_s_own_keywords_go_on(send):
    """Become, its user, the remote user and the environment of the calling task apply to the
    delegated task, as with delegate_to."""
    code, answers, output = send(
        COMMAND,
        become=True,
        become_user="maker",
        remote_user="keeper",
        environment={"SEEN": "here"},
    )
    sudo = send.sudo_log
    assert code in (0, 2) and answers, output
    assert (
        all(option(call, "User") == "keeper" for call in send.calls())
        and "sudo" in send.calls()[0][-1]
    ), output
    assert "maker" in send.calls()[0][-1] and "SEEN=here" in send.calls()[0][-1], output
    assert not sudo.exists() or "maker" in sudo.read_text()


def test_become_of_a_host_is_its_own(send):
    exe = {
        "far": {
            "ansible_become": True,
            "ansible_become_exe": str(send.folder / "sudo"),
            "ansible_become_user": "owner",
        }
    }
    code, answers, output = send(
        {"module": "ansible.builtin.command", "with": {"argv": ["printenv", "BECAME"]}},
        ["far", "plain"],
        variables=exe,
    )
    assert [each.get("stdout") for each in answers] == ["yes", ""], output
    assert "owner" in send.sudo_log.read_text()


def test_the_interpreter_is_that_of_the_host(send):
    send.program("own_python", f'#!/bin/sh\nSEEN=own exec {sys.executable} "$@"\n')
    variables = {"far": {"ansible_python_interpreter": str(send.folder / "own_python")}}
    code, answers, output = send(
        {"module": "ansible.builtin.command", "with": {"argv": ["printenv", "SEEN"]}},
        ["far", "plain"],
        variables=variables,
    )
    assert [each.get("stdout") for each in answers] == ["own", ""], output


def test_check_mode_is_that_of_the_task_unless_it_is_given(send):
    command = {
        "module": "ansible.builtin.file",
        "with": {"path": str(send.folder / "made"), "state": "touch"},
    }
    code, answers, output = send(command, options=["--check"])
    assert code == 0 and answers[0]["changed"] and not (send.folder / "made").exists(), output
    code, answers, output = send({**command, "check": True})
    assert code == 0 and answers[0]["changed"] and not (send.folder / "made").exists(), output
    code, answers, output = send({**command, "check": False}, options=["--check"])
    assert code == 0 and (send.folder / "made").exists(), output


def test_an_unreachable_host_is_a_result_and_the_next_is_reached(send):
    code, answers, output = send(COMMAND, ["dead", "far"])
    # ssh may end before Ansible has sent the module, and then Ansible has its own message.
    assert code == 0 and answers[0].get("unreachable") and answers[0]["msg"], output
    assert not answers[1].get("unreachable") and "rc" in answers[1], output


@pytest.mark.parametrize("keyword", [0, 60])
def test_a_time_limit_ends_the_call_alone(send, keyword):
    sleep = {"module": "ansible.builtin.command", "with": {"argv": ["sleep", "30"]}, "limit": 2}
    code, found, said = send(sleep, ["far", "plain"], timeout=keyword)
    assert code == 0 and [bool(each.get("timedout")) for each in found] == [True, True], said


def test_a_loop_of_the_calling_task_sends_one_task_for_each_item(send):
    args = {"module": "ansible.builtin.command", "with": {"argv": ["echo", "{{ item }}"]}}
    code, found, said = send(args, loop=["one", "two"])
    assert code == 0 and [each["stdout"] for each in found] == ["one", "two"], said
    assert {call[-2] for call in send.calls()} == {"far"}, said


def test_keywords_about_the_result_of_the_calling_task_do_not_reach_the_delegated_one(send):
    keywords = {
        "until": "sent is not failed",
        "retries": 2,
        "delay": 0,
        "changed_when": False,
        "failed_when": "sent.rc | default(1) == 0",
        "when": True,
    }
    code, answers, output = send(
        {"module": "ansible.builtin.command", "with": {"argv": ["true"]}}, **keywords
    )
    assert code == 0 and answers[0]["rc"] == 0 and answers[0]["changed"] and len(answers) == 1, (
        output
    )


def test_module_defaults_are_those_of_the_module_that_is_sent(send):
    """The defaults of the calling action would be arguments that the module does not know, as in
    the role rolling."""
    defaults = {"send": {"removes": "/nowhere"}, "ansible.builtin.command": {"creates": "/"}}
    given = {"module": "ansible.builtin.command", "with": {"argv": ["true"]}}
    code, answers, output = send(given, module_defaults=defaults)
    assert (
        code == 0
        and "/nowhere" not in answers[0]["stdout"]
        and "since / exists" in answers[0]["stdout"]
    ), (answers, output)
