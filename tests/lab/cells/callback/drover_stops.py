# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A callback of the tests: it stops a play before and after each task until the harness lets it
continue (see ../stops.py).

It also stops before and after each module that an action runs on another host to change something
there. DROVER_STOPS_TASK gets a time limit of DROVER_STOPS_SECONDS.
"""

from __future__ import annotations

import os
import socket

from ansible.plugins.callback import CallbackBase

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.delegation import (
    Delegation,
)

DOCUMENTATION = """
name: drover_stops
type: notification
short_description: Stops before and after each task
description: For the tests in tests/lab alone.
"""


class CallbackModule(CallbackBase):
    """A callback that reports each start and each end of a task over the socket of DROVER_STOPS,
    and waits for an answer."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "drover_stops"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **options):
        super().__init__(*args, **options)
        run = Delegation.run

        def watched(delegation, host, name, args, check_mode=None, *rest):
            # A look before a start or a removal is not a step of the test; separate processes read
            # the hosts.
            if (
                check_mode
                or args.get("check")
                or name.endswith(("._domain_sightings", "._file_users"))
            ):
                return run(delegation, host, name, args, check_mode, *rest)
            what = f"{name.rpartition('.')[2]} {args.get('state') or ''} at {host}".replace(
                "  ", " "
            )
            self._stop("before", what)
            try:
                return run(delegation, host, name, args, check_mode, *rest)
            finally:
                self._stop("after", what)

        # Ansible forks the workers of actions from this process.
        Delegation.run = watched

    def _stop(self, when, name):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as harness:
            try:
                harness.connect(os.environ["DROVER_STOPS"])
            except OSError:
                # The harness has reached its stop, and waits no longer.
                return
            harness.sendall(f"{when}\t{name}\n".encode())
            harness.recv(1)

    # Ansible calls this in its main process, before the worker begins.
    def v2_runner_on_start(self, host, task):
        if task.name == os.environ.get("DROVER_STOPS_TASK"):
            task.timeout = int(os.environ["DROVER_STOPS_SECONDS"])
        self._stop("before", task.name)

    def v2_runner_on_ok(self, result):
        self._stop("after", result.task.name)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self._stop("after", result.task.name)

    v2_runner_on_unreachable = v2_runner_on_ok
