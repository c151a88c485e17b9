# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Workers that outlive the module, and the first answer that each sends back."""

from __future__ import annotations

import os
import subprocess
import sys

from ansible_collections.drover.compute.plugins.module_utils._files import detach

MANY = """
import os, resource
from ansible_collections.drover.compute.plugins.module_utils._files import detach
resource.setrlimit(resource.RLIMIT_NOFILE, (1024, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = [os.dup(0) for number in range(1000)]
ears = {number: detach.spawn(lambda say, number=number: say(f"word {number}")) for number in range(40)}
words = detach.hear(ears, 60)
assert words == {number: f"word {number}" for number in range(40)}, words
"""


def test_each_is_heard_and_one_that_dies_says_nothing():
    def dies(say):
        raise RuntimeError

    ears = {"one": detach.spawn(lambda say: say("started")), "two": detach.spawn(dies)}
    assert detach.hear(ears, 30) == {"one": "started", "two": None}


def test_suspected_10_more_workers_than_select_knows_descriptors():
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", MANY], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
