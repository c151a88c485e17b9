# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The one way of action plugins to a hypervisor: modules run there, and what came of them.

What changes a hypervisor goes through Hand.act(), whose answer is certain only where the hypervisor said so.
"""

from __future__ import annotations

from ansible.errors import AnsibleConnectionFailure

from ansible_collections.drover.compute.plugins.plugin_utils import certainty
from ansible_collections.drover.compute.plugins.plugin_utils.errors import Late, Unreachable
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain


class Hand:
    """What a task can do on one host.

    :param action: the action plugin, connected to the host.
    :param go_on: a function that raises where nothing may be begun any more; it is called before each module.
    """

    def __init__(self, action, host, task_vars, go_on=lambda: None):
        self.action, self.host, self.task_vars, self._go_on = action, host, task_vars, go_on

    def reach(self):
        """Find out whether the host answers, before anything is begun there.

        :raises Unreachable: it does not.
        """
        try:
            self.action._low_level_execute_command("true")
        except AnsibleConnectionFailure as problem:
            raise Unreachable(self.host, problem) from None

    def read(self, module, args):
        """Run a module that changes nothing; its result, a failure included, as plain types.

        :raises Unreachable: the host cannot be reached.
        """
        return self._run(module, args)

    def foretell(self, module, args):
        """What a module would do: as in check mode whatever the task's mode is.

        :raises Unreachable: the host cannot be reached.
        """
        before = self.action._task.check_mode
        self.action._task.check_mode = True
        try:
            return self._run(module, args)
        finally:
            self.action._task.check_mode = before

    def act(self, module, args):
        """Run a module that may change the hypervisor; returns a certainty.Answer, whatever fails."""
        try:
            result = self._run(module, args)
        except (Late, Unreachable) as problem:
            return certainty.lost(str(problem))
        return certainty.judge(result)

    def look(self, uri, orders, patience):
        """Withdraw orders and look what is there of their instances.

        :param orders: dict instance uuid -> list of orders that may not begin any more.
        :param patience: seconds to wait for a call that works on one of them.
        :returns: dict uuid -> entry of the module domain_order, or None where the host did not tell.
        """
        wanted = [{"uuid": uuid, "withdraw": list(withdrawn)} for uuid, withdrawn in orders.items()]
        answer = self.act("domain_order", {"uri": uri, "domains": wanted, "patience": patience})
        found = {each["uuid"]: each for each in answer.result.get("domains") or []}
        return {uuid: found.get(uuid) for uuid in orders}

    def _run(self, module, args):
        self._go_on()
        try:
            result = self.action._execute_module(module_name=full_name(module), module_args=_given(args), task_vars=self.task_vars)
        except AnsibleConnectionFailure as problem:
            raise Unreachable(self.host, problem) from None
        return plain_result(result)


def plain_result(result):
    """A task's result of plain types: Ansible's own objects in it, of ansible-core 2.19 and later, are left out or turned into text."""
    found = {key: value for key, value in result.items() if key not in ("exception", "deprecations")}
    if found.get("warnings"):
        found["warnings"] = [each if isinstance(each, str) else each.event.msg for each in found["warnings"]]
    return to_plain(found)


class RemoteHand(Hand):
    """What a task can do on a host that it is not connected to.

    :param delegation: delegation.Delegation.
    :param limit: seconds that each call may take, or None. One that takes longer is Late.
    """

    def __init__(self, delegation, host, go_on, limit=None):
        super().__init__(None, host, None, go_on)
        self._delegation, self._limit = delegation, limit

    def foretell(self, module, args):
        return self._run(module, args, check_mode=True)

    def reach(self):
        self._run("ansible.builtin.raw", {"_raw_params": "true"})

    def _run(self, module, args, check_mode=None):
        self._go_on()
        result = self._delegation.run(self.host, full_name(module), _given(args), check_mode, self._limit)
        if result.get("unreachable"):
            raise Unreachable(self.host, result.get("msg") or "it does not answer")
        if self._limit and result.get("timedout"):
            raise Late(self.host, self._limit)
        return result


def full_name(module):
    """The FQCN of a module; without a dot it is one of this collection."""
    return module if "." in module else f"drover.compute.{module}"


def _given(args):
    return {key: value for key, value in args.items() if value is not None}
