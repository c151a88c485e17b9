# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The only way for action plugins to run modules on a hypervisor.

Every change of a hypervisor goes through Hand.act(). Its answer is certain only if the hypervisor
confirmed it. A host is a machine and not an address: each module gets the machine of the host in
the store, and refuses to run on another one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ansible.errors import AnsibleConnectionFailure

from .._common import certainty
from .._common.errors import HostTimeout, NotThisHost, Unreachable, as_sentence
from .._common.plain import to_plain
from .._records.outcomes import DomainLook
from . import ssh_ways, terminal, waiting
from .machines import Machines
from .options import Variables

#: The module raw runs no Python on the host, and only shows that something answers.
_RAW = "ansible.builtin.raw"

#: The result of a module on a host. It is JSON, which has no types.
Result = dict[str, Any]


class Hand:
    """The operations of a task on its host.

    :param action: the action plugin, connected to the host.
    :param machines: the machines of hosts in the store.
    :param go_on: a function that is called before each module, and raises if nothing may begin.
    """

    def __init__(
        self,
        action: Any,
        host: str,
        task_vars: Variables | None,
        machines: Machines,
        go_on: Callable[[], None] = lambda: None,
    ) -> None:
        self.action, self.host, self.task_vars, self._machines, self._go_on = (
            action,
            host,
            task_vars,
            machines,
            go_on,
        )

    def reach(self) -> None:
        """Verify that the host answers.

        :raises Unreachable: it does not answer.
        """
        ssh_ways.prepare(self.action._connection)
        try:
            self.action._low_level_execute_command("true")
        except AnsibleConnectionFailure as problem:
            raise Unreachable(
                self.host, _in_inventory(self.host, problem, self.task_vars)
            ) from None

    def read(self, module: str, args: Mapping[str, object]) -> Result:
        """Run a module that changes nothing; also return the result of a failure.

        :raises Unreachable: the host cannot be reached.
        :raises NotThisHost: another machine answers.
        """
        return self._run_module(module, args)

    def task(self, module: str, args: Mapping[str, object]) -> Result:
        """Run a module for a task of a play.

        The play decides by the result; the rest is as in read().
        """
        return self._run_module(module, args)

    def foretell(self, module: str, args: Mapping[str, object]) -> Result:
        """Run a module in check mode, whatever the mode of the task.

        :raises Unreachable: the host cannot be reached.
        """
        before = self.action._task.check_mode
        self.action._task.check_mode = True
        try:
            return self._run_module(module, args)
        finally:
            self.action._task.check_mode = before

    def act(self, module: str, args: Mapping[str, object]) -> certainty.Answer:
        """Run a module that may change the hypervisor. Return an Answer also if it is lost."""
        try:
            result = self._run_module(module, args)
        except NotThisHost as problem:
            # The order did not reach the host, because another machine refused it.
            return (
                certainty.never_reached(str(problem))
                if problem.refused
                else certainty.lost(str(problem))
            )
        except (HostTimeout, Unreachable) as problem:
            return certainty.lost(str(problem))
        return certainty.judge(result)

    def look(
        self, uri: str, orders: Mapping[str, Iterable[str]], patience: int
    ) -> dict[str, DomainLook | None]:
        """Withdraw orders and read the domains of their instances.

        :param orders: {uuid of an instance: orders that must not begin any more}.
        :param patience: seconds to wait for other calls that work on a domain.
        :returns: the domains by uuid; None if the host did not answer.
        """
        wanted = [{"uuid": uuid, "withdraw": list(withdrawn)} for uuid, withdrawn in orders.items()]
        answer = self.act("_domain_order", {"uri": uri, "domains": wanted, "patience": patience})
        found = {each["uuid"]: each for each in answer.result.get("domains") or []}
        return {uuid: found.get(uuid) for uuid in orders}

    def _run_module(
        self, module: str, args: Mapping[str, object], check_mode: bool | None = None
    ) -> Result:
        self._go_on()
        self._see_that_it_is_the_host(module)
        task = self.action._task
        before = task.environment
        task.environment = [*(before or []), self._machines.environment(self.host)]
        ssh_ways.prepare(self.action._connection)
        try:
            with waiting.shown(terminal.show, self.host, module, task.timeout):
                result = self.action._execute_module(
                    module_name=full_name(module),
                    module_args=_without_none(args),
                    task_vars=self.task_vars,
                )
        except AnsibleConnectionFailure as problem:
            raise Unreachable(
                self.host, _in_inventory(self.host, problem, self.task_vars)
            ) from None
        finally:
            task.environment = before
        return self._of_this_host(plain_result(result))

    def _see_that_it_is_the_host(self, module: str) -> None:
        """Compare the machine by a module of this collection, before a module of Ansible runs.

        :raises NotThisHost: it is another machine.
        """
        if module.startswith("ansible.builtin.") and module != _RAW:
            self._run_module("_boot_info", {})

    def _of_this_host(self, result: Result) -> Result:
        """Return a result of the host.

        :raises NotThisHost: the result comes from another machine.
        """
        refusal = self._machines.refusal(self.host, result)
        if refusal is not None:
            # Use Ansible's own error, so that a play treats the host as unreachable.
            raise NotThisHost(
                self.host, AnsibleConnectionFailure(refusal), bool(result.get("not_this_host"))
            )
        return result


def plain_result(result: Mapping[str, Any]) -> Result:
    """Convert a result to plain types; omit objects of ansible-core 2.19, or make text of them."""
    plain = {
        key: value for key, value in result.items() if key not in ("exception", "deprecations")
    }
    if plain.get("warnings"):
        plain["warnings"] = [
            each if isinstance(each, str) else each.event.msg for each in plain["warnings"]
        ]
    return to_plain(plain)


class RemoteHand(Hand):
    """The operations of a task on another host than its own.

    :param delegation: a delegation.Delegation.
    :param limit: time limit of each call in seconds, or None. After it Late is raised.
    :param probe: True for a call that only finds out if the host answers.
    """

    def __init__(
        self,
        delegation: Any,
        host: str,
        machines: Machines,
        go_on: Callable[[], None],
        limit: int | None = None,
        probe: bool = False,
    ) -> None:
        super().__init__(None, host, None, machines, go_on)
        self._delegation, self._limit, self._probe = delegation, limit, probe

    def foretell(self, module: str, args: Mapping[str, object]) -> Result:
        return self._run_module(module, args, check_mode=True)

    def reach(self) -> None:
        self._run_module(_RAW, {"_raw_params": "true"})

    def _run_module(
        self, module: str, args: Mapping[str, object], check_mode: bool | None = None
    ) -> Result:
        self._go_on()
        self._see_that_it_is_the_host(module)
        environment = self._machines.environment(self.host)
        with waiting.shown(terminal.show, self.host, module, self._limit):
            result = self._delegation.run(
                self.host,
                full_name(module),
                _without_none(args),
                check_mode,
                self._limit,
                environment,
                self._probe,
            )
        if result.get("unreachable"):
            words = AnsibleConnectionFailure(str(result.get("msg") or "it does not answer"))
            raise Unreachable(
                self.host, str(_in_inventory(self.host, words, self._delegation.variables))
            )
        if self._limit and result.get("timedout"):
            raise HostTimeout(self.host, self._limit)
        return self._of_this_host(result)


def _in_inventory(host: str, problem: Exception, variables: Variables | None) -> Exception:
    """Return the reason why a host cannot be reached, with advice if the inventory does not have
    the host.
    """
    groups: Any = (variables or {}).get("groups") or {}
    names = groups.get("all")
    if not names or host in names or host == "localhost":
        return problem
    return AnsibleConnectionFailure(
        f"{as_sentence(problem)} {host} is not in the inventory. If it has left the fleet:"
        f" ansible-playbook drover.compute.host_remove -e drover_host={host}"
    )


def full_name(module: str) -> str:
    """Return the FQCN of a module; a name without a dot is a module of this collection."""
    return module if "." in module else f"drover.compute.{module}"


def _without_none(args: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in args.items() if value is not None}
