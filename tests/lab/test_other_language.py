# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hosts with a libvirtd that speaks German: no decision may depend on its messages."""

from __future__ import annotations

import os
import pathlib
import shlex
import threading

import pytest
from test_fleet import LOCAL, Domain, said

from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._ownership import folder as _folder

pytestmark = pytest.mark.long

pytest_plugins = ["test_fleet"]

TRANSLATIONS = pathlib.Path("/usr/share/locale/de/LC_MESSAGES/libvirt.mo")
LOCALES = "/var/lib/drover-lab-locales"
START = (
    "kill -9 $(cat /run/libvirtd.pid); sleep 1; rm -f /run/libvirtd.pid; {} /usr/sbin/libvirtd -d"
    " && virsh list"
)


@pytest.fixture
def german(fleet):
    """Return the fleet, with libvirtd in German on all hosts."""
    if not TRANSLATIONS.exists() or not pathlib.Path("/usr/share/i18n/locales/de_DE").exists():
        pytest.skip(
            "the machine has no translations of libvirt: Debian's packages libvirt-l10n and locales"
        )
    locale = (
        f"mkdir -p {LOCALES}; [ -d {LOCALES}/de_DE.UTF-8 ] || localedef -i de_DE -f UTF-8"
        f" {LOCALES}/de_DE.UTF-8"
    )
    try:
        for host in fleet.hosts:
            fleet.run(
                host,
                f"{locale}; {START.format(f'env LOCPATH={LOCALES} LANG=de_DE.UTF-8 LANGUAGE=de')}",
            )
            # The messages come from libvirtd, and not from virsh.
            assert (
                "Pool" in (words := fleet.run(host, "virsh vol-list nothing 2>&1 || :"))
                and "gefunden" in words
            ), words
        yield fleet
    finally:
        for host in fleet.hosts:
            fleet.run(host, START.format("env"))


def test_f06_six_threads_on_a_temporary_pool(german):
    """Six moves need the same folder at the same moment: each makes the temporary pool, uses it and
    removes it."""
    fleet, folder, problems = german, f"{LOCAL}/six", []
    fleet.run("kvm2", f"mkdir -p {folder}")
    program = fleet.folder / "ssh"
    program.write_text(
        f'#!/bin/sh\nexec ssh -F {shlex.quote(os.fspath(fleet.lab.layout.ssh_config))} "$@"\n'
    )
    program.chmod(0o755)
    connections = [
        binding.open_connection(f"qemu+ssh://root@kvm2/system?command={program}")
        for _number in range(6)
    ]

    def work(number):
        try:
            pool_folder = _folder.Folder(connections[number], folder)
            for turn in range(3):
                name = f"six-{number}-{turn}"
                pool_folder.create(name, 1 << 20, "qcow2")
                assert pool_folder.stat(name) and pool_folder.drop(name), name
        except Exception as problem:
            problems.append(str(problem))

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert fleet.run("kvm2", f"ls -A {folder}") == "" and "drover-tmp-" not in fleet.run(
        "kvm2", "virsh pool-list --all --name"
    )


def test_f06_a_drain_of_local_disks(german):
    fleet = german
    folder = f"{LOCAL}/nowhere-declared"
    fleet.everywhere(f"mkdir -p {folder}")
    guests = [Domain(f"g{number}", folder=folder, size="16M", written_mb=4) for number in range(8)]
    fleet.make("kvm1", *guests)
    fleet.playbook("discover")
    done = fleet.drain("kvm1", drover_max_migrations=8, drover_instances_path=folder)
    assert fleet.run("kvm1", "virsh list --all --name").split() == [], said(done)
    assert {state for _host, state in fleet.settled().values()} == {"running"}
    for host in fleet.hosts:
        assert "drover-tmp-" not in fleet.run(host, "virsh pool-list --all --name")
