# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The places of all files, and the names of the hosts."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import uuid

CHECKOUT = pathlib.Path(__file__).resolve().parents[3]
SWITCH_ADDRESS = "10.99.0.254"
SWITCH_ADDRESS_6 = "fd99::fe"
MAX_HOSTS = 9
BMC_USER = "drover"
BMC_PASSWORD = "correct-horse-7"  # no secret: it is in the lab's folder, for every user of the lab

#: The signals that PID 1 of a host accepts; the numbers are systemd's.
POWER_OFF = signal.SIGRTMIN + 4
RESTART = signal.SIGRTMIN + 5

#: The account, with sudo, for a host that Ansible reaches without root.
SUDO_USER = "drover"

#: libvirt's daemons on a host with one daemon for each driver. The daemon of QEMU is first in the
#: list, and starts last.
SPLIT_DAEMONS = (
    "virtqemud",
    "virtproxyd",
    "virtnodedevd",
    "virtnetworkd",
    "virtnwfilterd",
    "virtsecretd",
    "virtstoraged",
    "virtlogd",
)

#: Programs that the lab needs, with the Debian package of each.
PROGRAMS = {
    "unshare": "util-linux",
    "pivot_root": "util-linux",
    "mount": "mount",
    "ip": "iproute2",
    "tar": "tar",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "libvirtd": "libvirt-daemon",
    "virsh": "libvirt-clients",
    "qemu-img": "qemu-utils",
    "qemu-system-x86_64": "qemu-system-x86",
}


NEW_NAMESPACES = ("unshare", "--net", "--mount", "--uts", "--ipc", "--pid", "--fork")
#: The first steps of every host, in new namespaces; some containers allow the namespaces and refuse
#: these steps.
TRIAL = (
    "mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t tmpfs tmpfs /sys && ip link"
    " add lab0 type bridge"
)


class LabError(Exception):
    """A problem that a person must solve; the text describes it."""


class NoLabHere(LabError):
    """This machine cannot run the lab at all (exit status 4)."""


@dataclasses.dataclass(frozen=True)
class Host:
    """One host of the lab; its number, counted from 1, determines all its properties."""

    number: int
    #: libvirt's split daemons run there instead of libvirtd.
    split: bool = False
    #: Ansible logs in as SUDO_USER and becomes root with sudo.
    sudo: bool = False
    #: The host has no IPv4 address.
    ipv6: bool = False
    #: The release of Debian or Ubuntu whose root it has; an empty text for the machine's own.
    release: str = ""

    @property
    def name(self) -> str:
        return f"kvm{self.number}"

    @property
    def address(self) -> str:
        return self.address_6 if self.ipv6 else f"10.99.0.{10 + self.number}"

    @property
    def address_6(self) -> str:
        """Return its IPv6 address; it reaches hosts without IPv4 from that address."""
        return f"fd99::{10 + self.number}"

    @property
    def migration_address(self) -> str:
        """Return its address in a second network."""
        return f"fd98::{10 + self.number}" if self.ipv6 else f"10.98.0.{10 + self.number}"

    @property
    def user(self) -> str:
        """Return the account that Ansible uses."""
        return SUDO_USER if self.sudo else "root"

    @property
    def daemon(self) -> str:
        """Return the daemon of libvirt that runs QEMU."""
        return SPLIT_DAEMONS[0] if self.split else "libvirtd"

    @property
    def mac(self) -> str:
        return f"52:54:00:99:00:{self.number:02x}"

    @property
    def uuid(self) -> str:
        """Return a fixed UUID: libvirt refuses to migrate between hosts that share one, because
        these hosts would.
        """
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.lab.invalid"))


#: The kinds of host that a person requests by the name of the host.
HOST_KINDS = ("split", "sudo", "ipv6")


class Layout:
    """The folder of one lab, by default ``.lab`` in the checkout."""

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        default = os.environ.get("DROVER_LAB") or CHECKOUT / ".lab"
        self.folder = pathlib.Path(os.path.abspath(folder or default))
        self.settings = self.folder / "lab.json"
        self.lock = self.folder.with_name(self.folder.name + ".lock")
        self.run = self.folder / "run"
        self.control = self.run / "control"
        self.log = self.folder / "log"
        self.keys = self.folder / "keys"
        self.shared = self.folder / "shared"
        self.ansible = self.folder / "ansible"
        self.ssh_config = self.folder / "ssh_config"
        self.known_hosts = self.folder / "known_hosts"
        self.hosts_file = self.folder / "hosts_file"
        self.bmc_certificate = self.folder / "bmc.pem"
        self.bmc_lock = self.run / "bmc.lock"

    def host_vars(self, host: Host) -> pathlib.Path:
        """Return the variables of a host that do not exist at the start of the lab."""
        return self.folder / "host_vars" / f"{host.name}.yml"

    def disk(self, host: Host) -> pathlib.Path:
        """Return the folder of the host's disks: etc, var and root."""
        return self.folder / "hosts" / host.name

    def save(self, hosts: list[Host]) -> None:
        kinds = {
            kind: [host.number for host in hosts if getattr(host, kind)] for kind in HOST_KINDS
        }
        releases = {host.number: host.release for host in hosts if host.release}
        self.settings.write_text(
            json.dumps({"hosts": len(hosts), **kinds, "releases": releases}) + "\n",
            encoding="utf-8",
        )

    def hosts(self) -> list[Host]:
        """Return the hosts of this lab; an empty list without a lab."""
        try:
            settings = json.loads(self.settings.read_text(encoding="utf-8"))
            count = settings["hosts"]
        except (FileNotFoundError, ValueError, KeyError):
            return []
        releases = settings.get("releases", {})
        return [
            Host(
                number,
                **{kind: number in settings.get(kind, ()) for kind in HOST_KINDS},
                release=releases.get(str(number), ""),
            )
            for number in range(1, count + 1)
        ]

    def host(self, name: str) -> Host:
        for host in self.hosts():
            if host.name == name:
                return host
        known = ", ".join(host.name for host in self.hosts()) or "none, run `lab up`"
        raise LabError(f"The lab has no host {name!r}. Its hosts: {known}.")


def run(*command: str | os.PathLike[str], text: str | None = None) -> str:
    """Run a command, return its output; if it fails, raise LabError with its message."""
    words = [os.fspath(word) for word in command]
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise LabError(f"`{' '.join(words)}` failed: {said}")
    return done.stdout


def programs() -> pathlib.Path:
    """Return the folder with Ansible's programs: of the checkout's environment, or of the
    environment that runs the tests."""
    return pathlib.Path(os.environ.get("DROVER_ENVIRONMENT") or CHECKOUT / ".venv") / "bin"


def find_programs() -> None:
    """Report all missing programs at once; administrators' programs count as on the PATH."""
    path = os.environ.get("PATH", "").split(":")
    os.environ["PATH"] = ":".join(path + [p for p in ("/usr/sbin", "/sbin") if p not in path])
    missing = sorted({package for name, package in PROGRAMS.items() if not shutil.which(name)})
    if missing:
        raise NoLabHere(f"The lab needs these packages: {' '.join(missing)}. Run `make setup`.")
    if not os.path.exists("/dev/net/tun"):
        raise NoLabHere("The lab needs /dev/net/tun, which this machine does not have.")


def possible() -> None:
    """Check that this machine can run the lab.

    :raises NoLabHere: it cannot.
    """
    find_programs()
    tried = subprocess.run(
        [*as_root(), *NEW_NAMESPACES, "sh", "-c", TRIAL],
        capture_output=True,
        text=True,
        check=False,
    )
    if tried.returncode:
        raise NoLabHere(f"This machine gives no namespaces to the lab: {tried.stderr.strip()}")


def split_daemons() -> pathlib.Path:
    """Return the folder with libvirt's split daemons: the machine's own, or the result of
    tests/lab/split_daemons.sh."""
    for folder in (
        pathlib.Path("/usr/sbin"),
        pathlib.Path(
            os.environ.get("DROVER_SPLIT_DAEMONS") or CHECKOUT / ".cache" / "split-daemons"
        ),
    ):
        if all((folder / name).exists() or name == "virtlogd" for name in SPLIT_DAEMONS):
            return folder
    raise NoLabHere(
        "There are no split daemons of libvirt on this machine. Build them once with"
        " tests/lab/split_daemons.sh (needs root)."
    )


def release_root(release: str) -> pathlib.Path:
    """Return the root of a release: the machine's own, or the result of
    tests/lab/release_root.sh."""
    if release in ("", platform.freedesktop_os_release().get("VERSION_CODENAME")):
        return pathlib.Path("/")
    folder = pathlib.Path(os.environ.get("DROVER_RELEASES") or CHECKOUT / ".cache" / "releases")
    if (folder / release / "usr/bin/qemu-system-x86_64").exists():
        return folder / release
    raise NoLabHere(
        f"There is no root of {release} on this machine. Make it once with"
        f" tests/lab/release_root.sh {release} (needs root)."
    )


def as_root() -> list[str]:
    """Return the words before a command that must run as root.

    sudo requests its password here or not at all, so this is called before any other step.
    """
    if os.geteuid() == 0:
        return []
    if not shutil.which("sudo"):
        raise NoLabHere("The lab needs root, and there is no sudo.")
    if subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode:
        if not sys.stdin.isatty():
            raise NoLabHere("The lab needs root, and sudo wants a password that nobody can type.")
        print("The lab needs root to make namespaces.", file=sys.stderr)
        if subprocess.run(["sudo", "-v"], check=False).returncode:
            raise NoLabHere("The lab needs root, and sudo refused.")
    return ["sudo", "-n"]
