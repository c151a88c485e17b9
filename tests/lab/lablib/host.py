# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first process of a host: makes its root, wires it up, starts its services, reaps.

Runs as PID 1 of the host. Says on standard output how far it has come: ``unshared``, then, once
the switch has said ``wired``, ``up`` or what went wrong.
Usage: python3 -m lablib.host FOLDER NAME
"""
from __future__ import annotations

import os
import pathlib
import socket
import subprocess
import sys
import time

from . import host_root
from .layout import Host, LabError, Layout, run

START_TIMEOUT = 60  # seconds; a second or two on an idle machine


def say(word: str) -> None:
    print(word, flush=True)


def make_network(host: Host) -> None:
    """The host's cable is in a bridge, br0, which guests are plugged into as well."""
    run("ip", "link", "set", "lo", "up")
    # With a MAC address of its own the bridge does not take a guest's and go silent for a while.
    run("ip", "link", "add", "br0", "address", host.mac, "type", "bridge", "forward_delay", "0")
    run("ip", "link", "set", "eth0", "master", "br0", "up")
    run("ip", "address", "add", f"{host.address}/24", "dev", "br0")
    run("ip", "link", "set", "br0", "up")


def start(name: str, *command: str) -> subprocess.Popen[bytes]:
    """Start a service; what it prints goes to /var/log/NAME.out of the host."""
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


def boot(layout: Layout, host: Host) -> None:
    socket.sethostname(host.name)
    host_root.enter(layout, host)
    make_network(host)
    os.environ.clear()
    os.environ.update(HOME="/root", USER="root", LOGNAME="root", SHELL="/bin/sh", LANG="C.UTF-8",
                      PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    sshd = start("sshd", "/usr/sbin/sshd", "-D", "-e")
    libvirtd = start("libvirtd", "/usr/sbin/libvirtd")
    wait_for("sshd", sshd, socket.AF_INET, ("127.0.0.1", 22))
    wait_for("libvirtd", libvirtd, socket.AF_UNIX, "/run/libvirt/libvirt-sock")


def main() -> int:
    layout = Layout(sys.argv[1])
    say("unshared")
    if sys.stdin.readline().strip() != "wired":
        return 1
    try:
        boot(layout, layout.host(sys.argv[2]))
    except (LabError, OSError) as problem:
        say(str(problem))
        return 1
    say("up")
    # Nothing is started again when it ends: a dead libvirtd is something to be noticed.
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(1)


if __name__ == "__main__":
    sys.exit(main())
