# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first process of a host: makes its root, wires it up, starts its services, reaps.

Runs as PID 1 of the host. It reports its progress on standard output: ``unshared``; then, after the
switch has sent ``wired``, ``up`` or an error. ``up without KVM: REASON`` means that no guest starts
with KVM, so it hid /dev/kvm.

It accepts the signals that systemd accepts as PID 1: SIGRTMIN+4 (the switch sends it when the power
button is pressed) switches the host off in order, SIGRTMIN+5 restarts it.
Usage: python3 -m lablib.host FOLDER NAME KVM  (KVM is ask, works or broken)
"""

from __future__ import annotations

import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from . import host_root, kvm
from .layout import POWER_OFF, RESTART, SPLIT_DAEMONS, Host, LabError, Layout, run

START_TIMEOUT = 300  # seconds; a second or two on an idle machine
STOP_TIMEOUT = 20  # seconds for the guests, then again for the services
RESTARTS = 5  # exit status: the switch must start the host again


class Ended(Exception):
    """The end of a host by its power button or a restart."""

    def __init__(self, status: int) -> None:
        super().__init__()
        self.status = status


def say(word: str) -> None:
    print(word, flush=True)


def make_network(host: Host) -> None:
    """Put the host's cable into a bridge, br0, which has the guests too."""
    run("ip", "link", "set", "lo", "up")
    # With a fixed MAC address the bridge does not take a guest's address, which would interrupt it
    # for a while.
    run("ip", "link", "add", "br0", "address", host.mac, "type", "bridge", "forward_delay", "0")
    run("ip", "link", "set", "eth0", "master", "br0", "up")
    if not host.ipv6:
        run("ip", "address", "add", f"{host.address}/24", "dev", "br0")
    # Without nodad the address is usable only a second later.
    run("ip", "address", "add", f"{host.address_6}/64", "dev", "br0", "nodad")
    run("ip", "link", "set", "br0", "up")
    if not host.ipv6:
        run("ip", "address", "add", f"{host.migration_address}/24", "dev", "eth1")
    run("ip", "address", "add", f"fd98::{10 + host.number}/64", "dev", "eth1", "nodad")
    run("ip", "link", "set", "eth1", "up")


def start(name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start a service; its output goes to /var/log/NAME.out of the host."""
    with open(f"/var/log/{name}.out", "ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)


def wait_for(name: str, service: subprocess.Popen[bytes], family: int, address: object) -> None:
    """Wait until a service accepts connections."""
    deadline = time.monotonic() + START_TIMEOUT
    while True:
        with socket.socket(family) as probe:
            if probe.connect_ex(address) == 0:
                return
        if service.poll() is not None or time.monotonic() > deadline:
            said = pathlib.Path(f"/var/log/{name}.out").read_text(encoding="utf-8").split("\n")
            raise LabError(f"{name} does not run: {' '.join(said[-4:]).strip()}")
        time.sleep(0.05)


def boot(layout: Layout, host: Host, kvm_state: str) -> str:
    """Start the host's services; return the reason for a start without KVM, if that is news."""
    socket.sethostname(host.name)
    host_root.enter(layout, host)
    make_network(host)
    os.environ.clear()
    os.environ.update(
        HOME="/root",
        USER="root",
        LOGNAME="root",
        SHELL="/bin/sh",
        LANG="C.UTF-8",
        PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    )
    sshd = start("sshd", "/usr/sbin/sshd", "-D", "-e")
    if list(pathlib.Path("/etc/rc2.d").glob("S*virtlockd")):
        virtlockd = start("virtlockd", "/usr/sbin/virtlockd")
        wait_for("virtlockd", virtlockd, socket.AF_UNIX, "/run/libvirt/virtlockd-sock")
    if kvm_state == "broken":
        kvm.hide()
    daemons = start_libvirt(host)
    wait_for("sshd", sshd, socket.AF_INET, ("127.0.0.1", 22))
    reason = kvm.problem() if kvm_state == "ask" else ""
    if reason:
        for daemon in daemons:
            # It has no guest yet. A normal end would wait for the QEMU that reports its features.
            daemon.kill()
            daemon.wait()
        kvm.hide()
        start_libvirt(host)
    return reason


def start_libvirt(host: Host) -> list[subprocess.Popen[bytes]]:
    """Start the daemons of libvirt; return them, with the daemon of QEMU first."""
    if not host.split:
        return [start_daemon("libvirtd", "libvirt-sock")]
    # The daemon of QEMU connects to the others at its start.
    sockets = {"virtproxyd": "libvirt-sock"}
    return [
        start_daemon(name, sockets.get(name, f"{name}-sock")) for name in reversed(SPLIT_DAEMONS)
    ][::-1]


def start_daemon(name: str, address: str) -> subprocess.Popen[bytes]:
    daemon = start(name, f"/usr/sbin/{name}")
    wait_for(name, daemon, socket.AF_UNIX, f"/run/libvirt/{address}")
    return daemon


def heed_the_power_button() -> None:
    def handle(number: int, _frame: object) -> None:
        for again in (POWER_OFF, RESTART):
            signal.signal(again, signal.SIG_IGN)
        raise Ended(RESTARTS if number == RESTART else 0)

    for number in (POWER_OFF, RESTART):
        signal.signal(number, handle)


def shut_down() -> None:
    """End guests first, then libvirtd, then everything else; kill the rest."""
    deadline = time.monotonic() + STOP_TIMEOUT
    while guests := virsh("list", "--name").split():
        for guest in guests:
            virsh("shutdown" if time.monotonic() < deadline else "destroy", guest)
        time.sleep(0.2)
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.kill(-1, number)
        deadline = time.monotonic() + STOP_TIMEOUT
        while time.monotonic() < deadline:
            try:
                if os.waitpid(-1, os.WNOHANG) == (0, 0):
                    time.sleep(0.02)
            except ChildProcessError:
                return


def virsh(*words: str) -> str:
    """Return the output of virsh; an empty text without a libvirtd."""
    return subprocess.run(
        ["virsh", "--connect", "qemu:///system", *words],
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ).stdout


def main() -> int:
    layout = Layout(sys.argv[1])
    say("unshared")
    if sys.stdin.readline().strip() != "wired":
        return 1
    try:
        reason = boot(layout, layout.host(sys.argv[2]), sys.argv[3])
    except (LabError, OSError) as problem:
        say(str(problem))
        return 1
    say(f"up without KVM: {reason}" if reason else "up")
    try:
        heed_the_power_button()
        # No service is started again after its end: a dead libvirtd must be noticed.
        while True:
            try:
                os.wait()
            except ChildProcessError:
                time.sleep(1)
    except Ended as ended:
        shut_down()
        return ended.status


if __name__ == "__main__":
    sys.exit(main())
