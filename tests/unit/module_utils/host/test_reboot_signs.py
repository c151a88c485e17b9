# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The need for a reboot of a host, from the output of the tools of its system; an unclear output is
never a no."""

from __future__ import annotations

import time
import types

import pytest

from ansible_collections.drover.compute.plugins.module_utils._files import system
from ansible_collections.drover.compute.plugins.module_utils._host import reboot_signs as signs

# The output of the programs, with their exit status: dnf-plugins-core 4, dnf5 5, zypper 1.14.
DNF4_YES = """Core libraries or services have been updated since boot-up:
  * glibc
  * kernel
  * kernel-core

Reboot is required to fully utilize these updates.
More information: https://access.redhat.com/solutions/27943
"""
DNF4_YES_UNREGISTERED = """Updating Subscription Management repositories.
Unable to read consumer identity

This system is not registered with an entitlement server. You can use "rhc" or "subscription-manager" to register.

""" + DNF4_YES.replace(
    "  * glibc\n",
    "  * dbus-broker\n  * glibc\n  * linux-firmware\n  * microcode_ctl\n  * systemd\n",
)
DNF_NO = (
    "No core libraries or services have been updated since boot-up.\nReboot should not be"
    " necessary.\n"
)
DNF4_NO_PLUGIN = (
    "No such command: needs-restarting. Please use /usr/bin/dnf --help\nIt could be a DNF plugin"
    ' command, try: "dnf install ..."\n'
)
DNF5_NO_PLUGIN = (
    'Unknown argument "needs-restarting" for command "dnf5". Add "--help" for more information'
    " about the arguments.\n"
)
DNF_NO_CACHE = "Error: Cache-only enabled but no cache for 'baseos'\n"
DNF5_LOADS = "Updating and loading repositories:\nRepositories loaded.\n" + DNF4_YES
ZYPPER_YES = (
    "Core libraries or services have been updated.\nReboot is required to ensure that your system"
    " benefits from these updates.\n"
)
ZYPPER_NO = "No core libraries or services have been updated.\nReboot is probably not necessary.\n"


@pytest.fixture(name="system")
def a_system(tmp_path, monkeypatch):
    """Return a function that makes a system: its name, and the output of its programs."""
    monkeypatch.setattr(
        signs, "FILES", (str(tmp_path / "reboot-required"), str(tmp_path / "reboot-needed"))
    )
    monkeypatch.setattr(signs, "MAKERS", (str(tmp_path / "maker"),))
    monkeypatch.setattr(system, "OS_RELEASE", str(tmp_path / "os-release"))
    monkeypatch.setattr(
        signs,
        "of_kernel",
        lambda: signs.RebootAnswer(None, "the running kernel 6.1 is not among the installed ones"),
    )
    ran = []

    def make(name, like="", **programs):
        (tmp_path / "os-release").write_text(
            f'NAME="A system"\nID="{name}"\nID_LIKE="{like}"\nVERSION_ID=9\n'
        )

        def run(program, *words):
            ran.append((program, *words))
            said = programs.get(program)
            return said(words) if callable(said) else said

        monkeypatch.setattr(signs, "_run_program", run)
        return types.SimpleNamespace(folder=tmp_path, ran=ran)

    return make


def said(status, output=""):
    return signs.ProgramEnd(status, output)


@pytest.mark.parametrize(
    ("answer", "needed", "word"),
    [
        (said(1, DNF4_YES), True, "says so: glibc, kernel, kernel-core"),
        (
            said(1, DNF4_YES_UNREGISTERED),
            True,
            "dbus-broker, glibc, linux-firmware, microcode_ctl, systemd ...",
        ),
        (said(1, DNF5_LOADS), True, "kernel-core"),
        (said(0, DNF_NO), False, "finds nothing"),
        # Every error of dnf has the exit status of a yes, and an error without the known words is
        # no no either.
        (
            said(1, DNF_NO_CACHE),
            None,
            "ended with status 1 (Error: Cache-only enabled but no cache for 'baseos')",
        ),
        (said(1, ""), None, "ended with status 1"),
        (said(0, ""), None, "ended with status 0"),
        (said(200, "Failed to obtain the transaction lock\n"), None, "status 200"),
        (said(None, "Updating and loading repositories:\n"), None, "did not end within 60 s"),
    ],
)
@pytest.mark.parametrize(
    ("name", "like"), [("almalinux", "rhel centos fedora"), ("fedora", ""), ("rhel", "fedora")]
)
def test_dnf(system, name, like, answer, needed, word):
    system(name, like, dnf=answer)
    found = signs.of_system()
    assert found.needed is needed and word in found.message


def test_dnf_is_asked_with_its_cache_first(system):
    fake = system(
        "fedora", dnf=lambda words: said(1, DNF_NO_CACHE) if words[0] == "-C" else said(0, DNF_NO)
    )
    assert signs.of_system().needed is False
    assert fake.ran == [("dnf", "-C", "needs-restarting", "-r"), ("dnf", "needs-restarting", "-r")]


@pytest.mark.parametrize("answer", [said(1, DNF4_NO_PLUGIN), said(2, DNF5_NO_PLUGIN), None])
def test_without_the_plugin_the_kernel_decides(system, monkeypatch, answer):
    system("rocky", "rhel centos fedora", dnf=answer)
    verdict = signs.of_system()
    assert (
        verdict.needed is None
        and "no tool here tells it. Install " in verdict.message
        and "dnf-utils" in verdict.message
    )
    monkeypatch.setattr(signs, "of_kernel", lambda: signs.RebootAnswer(False, "it is the newest"))
    assert signs.of_system() == (False, "it is the newest")


@pytest.mark.parametrize(
    ("answer", "needed"),
    [
        (said(102, ZYPPER_YES), True),
        (said(0, ZYPPER_NO), False),
        (said(2, "Unknown command 'needs-rebooting'\n"), None),
        (said(5, "Root privileges are required\n"), None),
        (said(7, "System management is locked by the application with pid 1 (zypper).\n"), None),
        (said(None), None),
    ],
)
@pytest.mark.parametrize(("name", "like"), [("opensuse-leap", "suse opensuse"), ("sles", "suse")])
def test_zypper(system, name, like, answer, needed):
    found = system(name, like, zypper=answer)
    assert signs.of_system().needed is needed and found.ran == [
        ("zypper", "--non-interactive", "needs-rebooting")
    ]


@pytest.mark.parametrize(("name", "like"), [("debian", ""), ("ubuntu", "debian")])
def test_debian_and_ubuntu(system, name, like):
    # Debian has both tools as packages, and they see no packages there.
    fake = system(name, like, dnf=said(0, DNF_NO), zypper=said(0, ZYPPER_NO))
    found = signs.of_system()
    assert found.needed is None and "unattended-upgrades" in found.message
    (fake.folder / "maker").touch()
    assert signs.of_system().needed is False
    (fake.folder / "reboot-required").touch()
    assert signs.of_system() == (True, f"{fake.folder}/reboot-required is there")
    assert fake.ran == []


def test_a_sign_that_says_yes_counts_whatever_others_say(system, monkeypatch):
    fake = system("fedora", dnf=said(0, DNF_NO))
    monkeypatch.setattr(signs, "of_kernel", lambda: signs.RebootAnswer(True, "a newer kernel"))
    assert signs.of_system() == (True, "a newer kernel")
    (fake.folder / "reboot-needed").touch()
    assert "reboot-needed" in signs.of_system().message


def test_what_is_seen_without_a_program(system, monkeypatch):
    made = system("fedora", dnf=signs.ProgramEnd(1, DNF4_YES))
    assert signs.seen() is None and made.ran == []
    monkeypatch.setattr(
        signs, "of_kernel", lambda: signs.RebootAnswer(True, "kernel 1 runs, and 2 is installed")
    )
    assert signs.seen() == "kernel 1 runs, and 2 is installed"
    (made.folder / "reboot-needed").touch()
    assert signs.seen() == f"{made.folder}/reboot-needed is there" and made.ran == []


def test_a_system_without_a_name(tmp_path, monkeypatch):
    monkeypatch.setattr(system, "OS_RELEASE", str(tmp_path / "none"))
    assert system.names() == set()


# -- the kernel ---------------------------------------------------------------------------------


@pytest.fixture(name="boot")
def a_boot_folder(tmp_path, monkeypatch):
    """Return a function that makes a host with kernels; one of them runs. ``booted``: seconds since
    the boot, counted from the time of the files."""
    monkeypatch.setattr(
        signs, "KERNELS", (str(tmp_path / "vmlinuz-*"), str(tmp_path / "modules/*/vmlinuz"))
    )
    monkeypatch.setattr(signs, "STAT", str(tmp_path / "stat"))

    def make(running, *installed, booted=-3600):
        for each in installed:
            (tmp_path / f"vmlinuz-{each}").touch()
        (tmp_path / "stat").write_text(
            f"cpu 1 2 3\nbtime {int(time.time() - booted)}\nprocesses 5\n"
        )
        monkeypatch.setattr(signs.os, "uname", lambda: types.SimpleNamespace(release=running))
        return tmp_path

    return make


# The running kernel, and a newer one that is installed besides.
NEWER = [
    ("6.1.0-9-amd64", ["6.1.0-28-amd64", "6.1.0-10-amd64"], "6.1.0-28-amd64"),
    ("6.1.0-28-amd64", ["6.12.41+deb13-amd64"], "6.12.41+deb13-amd64"),
    ("6.1.0-28-amd64", ["6.10.11+bpo-amd64"], "6.10.11+bpo-amd64"),
    ("6.8.0-49-generic", ["6.8.0-51-generic"], "6.8.0-51-generic"),
    ("5.14.0-503.el9.x86_64", ["5.14.0-503.9.1.el9_5.x86_64"], "5.14.0-503.9.1.el9_5.x86_64"),
    (
        "5.14.0-427.42.1.el9_4.x86_64",
        ["5.14.0-503.11.1.el9_5.x86_64"],
        "5.14.0-503.11.1.el9_5.x86_64",
    ),
    (
        "6.11.10-300.fc41.x86_64",
        ["6.12.4-200.fc41.x86_64", "6.12.4-200.fc40.x86_64"],
        "6.12.4-200.fc4",
    ),
    ("6.4.0-150600.23.25-default", ["6.4.0-150600.23.30-default"], "6.4.0-150600.23.30-default"),
    ("6.8.12-4-pve", ["6.8.12-10-pve"], "6.8.12-10-pve"),
]


@pytest.mark.parametrize(("running", "others", "newest"), NEWER)
def test_a_newer_kernel(boot, running, others, newest):
    boot(running, running, *others)
    found = signs.of_kernel()
    assert found.needed is True and f"kernel {running} runs, and {newest}" in found.message


@pytest.mark.parametrize(
    ("newest", "others", "dummy"),
    [(each[2], [each[0]], 0) for each in NEWER if not each[2].endswith("fc4")],
)
def test_the_newest_kernel(boot, newest, others, dummy):
    boot(newest, newest, "0-rescue-5f0c6a3e7d0c4c569f2e0f6d5a9b1c01", *others)
    assert signs.of_kernel() == (
        False,
        f"the running kernel {newest} is the newest that is installed",
    )


def test_a_newer_kernel_of_another_kind_proves_nothing(boot):
    for running, other in (
        ("6.1.0-9-amd64", "6.1.0-28-cloud-amd64"),
        ("5.14.0-427.el9.x86_64", "5.14.0-503.el9.x86_64+debug"),
    ):
        boot(running, running, other)
        assert signs.of_kernel().needed is None and "another kind" in signs.of_kernel().message


def test_a_kernel_that_was_replaced_since_the_boot(boot):
    """Debian replaces a kernel in place if its ABI is the same."""
    boot("6.1.0-28-amd64", "6.1.0-28-amd64", booted=3600)
    assert signs.of_kernel() == (
        True,
        "the file of the running kernel 6.1.0-28-amd64 has changed since the boot",
    )


def test_a_kernel_that_is_not_there(boot):
    boot("6.1.0-28-amd64", "6.1.0-9-amd64")
    assert signs.of_kernel().needed is None
    # An update may have removed the running kernel.
    folder = boot("6.1.0-28-amd64", "6.1.0-30-amd64")
    assert signs.of_kernel().needed is True
    (folder / "vmlinuz-6.1.0-30-amd64").unlink()
    (folder / "modules/6.1.0-31-amd64").mkdir(parents=True)
    (folder / "modules/6.1.0-31-amd64/vmlinuz").touch()
    assert "6.1.0-31-amd64 is installed" in signs.of_kernel().message


def test_without_the_time_of_the_boot(boot):
    (boot("6.1.0-28-amd64", "6.1.0-28-amd64") / "stat").write_text("cpu 1\n")
    assert signs.of_kernel().needed is None


# -- programs -----------------------------------------------------------------------------------


def test_a_program_that_hangs_is_given_up_with_its_children():
    began = time.monotonic()
    found = signs.run_bounded(["/bin/sh", "-c", "echo begun; sleep 60 & sleep 60"], 0.5)
    assert found.status is None and found.output == "begun\n" and time.monotonic() - began < 10


def test_a_program_speaks_english_and_does_not_ask(monkeypatch):
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    answer = signs.run_bounded(
        [
            "/bin/sh",
            "-c",
            "read x; echo $LC_ALL $LANGUAGE; head -c 200000 /dev/zero; echo err >&2; exit 3",
        ],
        20,
    )
    assert (
        answer.status == 3
        and answer.output.startswith("C C\n")
        and len(answer.output) == signs.MOST
    )


def test_files_of_the_operator(tmp_path):
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    assert signs.of_files([one]) == (False, f"{one} is not there")
    assert signs.of_files([one, two]).needed is False
    (tmp_path / "two").symlink_to("nowhere")
    assert signs.of_files([one, two]) == (True, f"{two} is there")
