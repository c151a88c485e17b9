# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The command line of the lab."""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import dataclasses
import fcntl
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import typing

from . import control, files, storage
from .layout import (
    CHECKOUT,
    HOST_KINDS,
    MAX_HOSTS,
    NEW_NAMESPACES,
    SUDO_USER,
    Host,
    LabError,
    Layout,
    NoLabHere,
    as_root,
    find_programs,
    possible,
    programs,
    release_root,
    run,
    split_daemons,
)


@contextlib.contextmanager
def locked(layout: Layout) -> typing.Iterator[None]:
    """Only one command at a time may change the processes of the lab."""
    layout.folder.parent.mkdir(parents=True, exist_ok=True)
    with open(layout.lock, "a+", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            raise LabError(
                f"Another command is at work on this lab ({lock.read().strip()}); wait until it is"
                " done."
            ) from None
        lock.truncate(0)
        lock.write(f"process {os.getpid()}: lab {shlex.join(sys.argv[1:])}\n")
        lock.flush()
        yield


def up(
    layout: Layout,
    count: int | None,
    kinds: dict[str, list[str]],
    releases: dict[str, str],
    servers: list[str],
) -> None:
    began = time.monotonic()
    find_programs()
    with locked(layout):
        try:
            control.ask(layout, "status", timeout=10)
            if count not in (None, len(layout.hosts())):
                raise LabError(
                    f"The lab is up with {len(layout.hosts())} hosts; take it down first to have"
                    " another number."
                )
            wanted = hosts_of(len(layout.hosts()), kinds, releases)
            if (any(kinds.values()) or releases) and layout.hosts() != wanted:
                raise LabError("The lab is up with other kinds of host; take it down first.")
        except control.LabIsDown:
            start_switch(layout, hosts_of(count or 3, kinds, releases))
        for_each(layout.hosts(), lambda host: power_on(layout, host))
        for_each(layout.hosts(), lambda host: check(layout, host))
        storage.up(layout, servers)
    names = ", ".join(host.name for host in layout.hosts())
    if reason := control.ask(layout, "kvm", timeout=10):
        print(
            "/dev/kvm is hidden from the lab's hosts, for no guest starts with it on this machine:"
            f" {reason}"
        )
    print(f"The lab is up: {names} ({time.monotonic() - began:.1f} s).")


def hosts_of(count: int, kinds: dict[str, list[str]], releases: dict[str, str]) -> list[Host]:
    """Return the hosts of a new lab.

    :param kinds: {kind: the names of its hosts}.
    :param releases: {name of a host: its release}; all others have DROVER_LAB_RELEASE, or the
        machine's own root without it.
    :raises LabError: there is no host with a name, or its software is not installed.
    """
    of_others = os.environ.get("DROVER_LAB_RELEASE", "")
    hosts = [
        Host(
            number,
            **{kind: Host(number).name in names for kind, names in kinds.items()},
            release=releases.get(Host(number).name, of_others),
        )
        for number in range(1, count + 1)
    ]
    named = {name for names in (*kinds.values(), releases) for name in names}
    if unknown := sorted(named - {host.name for host in hosts}):
        raise LabError(
            f"The lab has no host {', '.join(unknown)}. Its hosts:"
            f" {', '.join(host.name for host in hosts)}."
        )
    if kinds.get("split"):
        split_daemons()
    for release in sorted({host.release for host in hosts} - {""}):
        release_root(release)
    return hosts


def start_switch(layout: Layout, hosts: list[Host]) -> None:
    """Write the files and start the lab's first process, detached from this terminal."""
    possible()
    root = as_root()
    stop_ssh(layout)
    files.write_all(layout, hosts)
    package = os.fspath(pathlib.Path(__file__).parents[1])
    with open(layout.log / "switch.log", "ab") as log:
        process = subprocess.Popen(
            [
                *root,
                *NEW_NAMESPACES,
                "--kill-child",
                "env",
                f"PYTHONPATH={package}",
                "PYTHONDONTWRITEBYTECODE=1",
                "/usr/bin/python3",
                "-m",
                "lablib.switch",
                layout.folder,
                str(os.getuid()),
                str(os.getgid()),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            start_new_session=True,
        )
    deadline = time.monotonic() + 20
    while process.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(control.LabIsDown):
            control.ask(layout, "status", timeout=10)
            return
        time.sleep(0.05)
    raise LabError(f"The lab's switch did not start; see {layout.log / 'switch.log'}.")


def power_on(layout: Layout, host: Host) -> str:
    answer = control.ask(layout, "start", host.name)
    if answer == "started":
        stop_ssh(layout, host)  # old connections from before the power failure
    return answer


def check(layout: Layout, host: Host) -> None:
    """Check that the host answers Ansible's way of asking, up to its libvirt."""
    said = run(*ssh(layout, host), "virsh --connect qemu:///system hostname").strip()
    if said != host.name:
        raise LabError(f"{host.name}'s libvirt says that it is {said!r}.")


def for_each(hosts: list[Host], work: typing.Callable[[Host], typing.Any]) -> list[typing.Any]:
    """Do the same for every host at the same time; the first failure is raised."""
    with concurrent.futures.ThreadPoolExecutor(max_workers=MAX_HOSTS) as pool:
        return list(pool.map(work, hosts))


def down(layout: Layout) -> None:
    with locked(layout):
        if not layout.settings.exists():
            if layout.folder.exists() and any(layout.folder.iterdir()):
                raise LabError(f"{layout.folder} holds no lab; nothing was touched.")
            layout.lock.unlink(missing_ok=True)
            print("The lab is down.")
            return
        root = as_root() if owned_by_root(layout) else []
        with contextlib.suppress(control.LabIsDown):
            stop_switch(layout)
        bmc_down(layout)
        stop_ssh(layout)
        storage.down(layout)
        run(*root, "rm", "-rf", "--one-file-system", "--", layout.folder)
        layout.lock.unlink(missing_ok=True)
    print("The lab is down.")


def owned_by_root(layout: Layout) -> bool:
    return (layout.folder / "hosts").exists()


def stop_switch(layout: Layout) -> None:
    pid = control.switch_pid(layout)
    try:
        control.ask(layout, "down", timeout=10)
    except control.LabIsDown:
        pass
    except LabError:
        run(*as_root(), "kill", "-9", str(pid))
    deadline = time.monotonic() + 20
    while os.path.exists(f"/proc/{pid}"):
        if time.monotonic() > deadline:
            raise LabError(f"The lab's switch (process {pid}) does not end.")
        time.sleep(0.02)


def stop_ssh(layout: Layout, host: Host | None = None) -> None:
    """End shared ssh connections. They hold sockets of the lab's network, which would outlive the
    lab.

    Their process title is "ssh: SOCKET [mux]".
    """
    sockets = {
        os.fspath(layout.run / f"{h.name}-{user}")
        for h in ([host] if host else layout.hosts())
        for user in ("root", SUDO_USER)
    }
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = file.read_bytes().decode("utf-8", "replace").strip("\0").strip()
            if words.startswith("ssh: ") and words[5:].removesuffix(" [mux]") in sockets:
                os.kill(int(file.parent.name), signal.SIGTERM)
    for name in sockets:
        pathlib.Path(name).unlink(missing_ok=True)


def bmc_up(layout: Layout) -> None:
    """Start Redfish and IPMI for every host, and give Ansible their addresses."""
    with locked(layout):
        control.ask(layout, "status", timeout=10)
        if bmc_pid(layout) is None:
            python = programs() / "python"
            if not os.access(python, os.X_OK):
                raise LabError(f"There are no BMCs in {python.parent} yet. Run `make setup`.")
            package = os.fspath(pathlib.Path(__file__).parents[1])
            with open(layout.log / "bmc.log", "ab") as log:
                process = subprocess.Popen(
                    [python, "-m", "lablib.bmc", layout.folder],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
                    env={**os.environ, "PYTHONPATH": package, "PYTHONDONTWRITEBYTECODE": "1"},
                )
            deadline = time.monotonic() + 60
            while bmc_pid(layout) != process.pid:
                if process.poll() is not None or time.monotonic() > deadline:
                    raise LabError(f"The BMCs did not start; see {layout.log / 'bmc.log'}.")
                time.sleep(0.05)
    print(
        f"Every host has a BMC; how to reach it is in {layout.host_vars(layout.hosts()[0]).parent}."
    )


def bmc_pid(layout: Layout) -> int | None:
    """Return the process that is all the BMCs, when it is ready. It holds a lock on the file with
    its PID."""
    try:
        with open(layout.bmc_lock, encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(lock.read() or 0) or None
    except FileNotFoundError:
        pass
    return None


def bmc_down(layout: Layout) -> None:
    """End the BMCs. (They end with the switch; this waits for their end.)"""
    pid = bmc_pid(layout)
    if pid is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 20
        while bmc_pid(layout) is not None:
            if time.monotonic() > deadline:
                raise LabError(f"The BMCs (process {pid}) do not end.")
            time.sleep(0.02)
    for host in layout.hosts():
        layout.host_vars(host).unlink(missing_ok=True)


def status(layout: Layout) -> int:
    try:
        power = control.ask(layout, "status", timeout=10)
    except control.LabIsDown:
        print("The lab is down.")
        return 3
    print(f"The lab is up in {layout.folder} (switch: process {control.switch_pid(layout)}).")

    def domains(host: Host) -> str:
        if not power[host.name]:
            return "off"
        try:
            output = run(*ssh(layout, host), "virsh --connect qemu:///system list --all --name")
        except LabError as problem:
            return str(problem)
        return f"on, {len(output.split())} instances"

    for host, state in zip(layout.hosts(), for_each(layout.hosts(), domains)):
        print(f"  {host.name}  {host.address}  {state}")
    return 0


def ssh(layout: Layout, host: Host) -> list[str]:
    return ["ssh", "-F", os.fspath(layout.ssh_config), host.name]


def install(layout: Layout) -> None:
    """Build the collection of the checkout and install it for the lab's Ansible."""
    galaxy = os.fspath(programs() / "ansible-galaxy")
    if not os.access(galaxy, os.X_OK):
        raise LabError(f"There is no {galaxy} yet. Run `make setup`.")
    with tempfile.TemporaryDirectory() as folder:
        run(galaxy, "collection", "build", "--output-path", folder, CHECKOUT)
        (archive,) = pathlib.Path(folder).iterdir()
        run(
            galaxy,
            "collection",
            "install",
            "--offline",
            "--force",
            "-p",
            layout.folder / "collections",
            archive,
        )


def releases_of(words: list[str]) -> dict[str, str]:
    """Return the releases of hosts, by their names, as the command line has them.

    :raises LabError: a word is not HOST=RELEASE.
    """
    for word in words:
        if not all(word.partition("=")[::2]):
            raise LabError(f"--host {word}: write HOST=RELEASE, as in kvm3=trixie.")
    return dict(word.split("=", 1) for word in words)


def upgrade(layout: Layout, host: Host, release: str) -> None:
    """Give a host the root of another release at its next start. Its definitions, disks, keys and
    uuid stay."""
    release_root(release)
    with locked(layout):
        newer = dataclasses.replace(host, release=release)
        layout.save([newer if each == host else each for each in layout.hosts()])
    print(f"{host.name} has {release} from its next start on.")


def become_ssh(layout: Layout, host: Host, words: list[str]) -> None:
    control.ask(layout, "status", timeout=10)
    command = ssh(layout, host)
    if not words and sys.stdin.isatty():
        command.insert(1, "-t")
    os.execvp("ssh", [*command, *words])


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="lab",
        description="Real libvirt hosts on one machine, in namespaces of their own.",
        epilog="With DROVER_LAB_RELEASE=trixie all new hosts have the root of that release.",
    )
    parser.add_argument("--folder", help="where the lab keeps its files [.lab in the checkout]")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    command = commands.add_parser("up", help="start the lab, or whatever of it is not running")
    command.add_argument(
        "--hosts", type=int, choices=range(1, MAX_HOSTS + 1), metavar="N", help="how many hosts [3]"
    )
    command.add_argument(
        "--with",
        dest="servers",
        default="",
        metavar="NAMES",
        help=f"storage servers beside it: {','.join(storage.SERVERS)}",
    )
    for kind, text in (
        ("split", "a host with libvirt's split daemons (virtqemud and others) instead of libvirtd"),
        ("sudo", "a host where Ansible logs in without root and has sudo"),
        ("ipv6", "a host without an IPv4 address"),
    ):
        command.add_argument(f"--{kind}", action="append", default=[], metavar="HOST", help=text)
    command.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="HOST=RELEASE",
        help="a host of another release: kvm3=trixie; tests/lab/release_root.sh makes its root",
    )
    commands.add_parser(
        "possible", help="exit status 4, and the reason, if this machine cannot run the lab"
    )
    commands.add_parser("down", help="stop everything and remove the lab's files")
    commands.add_parser("status", help="what is running; exit status 3 if the lab is down")
    commands.add_parser("install", help="build the collection and install it for the lab's Ansible")
    command = commands.add_parser("bmc", help="a Redfish and an IPMI endpoint for every host")
    command.add_argument("what", choices=("up", "down"))
    for name, text in (
        ("kill", "power failure: end every process of a host at once"),
        ("start", "power a host on"),
        ("upgrade", "give a host another release at its next start; what it has stays"),
        ("ssh", "log in to a host"),
        ("exec", "run a command on a host"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("host", metavar="HOST")
        if name == "upgrade":
            command.add_argument("release", metavar="RELEASE")
        if name == "exec":
            command.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser


def main() -> int:
    options = arguments().parse_args()
    layout = Layout(options.folder)
    try:
        if options.command == "up":
            servers = [name for name in options.servers.split(",") if name]
            up(
                layout,
                options.hosts,
                {kind: getattr(options, kind) for kind in HOST_KINDS},
                releases_of(options.host),
                servers,
            )
        elif options.command == "possible":
            possible()
        elif options.command == "down":
            down(layout)
        elif options.command == "status":
            return status(layout)
        elif options.command == "install":
            install(layout)
        elif options.command == "bmc":
            (bmc_up if options.what == "up" else bmc_down)(layout)
        else:
            host = layout.host(options.host)
            if options.command == "kill":
                print(f"{host.name}: {control.ask(layout, 'kill', host.name)}")
            elif options.command == "start":
                print(f"{host.name}: {power_on(layout, host)}")
            elif options.command == "upgrade":
                upgrade(layout, host, options.release)
            else:
                become_ssh(layout, host, getattr(options, "words", []))
    except NoLabHere as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 4
    except (LabError, OSError) as problem:
        print(f"lab: {problem}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
