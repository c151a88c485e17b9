# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The root file system of a host.

It is the machine's root, or the root of another release, read-only, with these folders of the host
on top:

============== =====================================================================
/etc           on the host's disk; a copy of that of its root, made at its first start
/var, /root    on the host's disk; empty at first
/srv/shared    the same folder on every host: the lab's shared storage
/run, /tmp     in memory, as /dev/shm
boot_id        a new one at every start; the kernel's value is the same on every host
============== =====================================================================
"""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
import subprocess
import uuid

from .layout import SPLIT_DAEMONS, SUDO_USER, Host, Layout, release_root, run, split_daemons

#: The machine's secrets, and its settings for services that the host sets up.
NOT_COPIED = (
    "shadow*",
    "gshadow*",
    "ssh",
    "libvirt",
    "sudoers*",
    "machine-id",
    "hosts",
    "hostname",
    "resolv.conf",
    "mtab",
)

SSHD_CONFIG = """\
HostKey /etc/ssh/ssh_host_ed25519_key
AuthenticationMethods publickey
PermitRootLogin prohibit-password
UsePAM no
UseDNS no
MaxStartups 100
MaxSessions 100
Subsystem sftp internal-sftp
"""

LIBVIRTD_CONF = """\
host_uuid = "{uuid}"
unix_sock_group = "root"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:/var/log/libvirt/{name}.log"
"""

QEMU_CONF = """\
# There is no root but the host's own, and no security module in it.
user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
# Only hosts with split daemons have virtlogd.
stdio_handler = "{stdio}"
swtpm_user = "root"
swtpm_group = "root"
migration_host = "{address}"
"""

#: There is no systemd; Ansible finds this script for starts and restarts. A service that does not
#: stop is killed, as by systemd.
SERVICE = """\
#!/bin/sh
### BEGIN INIT INFO
# Provides: {name}
# Required-Start:
# Required-Stop:
# Default-Start: 2 3 4 5
# Default-Stop:
# Short-Description: {name}
### END INIT INFO
pid() {{ cat /run/{name}.pid 2> /dev/null || echo none; }}
runs() {{ [ "$(readlink /proc/"$(pid)"/exe)" = /usr/sbin/{name} ]; }}
case "$1" in
    start) runs || /usr/sbin/{name} -d ;;
    stop)
        for signal in TERM KILL; do
            runs && kill -s "$signal" "$(pid)"
            for i in $(seq 100); do runs || exit 0; sleep 0.1; done
        done
        exit 1 ;;
    restart) "$0" stop && "$0" start ;;
    status) runs && echo running && exit 0; echo stopped; exit 3 ;;
    *) exit 2 ;;
esac
"""

POOL = """\
<pool type='dir'><name>{name}</name><target><path>{path}</path></target></pool>
"""

POOLS = {"default": "/var/lib/libvirt/images", "shared": "/srv/shared/instances"}


def enter(layout: Layout, host: Host) -> None:
    """Make the host's root and move into it; the machine's mounts are then invisible."""
    disk, below = layout.disk(host), release_root(host.release)
    if not (disk / "etc").is_dir():
        make_disk(layout, host)
    elif (disk / "release").read_text(encoding="utf-8") != host.release:
        renew_etc(layout, host)
    root = disk / "mnt"
    root.mkdir(exist_ok=True)
    mount(root, source=below, options="bind")
    mount(root, options="remount,bind,ro")
    for folder in ("usr", "opt"):
        if os.path.ismount(below / folder):
            mount(root / folder, source=below / folder, options="bind")
            mount(root / folder, options="remount,bind,ro")
    if host.split:
        split_sbin(root, disk)
    mount(root / "proc", kind="proc")
    boot_id = root / "proc/sys/kernel/random/boot_id"
    mount(root / "sys", kind="sysfs")  # a new one shows the devices of this network namespace
    mount(root / "dev", source="/dev", options="rbind")
    mount(root / "dev/pts", kind="devpts", options="newinstance,mode=620,ptmxmode=666")
    mount(root / "dev/shm", kind="tmpfs")
    for folder in ("run", "tmp", "srv"):
        mount(root / folder, kind="tmpfs")
    (root / "tmp").chmod(0o1777)
    write(root / "run/boot_id", f"{uuid.uuid4()}\n", 0o444)
    mount(boot_id, source=root / "run/boot_id", options="bind")
    (root / "run/sshd").mkdir(mode=0o755)
    (root / "run/lock").mkdir(mode=0o1777)
    (root / "srv/shared").mkdir()
    mount(root / "srv/shared", source=layout.shared, options="bind")
    for folder in ("etc", "var", "root"):
        mount(root / folder, source=disk / folder, options="bind")
    if os.path.isdir(below / "var/lib/dpkg"):  # dpkg needs it for its list of packages
        mount(root / "var/lib/dpkg", source=below / "var/lib/dpkg", options="bind")
        mount(root / "var/lib/dpkg", options="remount,bind,ro")
    (root / "run/machine").mkdir()
    os.chdir(root)
    run("pivot_root", ".", "run/machine")
    os.chdir("/")
    run("umount", "--lazy", "/run/machine")
    os.rmdir("/run/machine")


def split_sbin(root: pathlib.Path, disk: pathlib.Path) -> None:
    """Give the host libvirt's split daemons, and remove libvirtd."""
    programs = disk / "sbin"
    programs.mkdir(exist_ok=True)
    for name in SPLIT_DAEMONS:
        program = split_daemons() / name
        if program.exists() and not (programs / name).exists():
            shutil.copy2(program, programs / name)
    if not (programs / "libvirtd").exists():
        # A device file 0/0 hides the file of that name below.
        os.mknod(programs / "libvirtd", 0o600 | stat.S_IFCHR, os.makedev(0, 0))
    mount(
        root / "usr/sbin",
        source="overlay",
        kind="overlay",
        options=f"lowerdir={programs}:/usr/sbin",
    )


def mount(
    target: pathlib.Path, source: str | pathlib.Path = "", kind: str = "", options: str = ""
) -> None:
    run(
        "mount",
        *(["-t", kind] if kind else []),
        *(["-o", options] if options else []),
        *([source or kind] if source or kind else []),
        target,
    )


def make_disk(layout: Layout, host: Host) -> None:
    """Make the folders of the host's disk; /etc comes last and complete, because it marks a
    finished disk."""
    disk = layout.disk(host)
    shutil.rmtree(disk, ignore_errors=True)
    for folder in (
        "var/cache",
        "var/empty",
        "var/lib/dpkg",
        "var/lib/libvirt/images",
        "var/lib/swtpm-localca",
        "var/log/libvirt",
        "var/spool",
        "new-etc",
    ):
        (disk / folder).mkdir(parents=True)
    (disk / "var/tmp").mkdir(mode=0o1777)
    (disk / "var/run").symlink_to("/run")
    (disk / "var/lock").symlink_to("/run/lock")
    make_root_home(layout, disk / "root")
    make_etc(layout, host, disk / "new-etc")
    write(disk / "release", host.release)
    (disk / "new-etc").rename(disk / "etc")


def renew_etc(layout: Layout, host: Host) -> None:
    """Replace /etc of a host by that of its new release, as an upgrade does. libvirt's definitions
    stay."""
    disk = layout.disk(host)
    for folder in ("new-etc", "old-etc"):
        shutil.rmtree(disk / folder, ignore_errors=True)
    (disk / "new-etc").mkdir()
    make_etc(layout, host, disk / "new-etc")
    shutil.rmtree(disk / "new-etc/libvirt")
    shutil.copytree(disk / "etc/libvirt", disk / "new-etc/libvirt", symlinks=True)
    (disk / "etc").rename(disk / "old-etc")
    (disk / "new-etc").rename(disk / "etc")
    write(disk / "release", host.release)
    shutil.rmtree(disk / "old-etc")


def make_root_home(layout: Layout, home: pathlib.Path) -> None:
    """Allow every host to log in to every other with the lab's key, as live migration needs."""
    home.mkdir(mode=0o700)
    (home / ".ssh").mkdir(mode=0o700)
    install(layout.keys / "lab", home / ".ssh/id_ed25519", 0o600)
    install(layout.keys / "lab.pub", home / ".ssh/authorized_keys", 0o600)


def make_etc(layout: Layout, host: Host, etc: pathlib.Path) -> None:
    left_out = [f"--exclude=./{name}" for name in NOT_COPIED]
    with subprocess.Popen(
        ["tar", "-C", release_root(host.release) / "etc", "-cf", "-", *left_out, "."],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as copy:
        subprocess.run(["tar", "-C", etc, "-xpf", "-"], stdin=copy.stdout, check=True)
    install(layout.hosts_file, etc / "hosts", 0o644)
    write(etc / "hostname", f"{host.name}\n")
    write(etc / "machine-id", f"{host.uuid.replace('-', '')}\n")
    write(etc / "resolv.conf", "")
    # Accounts have no passwords. Root's field must not begin with "!", because sshd takes that as
    # locked.
    accounts = [line.split(":")[0] for line in lines(etc / "passwd")]
    write(etc / "shadow", "".join(f"{name}:*:20000:0:99999:7:::\n" for name in accounts), 0o600)
    add_libvirt_accounts(etc)
    if host.sudo:
        add_sudo_account(layout, host, etc)

    (etc / "ssh").mkdir()
    install(layout.keys / host.name, etc / "ssh/ssh_host_ed25519_key", 0o600)
    install(layout.keys / f"{host.name}.pub", etc / "ssh/ssh_host_ed25519_key.pub", 0o644)
    install(layout.known_hosts, etc / "ssh/ssh_known_hosts", 0o644)
    write(etc / "ssh/sshd_config", SSHD_CONFIG)

    # A Debian that installs updates by itself has this package, which makes /run/reboot-required.
    (etc / "kernel/postinst.d").mkdir(parents=True, exist_ok=True)
    write(etc / "kernel/postinst.d/unattended-upgrades", "#!/bin/sh\n", 0o755)

    (etc / "libvirt/storage/autostart").mkdir(parents=True)
    daemons = SPLIT_DAEMONS if host.split else ("libvirtd",)
    for name in (*daemons, "virtlockd"):
        write(etc / f"init.d/{name}", SERVICE.format(name=name), 0o755)
    for name in set(daemons) - {"virtlogd"}:
        write(etc / f"libvirt/{name}.conf", LIBVIRTD_CONF.format(uuid=host.uuid, name=name))
    # A host without IPv4 sends guests to the other hosts too.
    address = host.address_6 if any(each.ipv6 for each in layout.hosts()) else host.address
    write(
        etc / "libvirt/qemu.conf",
        QEMU_CONF.format(address=address, stdio="logd" if host.split else "file"),
    )
    for name, path in POOLS.items():
        file = f"/etc/libvirt/storage/{name}.xml"
        write(etc / file[5:], POOL.format(name=name, path=path))
        (etc / f"libvirt/storage/autostart/{name}.xml").symlink_to(file)


def add_libvirt_accounts(etc: pathlib.Path) -> None:
    """libvirt's QEMU driver does not start without these; Debian makes them in a package
    (libvirt-daemon-system) that would also start services on the machine."""
    groups = {line.split(":")[0] for line in lines(etc / "group")}
    with open(etc / "group", "a", encoding="utf-8") as file:
        for name, number in (("kvm", 64053), ("libvirt", 64054), ("libvirt-qemu", 64055)):
            if name not in groups:
                file.write(f"{name}:x:{number}:\n")
    if not any(line.startswith("libvirt-qemu:") for line in lines(etc / "passwd")):
        with open(etc / "passwd", "a", encoding="utf-8") as file:
            file.write("libvirt-qemu:x:64055:64055::/var/lib/libvirt:/usr/sbin/nologin\n")


def add_sudo_account(layout: Layout, host: Host, etc: pathlib.Path) -> None:
    """Make an account that may log in with the lab's key, and may use sudo for everything, without
    a password."""
    home = layout.disk(host) / "var" / SUDO_USER
    for folder in (home, home / ".ssh"):
        folder.mkdir(mode=0o700)
    install(layout.keys / "lab.pub", home / ".ssh/authorized_keys", 0o600)
    for path in (home, home / ".ssh", home / ".ssh/authorized_keys"):
        os.chown(path, 64100, 64100)
    for file, line in (
        ("passwd", f"{SUDO_USER}:x:64100:64100::/var/{SUDO_USER}:/bin/sh"),
        ("group", f"{SUDO_USER}:x:64100:"),
        ("shadow", f"{SUDO_USER}:*:20000:0:99999:7:::"),
    ):
        with open(etc / file, "a", encoding="utf-8") as accounts:
            accounts.write(f"{line}\n")
    write(
        etc / "sudoers", f"root ALL=(ALL:ALL) ALL\n{SUDO_USER} ALL=(ALL:ALL) NOPASSWD: ALL\n", 0o440
    )


def lines(file: pathlib.Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def write(file: pathlib.Path, text: str, mode: int = 0o644) -> None:
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)


def install(source: pathlib.Path, target: pathlib.Path, mode: int) -> None:
    write(target, source.read_text(encoding="utf-8"), mode)
