# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The start of qemu-img, so that it ends together with the process that started it.

Private to the collection. A module has the lock of its instance until its end. If a copy survived
the end of the module, it could write to a volume after the next call has started a guest with this
volume.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Callable, Collection, Sequence

from . import programs

#: The number of this option in the prctl(2) of the kernel.
_PR_SET_PDEATHSIG = 1


def ending_with_caller() -> Callable[[], None]:
    """Return the first step (``preexec_fn``) of a program that this process starts: with it the
    program ends with the thread that started it.
    """
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def end_with_parent() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have ended before this call.
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)

    return end_with_parent


def run(
    words: Sequence[str], seconds: int, pass_fds: Collection[int] = ()
) -> subprocess.CompletedProcess[str]:
    """Run ``qemu-img`` with arguments.

    :param seconds: the time limit.
    :param pass_fds: descriptors that stay open in the program.
    :raises OSError: the program cannot be started.
    :raises subprocess.TimeoutExpired: the program took longer and was killed.
    """
    # Do not use run_command: it has no time limit and cannot pass descriptors.
    # pylint: disable-next=ansible-bad-function,subprocess-popen-preexec-fn
    return subprocess.run(
        ["qemu-img", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
        env=programs.environment(),
        pass_fds=tuple(pass_fds),
        preexec_fn=ending_with_caller(),  # noqa: PLW1509
    )
