# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The need of a host for a reboot, by the sign of its own system.

Private to the collection. A sign says yes, no, or nothing: silence is never taken for no.

Sources for the meaning of the signs:

- Debian and Ubuntu: hooks of the packages update-notifier-common (Ubuntu), unattended-upgrades and
  reboot-notifier (Debian) make ``/run/reboot-required``. A system without these packages has no
  hook that makes the file.
- dnf 4: man dnf-needs-restarting(8), ``-r``: "Only report whether a reboot is required (exit code
  1) or not (exit code 0)"; every other error of dnf ends with 1 too (man dnf(8), EXIT VALUES), so
  the text decides: plugins/needs_restarting.py of dnf-plugins-core.
- dnf 5: man dnf5-needs-restarting(8), the same exit codes and texts; ``-r`` is accepted and has no
  effect: needs_restarting.cpp of dnf5.
- zypper: man zypper(8), needs-rebooting: ZYPPER_EXIT_INF_REBOOT_NEEDED (102) if a reboot is needed,
  else ZYPPER_EXIT_OK (0). It looks for ``/run/reboot-needed``, which libzypp makes
  (src/commands/needs-rebooting.cc).
"""

from __future__ import annotations

import glob
import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .._files import programs, system

#: Made by Debian's and Ubuntu's packages; and by libzypp, where zypper itself is not there.
FILES = (
    "/run/reboot-required",
    "/var/run/reboot-required",
    "/run/reboot-needed",
    "/var/run/reboot-needed",
)
#: One of these files exists if a package makes the file on Debian and Ubuntu.
MAKERS = (
    "/usr/share/update-notifier/notify-reboot-required",
    "/etc/kernel/postinst.d/unattended-upgrades",
    "/etc/kernel/postinst.d/update-notifier",
    "/etc/kernel/postinst.d/reboot-notifier",
)
#: Seconds for a tool; dnf may read the metadata of all repositories.
TOOL_TIMEOUT = 60
#: Bytes of a tool's output that are read.
MOST = 65536

KERNELS = (
    "/boot/vmlinuz-*",
    "/boot/vmlinux-*",
    "/boot/Image-*",
    "/lib/modules/*/vmlinuz",
    "/usr/lib/modules/*/vmlinuz",
)
STAT = "/proc/stat"
#: The version at the beginning of a release of the kernel.
_BEGINNING = re.compile(r"[\d.~+-]*(?:rc\d+)?[\d.~+-]*")

REBOOT_IS_NEEDED = 102
_DNF_YES, _DNF_NO = "Reboot is required", "Reboot should not be necessary"


class RebootAnswer(NamedTuple):
    """needed: None if it is not known. message: the reason, as a part of a sentence. message: why,
    as a part of a sentence.
    """

    needed: bool | None
    message: str


def of_files(paths: Iterable[str]) -> RebootAnswer:
    """Answer by files that the operator names: each asks for a reboot, and none is a no."""
    paths = list(paths)
    there = [path for path in paths if os.path.lexists(path)]
    if there:
        return RebootAnswer(True, f"{there[0]} is there")
    return RebootAnswer(
        False, f"{' and '.join(paths)} {'is' if len(paths) == 1 else 'are'} not there"
    )


def of_system() -> RebootAnswer:
    """Answer by the signs of the system.

    A yes of any sign counts. A no is a no of the system's own sign. A system without a sign is
    judged by the kernel alone: updates of libraries and firmware are not seen there.
    """
    found = of_files(FILES)
    if found.needed:
        return found
    kernel = of_kernel()
    if kernel.needed:
        return kernel
    own = _own_sign()
    if own is not None:
        return own
    if kernel.needed is False:
        return kernel
    return RebootAnswer(
        None,
        f"{kernel.message}, and no tool here tells it. Install unattended-upgrades or"
        " reboot-notifier (Debian), update-notifier-common (Ubuntu), dnf-utils (RHEL, AlmaLinux,"
        " Rocky) or dnf5-plugins (Fedora)",
    )


def seen() -> str | None:
    """Return the reason for a reboot, by files and kernels alone, without a program; None if they
    show none.
    """
    try:
        found = of_files(FILES)
        answer = found if found.needed else of_kernel()
    except OSError:
        # A kernel that is removed at this moment.
        return None
    return answer.message if answer.needed else None


def _own_sign() -> RebootAnswer | None:
    """Return the answer of this system's own sign, or None if it has none.

    Debian has dnf and zypper as packages too, which would see an empty list of packages there and
    find nothing.
    """
    systems = system.names()
    if systems & {"suse", "opensuse", "sles"}:
        return _zypper()
    if systems & {"rhel", "fedora", "centos"}:
        return _dnf()
    if systems & {"debian", "ubuntu"} and any(os.path.lexists(path) for path in MAKERS):
        return RebootAnswer(False, f"{FILES[0]} is not there")
    return None


def _zypper() -> RebootAnswer | None:
    reply = _run_program("zypper", "--non-interactive", "needs-rebooting")
    if reply is None:
        return None
    if reply.status == REBOOT_IS_NEEDED:
        return RebootAnswer(True, "zypper needs-rebooting says so")
    if reply.status == 0:
        return RebootAnswer(False, "zypper needs-rebooting finds nothing")
    return RebootAnswer(None, f"zypper needs-rebooting {reply.words()}")


def _dnf() -> RebootAnswer | None:
    """Run dnf, first with the data in its cache: dnf 5 may want to fetch metadata, and a host may
    be offline.
    """
    problem = None
    for words in (("-C", "needs-restarting", "-r"), ("needs-restarting", "-r")):
        reply = _run_program("dnf", *words)
        if reply is None or _has_no_such_command(reply):
            return None
        # Any error of dnf ends with the status that means yes.
        if reply.status == 1 and _DNF_YES in reply.output:
            packages = re.findall(r"^\s*\* (\S+)$", reply.output, re.MULTILINE)
            named = (
                f": {', '.join(packages[:5])}{' ...' if len(packages) > 5 else ''}"
                if packages
                else ""
            )
            return RebootAnswer(True, f"dnf needs-restarting says so{named}")
        if reply.status == 0 and _DNF_NO in reply.output:
            return RebootAnswer(False, "dnf needs-restarting finds nothing")
        problem = reply
    return RebootAnswer(None, f"dnf needs-restarting {problem.words() if problem else ''}")


def _has_no_such_command(said: ProgramEnd) -> bool:
    """Return True if dnf has no such plugin, by the words of dnf 4 (No such command) and of dnf 5
    (Unknown argument).
    """
    return (
        bool(said.status)
        and re.search(
            r"No such command: needs-restarting|Unknown argument \"needs-restarting\"", said.output
        )
        is not None
    )


# -- the kernel ---------------------------------------------------------------------------------


def of_kernel() -> RebootAnswer:
    """Answer by the installed kernels of the running kernel's kind: a newer one, or a file that was
    replaced since the boot, needs a reboot.

    A newer kernel of another kind, such as a debug kernel, may or may not be the next to boot.
    """
    running = os.uname().release
    installed: dict[str, list[str]] = {}
    for path in (path for pattern in KERNELS for path in glob.glob(pattern)):
        release = (
            os.path.basename(os.path.dirname(path))
            if path.endswith("/vmlinuz")
            else os.path.basename(path).partition("-")[2]
        )
        installed.setdefault(release, []).append(path)
    newer = [each for each in installed if version(each) > version(running)]
    same = [each for each in newer if kind(each) == kind(running)]
    if same:
        return RebootAnswer(
            True, f"kernel {running} runs, and {max(same, key=version)} is installed"
        )
    if newer:
        return RebootAnswer(
            None,
            f"kernel {running} runs, and {max(newer, key=version)} of another kind is installed",
        )
    if running not in installed:
        return RebootAnswer(None, f"the running kernel {running} is not among the installed ones")
    booted = boot_time()
    if booted is None:
        return RebootAnswer(None, "the time of the boot is not known")
    # Compare ctime, not mtime: packages set mtime themselves.
    if any(os.stat(path).st_ctime > booted for path in installed[running]):
        return RebootAnswer(
            True, f"the file of the running kernel {running} has changed since the boot"
        )
    return RebootAnswer(False, f"the running kernel {running} is the newest that is installed")


def version(release: str) -> list[int]:
    """Return the numbers of a release, [5, 14, 0, 503, 11, 1] of 5.14.0-503.11.1.el9_5.x86_64."""
    return [int(each) for each in re.findall(r"\d+", _BEGINNING.match(release).group())]  # type: ignore[union-attr]  # it always matches


def kind(release: str) -> str:
    """Return the rest of a release besides its version: amd64, cloud-amd64, generic, x86_64,
    x86_64+debug.

    The names of releases of a distribution are left out (el9_5, fc42, +deb13), because an upgrade
    changes them.
    """
    return re.sub(
        r"(?:^|(?<=[-.+]))(?:el\d+(?:_\d+)*|fc\d+|deb\d+(?:u\d+)?|bpo(?:\.\d+)*)[-.]",
        "",
        _BEGINNING.sub("", release, count=1),
    )


def boot_time() -> int | None:
    """Return when the kernel was started, in seconds since 1970, or None."""
    try:
        with open(STAT, encoding="ascii", errors="replace") as file:
            match = re.search(r"^btime (\d+)$", file.read(), re.MULTILINE)
    except OSError:
        return None
    return int(match.group(1)) if match else None


# -- programs -----------------------------------------------------------------------------------


class ProgramEnd(NamedTuple):
    """The end of a program. status: None if it did not end in time. output: the beginning of its
    output.
    """

    status: int | None
    output: str

    def words(self) -> str:
        """Return the fault, as the end of a sentence."""
        if self.status is None:
            return f"did not end within {TOOL_TIMEOUT} s"
        lines = [line.strip() for line in self.output.splitlines() if line.strip()]
        return f"ended with status {self.status}" + (
            f" ({lines[-1].rstrip('.')[:200]})" if lines else ""
        )


def _run_program(name: str, *words: str) -> ProgramEnd | None:
    """Run a program of the system in English; None if it is not installed.

    It has TOOL_TIMEOUT seconds. Then it and its children are killed, without waiting for their end:
    a process that hangs on storage does not even die.
    """
    path = next(
        (each for each in (f"/usr/bin/{name}", f"/bin/{name}") if os.access(each, os.X_OK)), None
    )
    if path is None:
        return None
    return run_bounded([path, *words], TOOL_TIMEOUT)


def run_bounded(words: Sequence[str], seconds: float) -> ProgramEnd:
    """Run a program with a limit of time and of output."""
    # Into a file, because a grandchild that lives on would keep a pipe open.
    with tempfile.TemporaryFile() as output:
        # run_command has no time limit, so it is not used here.
        # pylint: disable-next=ansible-bad-function,consider-using-with
        child = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=programs.environment(),
            start_new_session=True,
        )
        try:
            status: int | None = child.wait(seconds)
        except subprocess.TimeoutExpired:
            status = None
            try:
                os.killpg(child.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        output.seek(0)
        return ProgramEnd(status, output.read(MOST).decode("utf-8", "replace"))
