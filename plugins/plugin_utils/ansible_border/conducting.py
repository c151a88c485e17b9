# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What action plugins around the conductor have in common: its ports, as Ansible fills them."""

from __future__ import annotations

import os
import time

from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.action import DroverAction
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.delegation import AnsibleHosts
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border.lease_holder import Actor
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.leasing import Leasing
from ansible_collections.drover.compute.plugins.plugin_utils.conductor.ports import Ports
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError


class ConductorAction(DroverAction):
    """An action that conducts several hosts."""

    def ports(self, args, task_vars):
        """The conductor's ports; nothing is begun once the playbook is gone.

        :raises DroverError: it is gone already.
        """
        store, actor, go_on = self.store(args, task_vars), Actor.of_this_task(), refuse_orphan()
        given = {"store_url": args["store_url"]} if args.get("store_url") else {}
        hosts = AnsibleHosts(self, task_vars, go_on, self.warn, given)
        return Ports(store, hosts, Leasing(store, actor, self.show), self.show, time)

    def warn(self, sentence):
        """A sentence that is a warning of this task."""
        self.warnings.append(sentence)

    def act(self, args, task_vars):
        self.warnings = []
        result = self.conduct(args, task_vars)
        return {**result, "warnings": self.warnings} if self.warnings else result

    def conduct(self, args, task_vars):
        raise NotImplementedError


def refuse_orphan():
    """A function that raises once the playbook of this task is gone.

    Killing ansible-playbook leaves its workers alive. They must not go on while the next run settles what is open.
    """
    playbook = os.getppid()

    def go_on():
        if os.getppid() != playbook:
            raise DroverError("The playbook of this task is gone. Run it again.")

    return go_on
