# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The environment of the tests, which is the same on every machine: variables, home, locale, time
zone, umask.

No setting of a user or a machine reaches a test: no variable of the environment except these, no
~/.ansible.cfg, no ~/.gitconfig, no /etc/ssh/ssh_config. A test of one of them sets it itself.
tests/setup/odd_machine.sh runs tests with odd values for all of them.
"""

from __future__ import annotations

import atexit
import locale
import os
import shlex
import shutil
import tempfile
import time

#: The variables of the caller that a test may see: paths of programs and temporary files, the user,
#: and switches of the tests.
KEPT = (
    "PATH",
    "LD_LIBRARY_PATH",
    "TMPDIR",
    "USER",
    "LOGNAME",
    "ANSIBLE_COLLECTIONS_PATH",
    "DROVER_AGENT_GUEST",
    "DROVER_ATTACK_LOG",
    "DROVER_LAB",
    "DROVER_LAB_RELEASE",
    "DROVER_MATRIX_COUNTS",
    "DROVER_MATRIX_SHARE",
    "DROVER_POSTGRESQL",
    "DROVER_POSTGRESQL_ODD",
    "DROVER_RELEASES",
    "DROVER_SKIP_NOTHING",
    "DROVER_SPLIT_DAEMONS",
    "DROVER_WRITE_EXPECTED",
)
LOCALE = "C.UTF-8"
GIVEN = {
    "LANG": LOCALE,
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    # Only errors, because it warns on standard error if the name of the machine does not resolve.
    "LIBVIRT_DEBUG": "4",
}
UMASK = 0o022


def make() -> None:
    """Set the environment of this process and of its children."""
    os.umask(UMASK)
    # A worker of pytest-xdist has the environment of its parent process.
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        for name in set(os.environ).difference(KEPT):
            if not name.startswith("PYTEST_"):
                del os.environ[name]
        home = _home()
        os.environ.update(
            GIVEN,
            HOME=home,
            PATH=os.pathsep.join([*_plain_ssh(home), os.environ.get("PATH", os.defpath)]),
        )
    locale.setlocale(locale.LC_ALL, LOCALE)
    time.tzset()


def _plain_ssh(home: str) -> list[str]:
    """Make an ssh that reads no configuration of the machine; return its folder, or none without
    ssh."""
    real = shutil.which("ssh")
    if not real:
        return []
    folder = os.path.join(home, ".bin")
    os.mkdir(folder)
    with open(
        os.path.join(folder, "ssh"),
        "w",
        encoding="utf-8",
        opener=lambda path, flags: os.open(path, flags, 0o755),
    ) as script:
        script.write(f'#!/bin/sh\nexec {shlex.quote(real)} -F none "$@"\n')
    return [folder]


def _home() -> str:
    """Make a home without any configuration; it is removed at the end of this process."""
    # An underline, because Ansible reads paths below HOME as Python, which warns about a number
    # before a word, such as -3in.
    home, owner = tempfile.mkdtemp(prefix="drover-home_"), os.getpid()

    def remove() -> None:
        # Tests fork, so only this process removes it.
        if os.getpid() == owner:
            shutil.rmtree(home, ignore_errors=True)

    atexit.register(remove)
    return home
