# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""F16: a module reads the capabilities of a hypervisor once, for any number of guests. With a
broken KVM each answer takes libvirt seconds."""

from __future__ import annotations

import collections
import threading

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._libvirt import binding
from ansible_collections.drover.compute.plugins.module_utils._libvirt import calls as _libvirt_calls
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

GUESTS = 16


@pytest.fixture
def there(tmp_path, monkeypatch):
    fleet = hypervisors.Fleet(tmp_path / "hosts", monkeypatch)
    yield fleet
    fleet.close()


def counted(host, calls):
    """Count the calls that ask a host for its capabilities."""
    for name in _libvirt_calls.CAPABILITIES:
        ask = getattr(host.connection, name)

        def asked(*args, name=name, ask=ask):
            calls[host.name, name, args] += 1
            return ask(*args)

        setattr(host.connection, name, asked)


@pytest.mark.parametrize("destinations", [["kvm2"], ["kvm2", "kvm3"]])
def test_f16_each_host_is_asked_once_for_all_guests(there, destinations):
    moves = []
    for number in range(GUESTS):
        name, where = f"vm{number}", destinations[number % len(destinations)]
        there.hosts["kvm1"].define(name, uuid_of(name))
        uri = f"test+ssh://{where}/system"
        moves.append(
            {
                "uuid": uuid_of(name),
                "name": name,
                "destination": where,
                "destination_uri": uri,
                "live": True,
            }
        )
    calls = collections.Counter()
    for host in there.hosts.values():
        counted(host, calls)
    answers = there.run(
        "kvm1", "_domain_migration", {"uri": "test:///default", "check": True, "start": moves}
    )["moves"]
    assert len(answers) == GUESTS and [each["ok"] for each in answers] == [True] * GUESTS, answers[
        0
    ]
    assert {host for host, _name, _args in calls} == {"kvm1", *destinations}
    assert set(calls.values()) == {1}


def test_f16_an_answer_and_a_refusal_count_for_all_who_ask(monkeypatch):
    calls = collections.Counter()

    def answer(self, *args):
        calls[args] += 1
        if args[1] == "sparc":
            raise libvirt.libvirtError("no such emulator")
        return "<domainCapabilities/>"

    monkeypatch.setattr(libvirt.virConnect, "getDomainCapabilities", answer)
    conn = binding.open_connection("test:///default")
    try:
        answers = []

        def ask(arch):
            try:
                answers.append(conn.getDomainCapabilities(None, arch, None, "qemu", 0))
            except libvirt.libvirtError as exc:
                answers.append(str(exc))

        threads = [
            threading.Thread(target=ask, args=(arch,))
            for arch in ("x86_64", "sparc", "x86_64", "sparc", "aarch64")
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        binding.close(conn)
    assert sorted(answers) == ["<domainCapabilities/>"] * 3 + ["no such emulator"] * 2
    assert set(calls.values()) == {1} and len(calls) == 3


def test_f16_what_changes_is_asked_each_time(there):
    """Other calls reach libvirt each time."""
    conn = binding.open_connection("test:///default")
    try:
        before = len(conn.listAllDomains(0))
        conn.defineXML(hypervisors.xml("new", uuid_of("new")))
        assert len(conn.listAllDomains(0)) == before + 1
    finally:
        binding.close(conn)
