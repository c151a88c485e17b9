# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The lab itself: its promises about the machine, its power and its robustness.

The tests use a separate lab beside the checkout's: the two cannot disturb each other.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import time
import typing

import pytest
from lablib import storage
from test_fleet import descendants

LAB = pathlib.Path(__file__).with_name("lab")


def machine() -> dict[str, object]:
    """Return the resources of the machine that a lab might leave behind."""

    def lines(*words: str) -> list[str]:
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()

    return {
        "mounts": sorted(lines("findmnt", "--noheadings", "--output", "TARGET,SOURCE,OPTIONS")),
        "links": sorted(line.split()[0] for line in lines("ip", "-br", "link")),
        "namespaces": sorted(line for line in lines("lsns", "--noheadings", "--output", "NS,TYPE")),
        "named namespaces": lines("ip", "netns", "list"),
        "/etc": sorted(
            (path.name, path.lstat().st_mtime_ns) for path in pathlib.Path("/etc").iterdir()
        ),
        "/srv": sorted(os.listdir("/srv")),
        "libvirt": os.path.exists("/run/libvirt"),
        "state of services": sorted(
            os.fspath(path)
            for folder in ("lib", "log")
            for path in pathlib.Path("/var", folder).glob("*/*")
        ),
        "/run": sorted(os.listdir("/run")),
    }


def loop_devices() -> list[str]:
    """Return the loop devices of the machine, each with its file."""
    listed = subprocess.run(
        ["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"],
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.splitlines()


def namespaces_of(pids: typing.Iterable[int | str]) -> set[str]:
    """Return the namespaces of processes."""
    namespaces = set()
    for pid in pids:
        for kind in ("net", "mnt", "uts", "ipc", "pid"):
            with contextlib.suppress(OSError):
                namespaces.add(os.readlink(f"/proc/{pid}/ns/{kind}"))
    return namespaces


def words_of(pid: int | str) -> str:
    """Return the command line of a process; nothing without a process."""
    try:
        return (
            pathlib.Path("/proc", str(pid), "cmdline")
            .read_bytes()
            .decode("utf-8", "replace")
            .replace("\0", " ")
        )
    except OSError:
        return ""


def processes(folder: pathlib.Path) -> list[str]:
    """Return command lines of the processes of a lab's folder."""
    found = [words_of(path.name) for path in pathlib.Path("/proc").glob("[0-9]*")]
    return [words for words in found if os.fspath(folder) in words]


class OwnLab:
    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def popen(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [LAB, "--folder", self.folder, *words],
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __call__(self, *words: str, status: int = 0, within: float = 120) -> str:
        process = self.popen(*words)
        said = process.communicate(timeout=within)[0]
        assert process.returncode == status, said
        return said


@pytest.fixture(name="own")
def own_lab(tmp_path):
    own = OwnLab(tmp_path / "a lab")  # with a blank, because a checkout's path may have one
    yield own
    own("down")


def test_down_leaves_nothing_behind(own):
    before = machine()
    own("up", "--hosts", "2")
    during = machine()
    own("exec", "kvm1", "sleep 1000 >/dev/null 2>&1 &")
    own("exec", "kvm2", "true")  # leaves a shared ssh connection
    assert processes(own.folder)
    own("down")
    assert processes(own.folder) == []
    assert machine() == before
    assert not own.folder.exists()
    for what in ("mounts", "links", "named namespaces", "/etc", "/srv", "libvirt"):
        assert during[what] == before[what], f"while the lab was up, the machine's {what} differed"


@pytest.mark.long
def test_down_leaves_nothing_of_any_storage_behind(own):
    """Each server runs, and hosts have its resources; afterwards no process, mount, loop device or
    file of it is left."""
    if missing := [
        name
        for name, server in storage.SERVERS.items()
        if not all(map(shutil.which, server.PROGRAMS))
    ]:
        pytest.skip(f"{', '.join(missing)}: not here. Run tests/setup/setup.sh storage.")
    before = machine()
    own("up", "--hosts", "1", "--with", ",".join(storage.SERVERS), within=300)
    switch = int(own("status").split("process ")[1].split(")")[0])
    inside = {pid: words_of(pid) for pid in (switch, *descendants(switch))}
    for server in (
        "ceph-mon",
        "ceph-osd",
        "ceph-mds",
        "tgtd",
        "glusterfsd",
        "nbdkit",
        "ganesha.nfsd",
        "rpcbind",
    ):
        assert any(
            words.split()[0].rpartition("/")[2] == server for words in inside.values() if words
        ), server
    assert own("exec", "kvm1", "vgs vms && findmnt /srv/cephfs && findmnt /srv/glusterfiles")
    during, namespaces = machine(), namespaces_of(inside) - namespaces_of([os.getpid()])
    assert namespaces and any(os.fspath(own.folder) in line for line in loop_devices())
    own("down")
    # The number may belong to another process by now.
    assert {pid: words for pid, words in inside.items() if words and words_of(pid) == words} == {}
    assert processes(own.folder) == []
    assert not any(os.fspath(own.folder) in line for line in loop_devices())
    assert namespaces_of(path.name for path in pathlib.Path("/proc").glob("[0-9]*")).isdisjoint(
        namespaces
    )
    assert list(own.folder.parent.glob(f"{own.folder.name}*")) == []
    after = machine()
    for what in (
        "mounts",
        "links",
        "named namespaces",
        "state of services",
        "/run",
        "/etc",
        "/srv",
        "libvirt",
    ):
        assert during[what] == before[what], f"while the lab was up, the machine's {what} differed"
        assert after[what] == before[what], f"after the lab, the machine's {what} differed"


def test_hosts_are_hosts_of_their_own(own):
    own("up", "--hosts", "2")
    uuids = set()
    for name, other in (("kvm1", "kvm2"), ("kvm2", "kvm1")):
        assert own("exec", name, "hostname; cat /etc/hostname").split() == [name, name]
        assert (
            own("exec", name, f"virsh -c qemu+ssh://root@{other}/system hostname") == f"{other}\n\n"
        )
        uuids.add(own("exec", name, "virsh capabilities | grep -m1 uuid"))
        assert "Read-only" in own("exec", name, "touch /usr/x", status=1)
    assert len(uuids) == 2
    own("exec", "kvm1", "echo hello > /srv/shared/hello; echo mine > /var/lib/libvirt/images/mine")
    assert own("exec", "kvm2", "cat /srv/shared/hello") == "hello\n"
    own("exec", "kvm2", "ls /var/lib/libvirt/images/mine", status=2)


def test_power_failure_and_power_on(own):
    own("up", "--hosts", "2")
    own("exec", "kvm1", "echo kept > /root/kept; echo lost > /run/lost")
    own("exec", "kvm1", "sleep 1000 >/dev/null 2>&1 &")
    assert own("kill", "kvm1") == "kvm1: killed\n"
    assert own("kill", "kvm1") == "kvm1: already off\n"
    assert "kvm1  10.99.0.11  off" in own("status")
    assert own("exec", "kvm2", "hostname") == "kvm2\n"
    assert own("start", "kvm1") == "kvm1: started\n"
    said = own("exec", "kvm1", "cat /root/kept; ls /run/lost; pgrep sleep", status=1)
    assert said.startswith("kept\n")
    own("kill", "kvm2")
    own("up")
    assert own("exec", "kvm2", "hostname") == "kvm2\n"


def test_up_again_changes_nothing(own):
    own("up", "--hosts", "1")
    first = own("exec", "kvm1", "cat /proc/sys/kernel/random/boot_id; stat -c %Y /proc/1")
    own("up")
    assert own("exec", "kvm1", "cat /proc/sys/kernel/random/boot_id; stat -c %Y /proc/1") == first
    assert "is up with 1 hosts" in own("up", "--hosts", "2", status=1)


def test_only_one_up_at_a_time(own):
    first = own.popen("up", "--hosts", "1")
    deadline = time.monotonic() + 30
    while not own.folder.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    said = own("up", "--hosts", "1", status=1)
    assert "Another command is at work on this lab" in said
    assert "lab --folder" in said
    assert first.wait(timeout=120) == 0
    first.stdout.close()


#: Shell commands that give a mount namespace another /dev/kvm; $1 is a working folder.
DEV_KVM = {
    "as the machine has it": "",
    "absent": (
        'mount -t tmpfs none "$1"; tar -C /dev --exclude ./kvm --exclude "./shm/*" --exclude'
        ' "./mqueue/*" -cf - . | tar -C "$1" -xf -; mount --move "$1" /dev'
    ),
    "opens and fails": "mount --bind /dev/zero /dev/kvm",
}

GUEST = """<domain type='%s'><name>guest</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='q35'>hvm</type></os></domain>"""


@pytest.mark.parametrize("kvm", DEV_KVM)
def test_guests_start_whatever_kvm_the_machine_has(own, tmp_path, kvm):
    has_kvm = os.path.exists("/dev/kvm")
    if kvm == "opens and fails" and not has_kvm:
        pytest.skip("this machine has no /dev/kvm that another device could cover")
    (tmp_path / "dev").mkdir()
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    own_again = [
        "setpriv",
        "--reuid",
        str(os.getuid()),
        "--regid",
        str(os.getgid()),
        "--init-groups",
    ]
    script = f'{DEV_KVM[kvm]}\nshift\nexec "$@"'
    done = subprocess.run(
        [
            *as_root,
            "unshare",
            "--mount",
            "sh",
            "-ec",
            script,
            "sh",
            tmp_path / "dev",
            *own_again,
            LAB,
            "--folder",
            own.folder,
            "up",
            "--hosts",
            "1",
        ],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    offered = own(
        "exec", "kvm1", r"virsh domcapabilities | sed -n 's:.*<domain>\(.*\)</domain>:\1:p'"
    ).strip()
    if kvm != "as the machine has it":
        assert offered == "qemu"
    hidden = [line for line in done.stdout.splitlines() if line.startswith("/dev/kvm is hidden")]
    assert len(hidden) == (has_kvm and kvm != "absent" and offered == "qemu")
    subprocess.run(
        [
            LAB,
            "--folder",
            own.folder,
            "exec",
            "kvm1",
            "cat > /root/guest.xml; virsh create /root/guest.xml",
        ],
        input=GUEST % offered,
        text=True,
        check=True,
        capture_output=True,
    )
    assert own("exec", "kvm1", "virsh domstate guest").strip() == "running"


@pytest.mark.parametrize(
    "seconds",
    [pytest.param(0.2, marks=pytest.mark.long), 0.5, pytest.param(0.8, marks=pytest.mark.long)],
)
def test_up_after_an_up_that_was_killed(own, seconds):
    first = own.popen("up", "--hosts", "2")
    time.sleep(seconds)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    first.stdout.close()
    own("up", "--hosts", "2")
    assert own("exec", "kvm2", "hostname") == "kvm2\n"


def test_the_switch_was_killed(own):
    own("up", "--hosts", "1")
    pid = int(own("status").split("process ")[1].split(")")[0])
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    subprocess.run([*as_root, "kill", "-KILL", str(pid)], check=True)
    assert own("status", status=3) == "The lab is down.\n"
    own("up", "--hosts", "1")
    assert own("exec", "kvm1", "hostname") == "kvm1\n"


def test_mistakes_are_told_in_plain_words(own, tmp_path):
    assert own("down") == "The lab is down.\n"
    assert "has no host 'kvm1'" in own("ssh", "kvm1", status=1)
    own.folder.mkdir()
    (own.folder / "thesis.txt").write_text("precious")
    assert "holds no lab; nothing was touched" in own("down", status=1)
    (own.folder / "thesis.txt").unlink()
