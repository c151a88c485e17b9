# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run tasks on other hosts from inside an action plugin, as ``delegate_to`` in a playbook would.

Ansible has no public call for this. Its own TaskExecutor does the work, so that connection, become, interpreter and
variables of a host are what they are everywhere else; this file alone knows how the versions of ansible-core differ.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import signal
import time

from ansible.executor.task_executor import TaskExecutor
from ansible.utils.unsafe_proxy import wrap_var

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border import answering
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.remote_module import RemoteHand, plain_result
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, Late, Unreachable

#: Seconds in which a host that lives answers.
ANSWER = 30
#: What of the calling task does not hold for the tasks that it runs.
RESET = {
    "loop": None, "loop_with": None, "when": [], "until": [], "register": None, "delegate_facts": None,
    "ignore_errors": False, "ignore_unreachable": False, "run_once": False, "changed_when": [], "failed_when": [],
    # The time limit of the calling task goes on.
    "timeout": 0,
}  # fmt: skip


class Delegation:
    """Runs one task after the other on hosts of the inventory.

    :param action: the action plugin that runs.
    :param task_vars: its variables.
    """

    def __init__(self, action, task_vars):
        self._action, self._variables = action, task_vars
        # Whether the time limit of the calling task is over.
        self._over = False

    def run(self, host, name, args, check_mode=None, limit=None):
        """Run a module or an action on a host.

        :param host: its name in the inventory.
        :param name: FQCN.
        :param check_mode: None for that of the calling task.
        :param limit: seconds that it may take; None for no limit but that of the calling task.
        :returns: the result, of plain types; ``failed`` or ``unreachable`` where it is that, and ``timedout`` where it took too long.
        :raises DroverError: the time limit of the calling task is over.
        """
        self._refuse_overtime()
        task = self._action._task.copy()
        for key, value in RESET.items():
            if hasattr(task, key):
                setattr(task, key, value)
        # What a host has said is data, whatever it looks like.
        task.action, task.args, task.delegate_to = name, wrap_var(dict(args)), host
        if check_mode is not None:
            task.check_mode = check_mode
        began = time.monotonic()
        with self._limited(task, limit) if limit else self._alarm():
            found = plain_result(_execute(self._action, task, dict(self._variables)))
        if limit and found.get("failed") and time.monotonic() - began >= limit:
            # Before ansible-core 2.19 nothing but the words of the message says so.
            found["timedout"] = {"period": limit}
        if isinstance(found.get("msg"), str):
            found["msg"] = found["msg"].removeprefix("Task failed: ")
        self._refuse_overtime()
        return found

    @contextlib.contextmanager
    def _alarm(self):
        """Hear the alarm of the calling task: the executor of the task that runs meanwhile catches it, and it rings once."""
        before = signal.getsignal(signal.SIGALRM)
        if not callable(before):
            yield
            return

        def ring(number, frame):
            self._over = True
            before(number, frame)

        signal.signal(signal.SIGALRM, ring)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, before)

    @contextlib.contextmanager
    def _limited(self, task, limit):
        """Give a task a time limit of its own. A process has one alarm: that of the calling task waits, and goes on afterwards."""
        left, handler, began = signal.alarm(0), signal.signal(signal.SIGALRM, signal.SIG_DFL), time.monotonic()
        task.timeout = min(limit, left) if left else limit
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, handler)
            if left:
                left -= time.monotonic() - began
                self._over = left <= 0
                signal.alarm(max(1, math.ceil(left)))

    def _refuse_overtime(self):
        if self._over:
            limit = self._action._task.timeout
            raise DroverError(
                f"The time limit of the task is over: {limit} s. What has begun on hypervisors goes on by itself. Run it again with a longer "
                "limit, or without one: it looks after that first.",
                timedout={"period": limit},
            )


def _execute(action, task, variables):
    """Run a task in this process; its result as a dict."""
    hostvars = variables["hostvars"]
    given = {
        "host": hostvars._inventory.get_host(variables["inventory_hostname"]),
        "task": task,
        "job_vars": variables,
        "play_context": action._play_context.copy(),
        "new_stdin": None,
        "loader": action._loader,
        "shared_loader_obj": action._shared_loader_obj,
        "final_q": None,
        "variable_manager": hostvars._variable_manager,
    }
    wanted = inspect.signature(TaskExecutor).parameters
    executor = TaskExecutor(**{key: value for key, value in given.items() if key in wanted})
    with contextlib.nullcontext() if "task" in wanted else _context(task, variables, given["host"].name):
        found = executor.run()
    return found if isinstance(found, dict) else found.as_result_dict()


def _context(task, variables, host):
    """Newer versions of ansible-core find the task in a context."""
    from ansible._internal._task import TaskContext

    return TaskContext.create(task=task, task_vars=variables, host_name=host)


class AnsibleHosts:
    """The hypervisors as a task reaches them: conductor.ports.Hosts.

    :param go_on: a function that raises where nothing may be begun any more; it is called before each call of a host.
    :param warn: a function (sentence).
    :param args: arguments of the task that others need too, such as store_url.
    """

    def __init__(self, action, task_vars, go_on, warn, args):
        self._delegation, self._task_vars = Delegation(action, task_vars), task_vars
        self._go_on, self._warn, self._args = go_on, warn, args

    def discover(self, host, limit=None):
        """Read a host as the module compute_node does, with the variables of that host."""
        result = self.hand(host, limit).read("compute_node", self._args)
        for sentence in result.get("warnings") or []:
            self._warn(sentence)
        if result.get("failed"):
            answers = {"answers": True} if result.get("answers") else {}
            raise DroverError(result.get("msg") or f"Host {host} was not read, and nobody said why.", **answers)
        return result

    def hand(self, host, limit=None):
        """The way to run modules on a host."""
        return RemoteHand(self._delegation, host, self._go_on, limit)

    def answer(self, host):
        """How a host answers, see answering.answer()."""
        try:
            tried = self.hand(host, ANSWER).read("ansible.builtin.slurp", {"src": "/proc/sys/kernel/random/boot_id"})
        except Late as problem:
            tried = {"failed": True, "timedout": True, "msg": str(problem)}
        except Unreachable as problem:
            tried = {"unreachable": True, "msg": str(problem.cause_of_it)}
        return answering.answer(host, tried, self.variables(host))

    def variables(self, host):
        """The variables of a host in the inventory, with what they refer to."""
        return (self._task_vars.get("hostvars") or {}).get(host, {})
