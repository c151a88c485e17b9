# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""All users run the tests with the same environment, and the last line names each part that was
left out."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from ansible_collections.drover.compute.tests import parts, surroundings

LOOK = """
import json, locale, os, time
from ansible_collections.drover.compute.tests import surroundings
os.umask(0)
surroundings.make()
home = os.environ.pop("HOME")
print(json.dumps([dict(os.environ), os.listdir(home), os.umask(0), locale.getlocale(), time.timezone, home]))
"""
ODD = {
    "HOME": "/nowhere",
    "TZ": "Asia/Kathmandu",
    "LC_ALL": "C",
    "ANSIBLE_BECOME": "true",
    "DROVER_STORE_URL": "sqlite:////nowhere/store.db",
    "XDG_CONFIG_HOME": "/nowhere",
    "PGHOST": "nowhere.invalid",
    "http_proxy": "http://nowhere.invalid",
}


def test_nothing_that_a_caller_has_set_reaches_a_test():
    kept = {"PATH": os.environ["PATH"]}
    base = os.environ["ANSIBLE_COLLECTIONS_PATH"]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {base!r})\n{LOOK}"],
        env={**ODD, **kept},
        capture_output=True,
    )
    environment, files, umask, locale, zone, home = json.loads(done.stdout)
    # The test's own ssh comes first; it reads no configuration of the machine.
    kept["PATH"] = os.pathsep.join([f"{home}/.bin", kept["PATH"]])
    assert environment == {**surroundings.GIVEN, **kept}
    assert (files, umask, locale[1].upper(), zone) == ([".bin"], surroundings.UMASK, "UTF-8", 0)
    assert not os.path.exists(home)


def test_a_part_is_left_out_by_name_unless_nothing_may_be(monkeypatch):
    monkeypatch.delenv(parts.SKIP_NOTHING, raising=False)
    with pytest.raises(pytest.skip.Exception, match="left out: Tests of trees: there are none"):
        parts.leave_out("Tests of trees", "there are none")
    monkeypatch.setenv(parts.SKIP_NOTHING, "1")
    with pytest.raises(pytest.fail.Exception, match="Tests of trees: there are none"):
        parts.leave_out("Tests of trees", "there are none")
