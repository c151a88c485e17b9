# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run of a task, for the records: user, controller, command, reason, and the job of AWX."""

from __future__ import annotations

import getpass
import os
import shlex
import socket
from typing import Any

from ansible import context

from .._common.plain import to_plain
from .._records.runs import Run
from .known_variables import YES_OR_NO
from .options import Variables

#: The variables of the command line that are recorded with their values. For other variables the
#: store has only the name, because any value may be a secret.
SHOWN = frozenset(
    {
        *(
            f"drover_{name}"
            for name in [
                "absent_hosts",
                "destination",
                "destination_pool",
                "disk",
                "disk_gb",
                "disk_state",
                "evacuate_force",
                "flavor",
                "host",
            ]
        ),
        *(
            f"drover_{name}"
            for name in [
                "host_is_off",
                "instance",
                "instance_action",
                "instance_state",
                "instances",
                "max_age",
                "memory_mb",
                "place_force",
            ]
        ),
        *(
            f"drover_{name}"
            for name in [
                "pool",
                "power_action",
                "power_confirmations",
                "power_force",
                "project",
                "reason",
                "resize",
                "selector",
            ]
        ),
        *(
            f"drover_{name}"
            for name in [
                "rolling_batch_size",
                "rolling_reboot",
                "snapshot_name",
                "snapshot_state",
                "unmovable",
                "vcpus",
            ]
        ),
        *YES_OR_NO,
    }
)
#: The prefixes of the variables that AWX gives each job; both have the same values.
PREFIXES = ("awx_", "tower_")
#: Key of a job -> the name of its variable, without the prefix.
JOB = {
    "id": "job_id",
    "template": "job_template_name",
    "launched": "job_launch_type",
    "user": "user_name",
    "schedule": "schedule_name",
    "workflow_id": "workflow_job_id",
    "workflow": "workflow_job_name",
    "workflow_launched": "workflow_job_launch_type",
    "workflow_schedule": "parent_job_schedule_name",
}
LONGEST = 200


def user() -> str:
    """Return the user of this process, and the user before sudo."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    before = os.environ.get("SUDO_USER")
    return f"{before} as {name}" if before and before != name else name


def of_task(extra_vars: Variables, reason: str) -> Run:
    """Return the run of this task.

    :param extra_vars: the variables of the command line, not evaluated.
    """
    return Run(user(), socket.gethostname(), command(extra_vars), reason, job_of(extra_vars))


def job_of(extra_vars: Variables) -> dict[str, str]:
    """Return the job of AWX, by the keys of JOB; empty outside of AWX."""
    job = {}
    for key, name in JOB.items():
        value = next(
            (
                extra_vars[prefix + name]
                for prefix in PREFIXES
                if extra_vars.get(prefix + name) not in (None, "")
            ),
            None,
        )
        if value is not None:
            job[key] = str(value)[:LONGEST]
    return job if "id" in job else {}


def command(extra_vars: Variables) -> str:
    """Return the command without possible secrets.

    These are arguments of a module, and values of variables that are not in SHOWN.
    """
    cli_args = context.CLIARGS
    if cli_args.get("module_name"):
        words = ["ansible", *_texts(cli_args.get("args")), "-m", str(cli_args["module_name"])]
    else:
        words = ["ansible-playbook", *_texts(cli_args.get("args"))]
    for option, key in (("-l", "subset"), ("--tags", "tags"), ("--skip-tags", "skip_tags")):
        values = [each for each in _texts(cli_args.get(key)) if (key, each) != ("tags", "all")]
        words += [option, ",".join(values)] if values else []
    # A survey gives all of its questions as variables, most of them without an answer.
    answered = [
        name
        for name in sorted(extra_vars)
        if not name.startswith((*PREFIXES, "_")) and _is_answered(extra_vars[name])
    ]
    words += [word for name in answered for word in ("-e", _variable(name, extra_vars[name]))]
    return " ".join(
        shlex.quote(word) for word in [*words, *(["--check"] if cli_args.get("check") else [])]
    )


def _texts(value: Any) -> list[str]:
    if value is None:
        return []
    return (
        [str(each) for each in value]
        if isinstance(value, (list, tuple, set, frozenset))
        else [str(value)]
    )


def _is_answered(value: Any) -> bool:
    # A comparison would decrypt a value of Ansible Vault, or fail if its password was not given.
    return not (value is None or (isinstance(value, (str, list)) and not value))


def _variable(name: str, value: Any) -> str:
    """Return NAME=VALUE, or only NAME for a possible secret.

    Every value of Ansible Vault may be a secret, and each value that is not a short text, number or
    list of these.
    """
    of_list = value if isinstance(value, list) else [value]
    if name not in SHOWN or not all(isinstance(each, (str, int, float)) for each in of_list):
        return name
    value = to_plain(value)
    return f"{name}={','.join(map(str, value)) if isinstance(value, list) else value}"[:LONGEST]
