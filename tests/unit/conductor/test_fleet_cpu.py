# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The CPU of the fleet: made of all hosts of a group, kept, and never lowered automatically."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    Unreachable,
)
from ansible_collections.drover.compute.plugins.plugin_utils._conductor.fleet_cpu import FleetCpus
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.tests.unit.store import fleets

OLD, NEW = ["aes", "avx"], ["aes", "avx", "avx2"]


def model(features, **more):
    return {
        "arch": "x86_64",
        "type": "kvm",
        "vendor": "Intel",
        "model": "Broadwell",
        "features": features,
        **more,
    }


def host(name, found, version=7002000, **more):
    facts = {
        "hypervisor_hostname": name,
        "hypervisor_type": "QEMU",
        "hypervisor_version": version,
        "uri": "qemu:///system",
    }
    cpu = {"arch": "x86_64", "count": 4}
    return {
        "host": name,
        "hypervisor": {**facts, "cpu": cpu, "memory_mb": 4096, "domains": [], "host_model": found},
        **more,
    }


class Hosts:
    """Hypervisors that compute a CPU with exactly the given features."""

    def __init__(self, answer=None, silent=()):
        self.calls, self.answer, self.silent = [], answer, silent

    def hand(self, name, limit=None):
        hosts = self

        class Hand:
            def read(self, module, args):
                if name in hosts.silent:
                    raise Unreachable(name, "no route")
                hosts.calls.append((name, module, args["features"]))
                cpu = {
                    "vendor": "Intel",
                    "model": "Nehalem",
                    "policies": {"vme": "require"},
                    "features": args["features"],
                }
                return hosts.answer or {"cpu": cpu}

        return Hand()


def cpus(url, hosts=None, check_mode=False):
    return FleetCpus(Store.open(url, check_mode=check_mode), hosts or Hosts())


def kept(url):
    return [(each["model"], each["hosts"], each["lacking"]) for each in cpus(url).listing()]


def test_it_is_made_once_of_all_hosts_on_one_with_the_oldest_qemu(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", model(NEW), 9000000),
        host("kvm2", model(OLD)),
        host("amd", model(["svm"], vendor="AMD"), 6000000),
    )
    hosts = Hosts()
    cpu = cpus(prepared_url, hosts).of_guest("kvm1", "qemu:///system", "kvm")
    assert cpu == {
        "mode": "custom",
        "model": "Nehalem",
        "vendor": "Intel",
        "features": {"vme": "require"},
    }
    assert cpus(prepared_url, hosts).of_guest("kvm2", None, "kvm") == cpu
    assert hosts.calls == [("kvm2", "_cpu_baseline", OLD)]
    assert kept(prepared_url) == [("Nehalem", ["kvm1", "kvm2"], {})]


def test_a_host_that_comes_later_and_lacks_something_is_named_and_lowers_nothing(prepared_url):
    fleets.discover(prepared_url, host("kvm1", model(NEW)))
    cpus(prepared_url).of_guest("kvm1", None, "kvm")
    fleets.discover(prepared_url, host("kvm2", model(OLD)))
    with pytest.raises(
        DroverError,
        match=r"kvm2 lacks avx2 of the CPU of the fleet \(Nehalem\)\..*drover_fleet_cpu_renew=true",
    ):
        cpus(prepared_url).of_guest("kvm2", None, "kvm")
    assert kept(prepared_url) == [("Nehalem", ["kvm1"], {"kvm2": ["avx2"]})]
    cpus(prepared_url, check_mode=True).renewed()
    assert kept(prepared_url) == [("Nehalem", ["kvm1"], {"kvm2": ["avx2"]})]
    renewed = cpus(prepared_url).renewed()
    assert kept(prepared_url) == [("Nehalem", ["kvm1", "kvm2"], {})]
    assert cpus(prepared_url).renewed() == renewed
    cpus(prepared_url).of_guest("kvm2", None, "kvm")


def test_what_is_kept_for_hosts(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", model(NEW)),
        host("kvm2", model(OLD)),
        host("kvm3", model(NEW), cell="b"),
        host("kvm4", None, cell="c"),
    )
    assert cpus(prepared_url).kept_for(["kvm1"]) == {}
    cpu = cpus(prepared_url).of_guest("kvm1", None, "kvm")
    assert cpus(prepared_url).kept_for(["kvm1", "kvm2", "kvm3", "kvm4", "kvm9", ""]) == {
        "kvm1": cpu,
        "kvm2": cpu,
    }
    assert cpus(prepared_url).kept_for(["kvm2"]) == {"kvm2": cpu}


def test_one_without_hosts_is_forgotten(prepared_url):
    fleets.discover(prepared_url, host("kvm1", model(NEW)))
    cpus(prepared_url).of_guest("kvm1", None, "kvm")
    fleets.discover(prepared_url, host("kvm1", model(["svm"], vendor="AMD")))
    assert cpus(prepared_url).renewed() == [] and kept(prepared_url) == []


def test_cells_have_cpus_of_their_own(prepared_url):
    fleets.discover(
        prepared_url, host("kvm1", model(NEW), cell="a"), host("kvm2", model(OLD), cell="b")
    )
    hosts = Hosts()
    cpus(prepared_url, hosts).of_guest("kvm1", None, "kvm")
    cpus(prepared_url, hosts).of_guest("kvm2", None, "kvm")
    assert hosts.calls == [("kvm1", "_cpu_baseline", NEW), ("kvm2", "_cpu_baseline", OLD)]


def test_another_host_with_the_same_qemu_is_asked_where_one_is_silent(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", model(NEW)),
        host("kvm2", model(OLD)),
        host("kvm3", model(NEW), 9000000),
    )
    hosts = Hosts(silent=("kvm1",))
    cpus(prepared_url, hosts).of_guest("kvm1", None, "kvm")
    assert [name for name, *dummy in hosts.calls] == ["kvm2"]
    fleets.empty(prepared_url)
    fleets.discover(prepared_url, host("kvm1", model(NEW)), host("kvm3", model(NEW), 9000000))
    with pytest.raises(
        DroverError,
        match=(
            "oldest QEMU, and none of these answers: Host kvm1 cannot be reached: no route."
            " Start one"
        ),
    ):
        cpus(prepared_url, hosts).of_guest("kvm3", None, "kvm")
    assert kept(prepared_url) == []


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            {"failed": True, "msg": "libvirt finds no CPU model."},
            "cannot be determined on kvm1: libvirt finds no CPU model.",
        ),
        ({"cpu": None}, "The CPU that kvm1 found must be a mapping"),
        ({"cpu": {"model": "<x>"}}, "The CPU that kvm1 found must be a mapping"),
        (
            {"cpu": {"vendor": None, "model": "EPYC", "policies": {}, "features": [*NEW, "svm"]}},
            "the nearest is EPYC, with svm. Give",
        ),
    ],
)
def test_answers_that_are_no_cpu_for_all_are_not_kept(prepared_url, answer, words):
    fleets.discover(prepared_url, host("kvm1", model(NEW)))
    with pytest.raises(DroverError, match=words):
        cpus(prepared_url, Hosts(answer)).of_guest("kvm1", None, "kvm")
    assert kept(prepared_url) == []


def test_hosts_that_have_not_said_it_are_not_left_out(prepared_url):
    fleets.discover(prepared_url, host("kvm1", model(NEW)), host("kvm2", None))
    for name in ("kvm1", "kvm2"):
        with pytest.raises(
            DroverError,
            match="does not have what guests of kvm2 can have. Run drover.compute.discover",
        ):
            cpus(prepared_url).of_guest(name, None, "kvm")
    with pytest.raises(DroverError, match="kvm9 is none: run drover.compute.discover"):
        cpus(prepared_url).of_guest("kvm9", None, "kvm")


def test_a_guest_of_another_type_brings_its_own(prepared_url):
    fleets.discover(prepared_url, host("kvm1", model(NEW)))
    with pytest.raises(
        DroverError,
        match=(
            "cpu: fleet is the CPU of kvm guests on kvm1, and the domain_type of this one is qemu"
        ),
    ):
        cpus(prepared_url).of_guest("kvm1", None, "qemu")


def test_it_is_made_of_chosen_hosts(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", model(NEW)),
        host("kvm2", model(OLD)),
        host("kvm3", model(NEW)),
        host("amd", model(["svm"], vendor="AMD")),
    )
    # None is kept yet.
    cpus(prepared_url, check_mode=True).renewed(["kvm1", "kvm3"])
    assert kept(prepared_url) == []
    cpus(prepared_url).renewed(["kvm1", "kvm3"])
    assert kept(prepared_url) == [("Nehalem", ["kvm1", "kvm3"], {"kvm2": ["avx2"]})]
    # The CPUs of other groups stay.
    cpus(prepared_url).renewed(["amd"])
    assert [each[1] for each in kept(prepared_url)] == [["amd"], ["kvm1", "kvm3"]]
    with pytest.raises(
        DroverError,
        match=(
            r"The store has no host kmv1 with QEMU \(did you mean kvm1\?\)\. The CPU of the fleet"
            r" is what it was"
        ),
    ):
        cpus(prepared_url).renewed(["kmv1", "kvm2"])
    assert [each[1] for each in kept(prepared_url)] == [["amd"], ["kvm1", "kvm3"]]
    before = cpus(prepared_url).listing()
    assert cpus(prepared_url).renewed(["kvm3", "kvm1"]) == before
