# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The scheduler's policy as a task is given it."""

from __future__ import annotations

import os

from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import policy_file
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler.policy import Policy, merged


def of_task(args, task_vars):
    """The policy of the options policy and policy_file.

    :raises PolicyError: it is malformed.
    """
    given, file = args["policy"], args["policy_file"]
    folders = [str(task_vars["playbook_dir"])] if task_vars.get("playbook_dir") else []
    if file:
        folders.append(os.path.dirname(os.path.abspath(file)))
        given = merged(policy_file.read_policy(file), given) if given else policy_file.read_policy(file)
    return Policy.from_mapping(given, folders)
