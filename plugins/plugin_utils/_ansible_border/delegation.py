# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Run tasks on other hosts from an action plugin, like ``delegate_to`` in a playbook.

Ansible has no public call for this. Its own TaskExecutor runs the tasks, so that connection,
become, interpreter and variables of a host are the usual ones. Only this file depends on the
differences between versions of ansible-core.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import inspect
import math
import re
import signal
import time
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ansible import context
from ansible.executor.task_executor import TaskExecutor
from ansible.release import __version__
from ansible.utils.display import Display
from ansible.utils.sentinel import Sentinel
from ansible.utils.unsafe_proxy import wrap_var

from .._common.errors import Answers, DroverError, HostTimeout, NotThisHost, TimeOver, Unreachable
from .._conductor.ports import Discovery
from .._evacuation import host_answer
from . import answering, at_once, ssh_ways, terminal
from .action import variables_of
from .options import Variables
from .remote_module import RemoteHand, Result, plain_result

#: Seconds that a living host needs at most to answer.
ANSWER = 30
#: Seconds that a host counts as silent after a look.
SILENCE = 15
#: Ansible's default connection.
DEFAULT_CONNECTION = "ssh"
#: The newest version of ansible-core that the tests of this file have seen.
NEWEST_TESTED = (2, 21)
#: The number of hosts that are read at the same time, if the task has no number of forks.
FORKS = 5
#: Keywords of the calling task that do not apply to the delegated tasks.
RESET: dict[str, object] = {
    "loop": None,
    "loop_with": None,
    "when": [],
    "until": [],
    "register": None,
    "delegate_facts": None,
    "ignore_errors": False,
    "ignore_unreachable": False,
    "run_once": False,
    "changed_when": [],
    "failed_when": [],
    # The time limit of the calling task continues to run.
    "timeout": 0,
}


class Delegation:
    """Run one task after the other on hosts of the inventory.

    :param action: the calling action plugin.
    :param task_vars: its variables.
    """

    def __init__(self, action: Any, task_vars: Variables) -> None:
        self._action, self.variables = action, task_vars
        sentence = _untested(__version__)
        if sentence:
            # Ansible shows equal warnings once.
            Display().warning(sentence)
        # True if the time limit of the calling task has passed.
        self._over = False

    def run(
        self,
        host: str,
        name: str,
        args: Mapping[str, object],
        check_mode: bool | None = None,
        limit: int | None = None,
        environment: Mapping[str, str] | None = None,
        probe: bool = False,
    ) -> Result:
        """Run a module or an action on a host.

        :param name: FQCN.
        :param check_mode: None for the mode of the calling task.
        :param limit: time limit in seconds; None for only the limit of the calling task.
        :param environment: further variables of the environment, added to the calling task.
        :param probe: True for a call that only finds out if the host answers.
        :returns: the result, of plain types, with Ansible's ``failed`` and ``unreachable``, and
            ``timedout`` after the time limit.
        :raises TimeOver: the time limit of the calling task has passed.
        """
        self._refuse_overtime()
        task = self._action._task.copy()
        for key, value in RESET.items():
            if hasattr(task, key):
                setattr(task, key, value)
        task.connection = _connection_of(self._action)
        # Mark the data as unsafe, because data of a host is never a template.
        task.action, task.args, task.delegate_to = name, wrap_var(dict(args)), host
        # Ansible looks for module_defaults by this name; ansible-core 2.19 added a property for it.
        setattr(
            task,
            "_resolved_action" if hasattr(task, "_resolved_action") else "resolved_action",
            name,
        )
        if environment:
            task.environment = [*(task.environment or []), dict(environment)]
        if check_mode is not None:
            task.check_mode = check_mode
        began = time.monotonic()
        with self._limited(task, limit) if limit else self._alarm():
            outcome = plain_result(_execute(self._action, task, dict(self.variables), probe))
        if limit and outcome.get("failed") and time.monotonic() - began >= limit:
            # Before ansible-core 2.19, only the message shows that the time limit has passed.
            outcome["timedout"] = {"period": limit}
        if isinstance(outcome.get("msg"), str):
            outcome["msg"] = outcome["msg"].removeprefix("Task failed: ")
        self._refuse_overtime()
        return outcome

    @contextlib.contextmanager
    def _alarm(self) -> Iterator[None]:
        """Note the alarm of the calling task.

        It rings once, and the executor of the delegated task catches it.
        """
        before = signal.getsignal(signal.SIGALRM)
        if not callable(before):
            yield
            return

        def ring(number: int, frame: types.FrameType | None) -> None:
            self._over = True
            before(number, frame)

        signal.signal(signal.SIGALRM, ring)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, before)

    @contextlib.contextmanager
    def _limited(self, task: Any, limit: int) -> Iterator[None]:
        """Give a task its own time limit.

        A process has one alarm, so the alarm of the calling task is suspended and resumed.
        """
        seconds, handler, began = (
            signal.alarm(0),
            signal.signal(signal.SIGALRM, signal.SIG_DFL),
            time.monotonic(),
        )
        task.timeout = min(limit, seconds) if seconds else limit
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, handler)
            if seconds:
                remaining = seconds - (time.monotonic() - began)
                self._over = remaining <= 0
                signal.alarm(max(1, math.ceil(remaining)))

    def _refuse_overtime(self) -> None:
        if self._over:
            limit = self._action._task.timeout
            raise TimeOver(
                f"The time limit of the task has passed: {limit} s. Operations that have begun on"
                " hypervisors continue there. Run the task again with a longer limit, or without"
                " one: it follows them first.",
                limit,
            )


def _untested(version: str) -> str | None:
    """Return a warning about an ansible-core that is newer than all tested versions, or None."""
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) <= NEWEST_TESTED:
        return None
    newest = ".".join(map(str, NEWEST_TESTED))
    return (
        f"ansible-core {version} is newer than {newest}, the newest that drover.compute was tested"
        f" with. Run drover.compute.drain with --check first, or install ansible-core {newest}:"
        f" python3 -m pip install 'ansible-core=={newest}.*'."
    )


def _connection_of(action: Any) -> Any:
    """Return the connection keyword for delegated tasks, from the playbook of the calling task.

    From ansible-core 2.21 on, TaskExecutor replaces the keyword of the calling task by its actual
    connection. For nearly all callers this is ``local``, and a copy of the task would run on the
    controller. The variable ``ansible_connection`` of a host precedes the keyword.

    :returns: a name, or Ansible's mark of an unset keyword. ``local`` is right only for localhost,
        so it is replaced by the connection of the command line or of ansible.cfg.
    """
    task = action._task
    written = (task.get_ds() or {}).get("connection", Sentinel)
    if written is Sentinel:
        written = task._get_parent_attribute("connection", omit=True)
    name = written if written is Sentinel else action._templar.template(written)
    return context.CLIARGS.get("connection") or DEFAULT_CONNECTION if name == "local" else name


def _with_own_way(executor: Any, probe: bool) -> None:
    """Let an executor prepare its connection after Ansible has set the connection's options."""
    settle = executor._set_connection_options

    def prepared(*args: Any, **kwargs: Any) -> Any:
        found = settle(*args, **kwargs)
        ssh_ways.prepare(executor._connection, probe)
        return found

    executor._set_connection_options = prepared


def _execute(action: Any, task: Any, variables: dict[str, object], probe: bool) -> Result:
    """Run a task in this process."""
    hostvars: Any = variables["hostvars"]
    arguments = {
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
    parameters = inspect.signature(TaskExecutor).parameters
    executor = TaskExecutor(**{key: value for key, value in arguments.items() if key in parameters})
    _with_own_way(executor, probe)
    with (
        contextlib.nullcontext()
        if "task" in parameters
        else _context(task, variables, arguments["host"].name)
    ):
        found = executor.run()
    return found if isinstance(found, dict) else found.as_result_dict()


def _context(task: Any, variables: dict[str, object], host: str) -> Any:
    """Return the context of the task that newer versions of ansible-core need."""
    from ansible._internal._task import TaskContext

    return TaskContext.create(task=task, task_vars=variables, host_name=host)


class AnsibleHosts:
    """The hypervisors of a task: conductor.ports.Hosts.

    :param go_on: a function that is called before each call of a host, and raises if nothing may
        begin.
    :param warn: a function that takes a warning.
    :param args: arguments that delegated tasks need too, such as store_url.
    """

    def __init__(
        self,
        action: Any,
        task_vars: Variables,
        go_on: Callable[[], None],
        warn: Callable[[str], None],
        args: Mapping[str, object],
    ) -> None:
        self._delegation, self._task_vars = Delegation(action, task_vars), task_vars
        self._go_on, self._warn, self._args = go_on, warn, args
        self._machines = action.machines(args, task_vars)
        #: {host: the time of its last silence}, by the clock of the run.
        self._silent_at: dict[str, float] = {}

    def discover(self, host: str, limit: int | None = None) -> Discovery:
        """Read a host by the module compute_node, with the variables of that host.

        Refuse a host that was silent a moment ago, so that the run does not wait for it again.
        """
        if time.monotonic() - self._silent_at.get(host, -SILENCE) < SILENCE:
            raise Unreachable(host, "it was silent a moment ago")
        result = self.hand(host, limit).read("compute_node", self._args)
        for sentence in result.get("warnings") or []:
            self._warn(sentence)
        if result.get("failed"):
            message = result.get("msg") or f"Host {host} was not read. No cause is known."
            raise Answers(message) if result.get("answers") else DroverError(message)
        return {"occupants": result["occupants"], "changed": bool(result.get("changed"))}

    def hand(self, host: str, limit: int | None = None) -> RemoteHand:
        """Return the way to run modules on a host."""
        return RemoteHand(self._delegation, host, self._machines, self._go_on, limit)

    def at_once(
        self, questions: Mapping[str, Callable[[RemoteHand], Result]], limit: int
    ) -> dict[str, Result | DroverError]:
        """Put a question to each of several hosts, as many at a time as the task may have forks."""
        self._go_on()

        def asked(host: str, question: Callable[[RemoteHand], Result]) -> Callable[[], Result]:
            # go_on compares the parent of the process, and the new process has another parent.
            return lambda: question(
                RemoteHand(self._delegation, host, self._machines, lambda: None, limit)
            )

        # Read the store here, because a new process must not touch it.
        self._machines.learn(questions)
        given = {host: asked(host, question) for host, question in questions.items()}
        return at_once.ask_each(
            given, int(str(self._task_vars.get("ansible_forks") or FORKS)), limit, terminal.show
        )

    def answer(self, host: str) -> host_answer.HostAnswer:
        """Return the answer of a host, see answering.answer().

        SSH and TCP are tried at the same time, because each may wait for its timeout.
        """
        variables = self.variables(host)
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            tcp = threads.submit(answering.by_tcp, host, variables)
            answered = self._answer(host, variables, tcp.result)
        if answered.means == host_answer.SILENT:
            self._silent_at[host] = time.monotonic()
        return answered

    def _answer(
        self, host: str, variables: Variables, tcp: Callable[[], Any]
    ) -> host_answer.HostAnswer:
        try:
            hand = RemoteHand(
                self._delegation, host, self._machines, self._go_on, ANSWER, probe=True
            )
            tried = hand.read("_boot_info", {})
        except NotThisHost as problem:
            # The answer of another machine proves nothing about the host.
            return host_answer.HostAnswer(host_answer.UNCLEAR, str(problem.cause_of_it))
        except HostTimeout as problem:
            tried = {"failed": True, "timedout": True, "msg": str(problem)}
        except Unreachable as problem:
            tried = {"unreachable": True, "msg": str(problem.cause_of_it)}
        return answering.answer(host, tried, variables, tcp)

    def names(self) -> list[str]:
        """Return the names of all hypervisors of the inventory, whatever ``--limit`` says."""
        hostvars: Any = self._task_vars.get("hostvars")
        inventory = getattr(hostvars, "_inventory", None)
        if inventory is None:
            return []
        pattern = (
            self.variables(str(self._task_vars["inventory_hostname"])).get("drover_hypervisors")
            or "hypervisors"
        )
        return [
            host.name
            for host in inventory.get_hosts(pattern, ignore_limits=True, ignore_restrictions=True)
        ]

    def variables(self, host: str) -> Mapping[str, Any]:
        """Return the variables of a host in the inventory, templated."""
        return variables_of(self._task_vars, host)
