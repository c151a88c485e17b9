# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The surroundings of the tests, which are the same on every machine: environment, home, locale, time zone, umask.

Nothing that a user or a machine has set reaches a test: no variable of the environment but these, no ~/.ansible.cfg, no ~/.gitconfig, no /etc/ssh/ssh_config.
A test that is about one of them sets it itself. tests/setup/odd_machine.sh runs tests where all of them are odd.
"""

from __future__ import annotations

import atexit
import locale
import os
import shlex
import shutil
import tempfile
import time

#: What a test may see of the caller's environment: where programs and temporary files are, who runs it, and switches of the tests.
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
    "DROVER_NEWER_QEMU",
    "DROVER_SKIP_NOTHING",
    "DROVER_SPLIT_DAEMONS",
    "DROVER_WRITE_EXPECTED",
)
LOCALE = "C.UTF-8"
GIVEN = {
    "LANG": LOCALE,
    "TZ": "UTC",
    "GIT_CONFIG_NOSYSTEM": "1",
    # Only errors: it warns on standard error where the name of the machine does not resolve.
    "LIBVIRT_DEBUG": "4",
}
UMASK = 0o022


def make() -> None:
    """Make the surroundings of this process and of all that it starts."""
    os.umask(UMASK)
    # A worker of pytest-xdist has the environment of the process that started it.
    if not os.environ.get("PYTEST_XDIST_WORKER"):
        for name in set(os.environ).difference(KEPT):
            if not name.startswith("PYTEST_"):
                del os.environ[name]
        home = _home()
        os.environ.update(GIVEN, HOME=home, PATH=os.pathsep.join([*_plain_ssh(home), os.environ.get("PATH", os.defpath)]))
    locale.setlocale(locale.LC_ALL, LOCALE)
    time.tzset()


def _plain_ssh(home: str) -> list[str]:
    """Make an ssh that reads no configuration of the machine; return the folder that has it, none where there is no ssh."""
    real = shutil.which("ssh")
    if not real:
        return []
    folder = os.path.join(home, ".bin")
    os.mkdir(folder)
    with open(os.path.join(folder, "ssh"), "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o755)) as script:
        script.write(f'#!/bin/sh\nexec {shlex.quote(real)} -F none "$@"\n')
    return [folder]


def _home() -> str:
    """Make a home without any configuration, which is gone when this process ends."""
    # An underline, as Ansible reads paths below HOME as Python, which warns of a number before a word, such as -3in.
    home, owner = tempfile.mkdtemp(prefix="drover-home_"), os.getpid()

    def remove() -> None:
        # Tests fork.
        if os.getpid() == owner:
            shutil.rmtree(home, ignore_errors=True)

    atexit.register(remove)
    return home
