# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operations that continue without the run are named: in the message of an interrupted run or of a
run that lost its store, and in the list of instances."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.under_way import (
    MOVES,
    UnderWay,
)
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.action.running import failure, run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host, uuid_of

#: A task, the child of ansible-playbook; its own output is not shown now.
TASK = """
import os, sys, time
from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import interruption
if os.fork() == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    with interruption.saying(lambda: "Moves of web1, cd1 go on. Give the same command again."):
        print(os.getpid(), flush=True)
        time.sleep(60)
    sys.exit(0)
_pid, status = os.wait()
print("ended by", os.WTERMSIG(status), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_walk_f17_an_interrupted_run_says_what_goes_on(number):
    """Ansible ends the process of the task, and shows no further output of it; so the process
    writes to the output of ansible-playbook."""
    code = (
        TASK
        if number == signal.SIGTERM
        else TASK.replace(
            "import os, sys, time",
            "import os, signal, sys, time; signal.signal(signal.SIGINT, signal.SIG_DFL)",
        )
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    ) as parent:
        os.kill(int(parent.stdout.readline()), number)
        output, error = parent.communicate(timeout=60)
    assert (
        error == "Moves of web1, cd1 go on. Give the same command again.\n"
        and output == f"ended by {int(number)}\n"
    )


def test_walk_f17_what_an_error_of_the_run_leaves():
    under_way = UnderWay()
    assert under_way.sentence() == under_way.left() == ""
    with (
        pytest.raises(DroverError),
        under_way.known(MOVES, lambda: ["web1", "cd1"], after_error=True),
    ):
        assert (
            under_way.sentence() == "Moves of web1, cd1 go on. Give the same command again."
            and under_way.left() == ""
        )
        raise DroverError("The store cannot be used: disk I/O error.")
    assert (
        under_way.left() == "Moves of web1, cd1 go on. Give the same command again."
        and under_way.sentence() == ""
    )


@pytest.fixture
def url(prepared_url):
    fleets.discover(
        prepared_url, host("kvm1", domain("web"), domain("db")), host("kvm2"), now=time.time()
    )
    return prepared_url


def test_walk_f32_the_list_of_instances_shows_what_moves(url):
    before = run("instance_info", store_url=url)["table"]
    with Store.open(url).write() as connection:
        opened = migration_claims.begin(
            connection, uuid_of("web"), "kvm2", "kvm2", "live-migration", time.time() - 120
        )
    table = run("instance_info", store_url=url)["table"]
    assert table == [*before, "web: moves live, kvm1 -> kvm2, begun 2 min ago"]
    assert (
        run("instance_info", store_url=url, name="db")["table"]
        == run("instance_info", store_url=url, name="db", host="kvm1")["table"]
    )
    assert opened["new"]


def test_walk_f19_of_two_instances_of_one_name_it_is_said_which_runs(url):
    fleets.discover(
        url,
        host(
            "kvm1", domain("twin", state="shutoff"), {**domain("twin"), "uuid": uuid_of("another")}
        ),
        now=time.time(),
    )
    fleets.discover(
        url, host("kvm1", {**domain("twin"), "uuid": uuid_of("another")}), now=time.time()
    )
    message = failure("instance_info", store_url=url, instances=["twin"])
    assert (
        f"{uuid_of('twin')} on kvm1 (missing)" in message
        and f"{uuid_of('another')} on kvm1 (running)" in message
    )
