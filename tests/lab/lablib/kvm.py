# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A check for KVM: does a guest start with /dev/kvm, seen from inside a host?

The device may open although no guest starts: virtual machines with a nested virtualisation that is
broken or made in software (``failed to set MSR 0x10a``).
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import time

TIMEOUT = 300  # seconds

#: The domain of the role place's template, without disks and networks.
GUEST = """\
<domain type='kvm'>
  <name>does-kvm-work</name>
  <memory unit='MiB'>64</memory>
  <vcpu>1</vcpu>
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <cpu mode='host-model'/>
  <on_crash>destroy</on_crash>
</domain>
"""


def problem() -> str:
    """Return the reason why no guest starts with KVM; an empty text if one starts. The function
    uses the running libvirtd."""
    guest, output_file = (
        pathlib.Path("/run/does-kvm-work.xml"),
        pathlib.Path("/run/does-kvm-work.out"),
    )
    guest.write_text(GUEST, encoding="utf-8")
    with open(output_file, "wb") as out:
        virsh = subprocess.Popen(
            [
                "virsh",
                "--quiet",
                "--connect",
                "qemu:///system",
                "create",
                "--paused",
                "--autodestroy",
                guest,
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=out,
        )
    status = reap(virsh.pid)
    text = output_file.read_text(encoding="utf-8").strip()
    guest.unlink()
    output_file.unlink()
    if status is None:
        virsh.kill()
        return f"it has not started after {TIMEOUT} s"
    # QEMU's first message is the cause; libvirt's own text comes before it.
    return text.partition("qemu-system-x86_64: ")[2].partition("\n")[0] or text if status else ""


def reap(wanted: int) -> int | None:
    """Wait for one process; return its exit status, None after a time limit.

    This is the host's first process: libvirt waits until it has reaped a QEMU that died.
    """
    deadline = time.monotonic() + TIMEOUT
    while time.monotonic() < deadline:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == wanted:
            return os.waitstatus_to_exitcode(status)
        if not pid:
            time.sleep(0.02)
    return None


def hide() -> None:
    """Hide /dev/kvm, and remove libvirt's cache about it. libvirtd must not run.

    A file without write permission covers the device. libvirt checks its access to /dev/kvm at each
    definition of a domain; if libvirt has access and QEMU has none, libvirt queries QEMU again, for
    many seconds.
    """
    cover = pathlib.Path("/run/no-kvm")
    cover.touch()
    subprocess.run(["mount", "--bind", cover, "/dev/kvm"], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", "/dev/kvm"], check=True)
    shutil.rmtree("/var/cache/libvirt/qemu/capabilities", ignore_errors=True)
