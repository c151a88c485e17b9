# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The first process of the lab: owns the bridge, starts and kills hosts, connects ssh to them.

It runs as root, as PID 1 of separate PID, network, mount, UTS and IPC namespaces.
Usage: python3 -m lablib.switch FOLDER UID GID  (the user who may talk to it)
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import threading
import typing

from .control import short_path
from .host import RESTARTS
from .layout import POWER_OFF, SWITCH_ADDRESS, SWITCH_ADDRESS_6, Host, LabError, Layout, run

BRIDGE = "lab0"
#: The network for migrations; only a variable puts it to use.
SECOND_BRIDGE = "lab1"


def children(pid: int) -> list[int]:
    """Return the PIDs of a process's children."""
    pids = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name of the command is in brackets and may contain blanks; the parent comes after
            # it.
            parent = int(stat.read_text(encoding="utf-8").rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        if parent == pid:
            pids.append(int(stat.parent.name))
    return pids


class Kvm:
    """The state of KVM: the first hosts test if guests start with the machine's /dev/kvm."""

    def __init__(self) -> None:
        self.state = "ask" if os.path.exists("/dev/kvm") else "works"
        self.reason = ""

    def learn(self, line: str) -> None:
        """Record a host's report at its start."""
        self.reason = self.reason or line.partition(" without KVM: ")[2]
        self.state = "broken" if self.reason else "works"


class Machine:
    """One host as the switch sees it: a cable and a power button."""

    def __init__(self, layout: Layout, host: Host, kvm: Kvm) -> None:
        self.layout = layout
        self.host = host
        self.kvm = kvm
        self.button = threading.RLock()
        self.process: subprocess.Popen[str] | None = None

    def is_on(self) -> bool:
        # During its restart a host has power, although none of its processes runs.
        return self.process is not None and self.process.poll() in (None, RESTARTS)

    def start(self) -> str:
        """Power on and wait until sshd and libvirtd answer."""
        with self.button:
            if self.is_on() and self.process.poll() is None:
                return "already on"
            self.unplug()
            with open(self.layout.log / f"{self.host.name}.log", "a", encoding="utf-8") as log:
                self.process = subprocess.Popen(
                    [
                        "unshare",
                        "--net",
                        "--mount",
                        "--uts",
                        "--ipc",
                        "--pid",
                        "--fork",
                        sys.executable,
                        "-m",
                        "lablib.host",
                        self.layout.folder,
                        self.host.name,
                        self.kvm.state,
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    text=True,
                )
            self.expect("unshared")
            # The process is in the host's network namespace; only its child is in all the other
            # ones.
            run(
                "ip",
                "link",
                "add",
                self.host.name,
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                str(self.process.pid),
            )
            run("ip", "link", "set", self.host.name, "master", BRIDGE, "up")
            second = f"{self.host.name}m"
            run(
                "ip",
                "link",
                "add",
                second,
                "type",
                "veth",
                "peer",
                "name",
                "eth1",
                "netns",
                str(self.process.pid),
            )
            run("ip", "link", "set", second, "master", SECOND_BRIDGE, "up")
            print("wired", file=self.process.stdin, flush=True)
            self.kvm.learn(self.expect("up"))
            threading.Thread(
                target=self.restart_at_its_end, args=[self.process], daemon=True
            ).start()
            return "started"

    def restart_at_its_end(self, process: subprocess.Popen[str]) -> None:
        """Start a host again that has ended for a restart, as a machine's firmware does."""
        if process.wait() != RESTARTS:
            return
        with self.button:
            if self.process is process:  # its power was not cut since
                try:
                    self.start()
                except LabError as problem:
                    print(problem, file=sys.stderr, flush=True)

    def expect(self, word: str) -> str:
        """Read the host's next line; a line without the word is an error message."""
        line = self.process.stdout.readline().strip()
        if line.split()[:1] != [word]:
            self.cut_power()
            log = self.layout.log / f"{self.host.name}.log"
            raise LabError(f"{self.host.name} did not start: {line or 'it ended'}. See {log}.")
        return line

    def kill(self) -> str:
        """Cause a power failure: every process of the host ends at once."""
        with self.button:
            if not self.is_on():
                return "already off"
            self.cut_power()
            return "killed"

    def press(self) -> str:
        """Press the power button: the host begins to shut down and is off later."""
        with self.button:
            if not self.is_on():
                return "already off"
            if self.process.poll() is None:
                for pid in children(self.process.pid):
                    os.kill(pid, POWER_OFF)
            return "pressed"

    def cut_power(self) -> None:
        # A kill of the first process of a PID namespace kills all of it; then its parent ends too.
        process, self.process = self.process, None
        if process.poll() is None:
            for pid in children(process.pid) or [process.pid]:
                os.kill(pid, 9)
        process.wait()
        process.stdin.close()
        process.stdout.close()
        self.unplug()

    def unplug(self) -> None:
        """Remove the cables; after the end of the host the kernel needs a moment for that."""
        for name in (self.host.name, f"{self.host.name}m"):
            subprocess.run(["ip", "link", "del", name], capture_output=True, check=False)


class Switch:
    """A thread that answers the control socket."""

    def __init__(self, layout: Layout) -> None:
        self.kvm = Kvm()
        self.machines = {host.name: Machine(layout, host, self.kvm) for host in layout.hosts()}

    def machine(self, name: str) -> Machine:
        if name not in self.machines:
            raise LabError(f"The lab has no host {name!r}.")
        return self.machines[name]

    def serve(self, client: socket.socket) -> None:
        """Answer one request, in a separate thread."""
        with client:
            try:
                request = json.loads(client.makefile("rb").readline())
                if request["do"] == "dial":
                    self.dial(client, request["host"])
                    return
                reply = {"answer": self.answer(request["do"], request["host"])}
            except (LabError, OSError, ValueError) as problem:
                reply = {"error": str(problem)}
            try:
                client.sendall(json.dumps(reply).encode() + b"\n")
            except OSError:
                pass  # the client has left; the request is carried out all the same

    def answer(self, do: str, name: str | None) -> typing.Any:
        if do == "start":
            return self.machine(name).start()
        if do == "kill":
            return self.machine(name).kill()
        if do == "press":
            return self.machine(name).press()
        if do == "status":
            return {name: machine.is_on() for name, machine in self.machines.items()}
        if do == "kvm":
            return self.kvm.reason
        if do == "down":
            os._exit(0)  # the kernel kills the rest
        raise LabError(f"The switch does not know how to {do!r}.")

    def dial(self, client: socket.socket, name: str) -> None:
        host = self.machine(name).host
        try:
            with socket.create_connection((host.address, 22), timeout=5) as connection:
                connection.setblocking(True)
                socket.send_fds(client, [b"\0"], [connection.fileno()])
        except OSError as problem:
            raise LabError(f"{name} ({host.address}) cannot be reached: {problem}") from None


def make_network() -> None:
    run("ip", "link", "set", "lo", "up")
    run("ip", "link", "add", BRIDGE, "type", "bridge", "forward_delay", "0")
    run("ip", "address", "add", f"{SWITCH_ADDRESS}/24", "dev", BRIDGE)
    run("ip", "address", "add", f"{SWITCH_ADDRESS_6}/64", "dev", BRIDGE, "nodad")
    run("ip", "link", "set", BRIDGE, "up")
    run("ip", "link", "add", SECOND_BRIDGE, "type", "bridge", "forward_delay", "0")
    run("ip", "link", "set", SECOND_BRIDGE, "up")


def main() -> None:
    layout = Layout(sys.argv[1])
    socket.sethostname("lab-switch")
    run("mount", "-t", "proc", "proc", "/proc")
    make_network()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    # The socket gets its name only when it belongs to its user, who may be connecting already.
    unnamed = layout.control.with_name(f"{layout.control.name}.new")
    unnamed.unlink(missing_ok=True)
    with short_path(unnamed) as path:
        listener.bind(path)
    os.chmod(unnamed, 0o600)
    shutil.chown(unnamed, int(sys.argv[2]), int(sys.argv[3]))
    listener.listen(64)
    unnamed.replace(layout.control)
    switch = Switch(layout)
    while True:
        client = listener.accept()[0]
        threading.Thread(target=switch.serve, args=[client], daemon=True).start()


if __name__ == "__main__":
    main()
