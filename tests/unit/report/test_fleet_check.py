# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The check's statements about a fleet, and about answers that cannot be read."""

from __future__ import annotations

import copy
import random

import pytest

from ansible_collections.drover.compute.plugins.filter._fleet_findings import fleet_findings
from ansible_collections.drover.compute.plugins.module_utils._host import check as _host_check

PC = "x86_64 pc-q35-7.2"
#: As libvirt 9.0 shows a running guest: a NIC in a network has its bridge too.
XML = """<domain type='kvm' id='3'><name>web</name><memory unit='KiB'>2097152</memory><os><type arch='x86_64' machine='pc-q35-7.2'>hvm</type></os><devices>
<disk type='network'><auth username='vms'><secret type='ceph' uuid='3d5a4b1c-0000-4000-8000-000000000001'/></auth>
<source protocol='rbd' name='vms/web'/></disk>
<disk type='volume'><source pool='fast' volume='web.qcow2'/></disk>
<interface type='network'><source network='lan' portid='x' bridge='virbr5'/></interface>
<interface type='bridge'><source bridge='br0'/></interface>
<interface type='direct'><source dev='eth1' mode='bridge'/></interface>
<interface type='user'/></devices></domain>"""


def host(*guests, **more):
    return {
        "machines": [PC],
        "security": ["apparmor"],
        "networks": ["default"],
        "interfaces": ["lo"],
        "pools": [],
        "pools_free_gib": {},
        "pools_stopped": [],
        "secrets": [],
        "nwfilters": [],
        "missing_drivers": [],
        "missing_pool_types": {},
        "pool_types": {},
        "guests": list(guests),
        "libvirt_version": 9000000,
        "hypervisor_version": 7002000,
        "kvm": True,
        "why_no_kvm": None,
        "free_gib": 10.0,
        "clock": 0.0,
        **more,
    }


def guest(name="web", **more):
    return {
        "name": name,
        "machine": PC,
        "networks": [],
        "interfaces": [],
        "pools": [],
        "secrets": [],
        **more,
    }


def check(answers, **more):
    hostvars = {
        name: {"check_looked": {"clock_bounds": [-0.5, 0.1], "host": each}}
        for name, each in answers.items()
    }
    for name, variables in more.items():
        hostvars.setdefault(name, {}).update(variables)
    found = fleet_findings(list(hostvars), hostvars)
    assert all(each["remedy"] and each["what"] for each in found["findings"])
    return found


def texts(found):
    return {(each["host"], each["severity"], each["what"]) for each in found["findings"]}


def test_a_healthy_fleet():
    found = check({"kvm1": host(guest(networks=["default"])), "kvm2": host()})
    assert found == {
        "findings": [],
        "errors": 0,
        "warnings": 0,
        "lines": ["2 hosts checked: nothing was found."],
    }


def test_what_a_guest_uses():
    assert _host_check.of_xml(XML) == {
        "name": "web",
        "memory_mib": 2048,
        "machine": PC,
        "networks": ["lan"],
        "interfaces": ["br0", "eth1"],
        "pools": ["fast"],
        "secrets": ["3d5a4b1c-0000-4000-8000-000000000001"],
        "nwfilters": [],
    }


@pytest.mark.parametrize(
    ("has", "uses", "value", "word"),
    [
        ("machines", "machine", "x86_64 pc-q35-8.0", "the machine type x86_64 pc-q35-8.0"),
        ("networks", "networks", "lan", "the network lan"),
        ("interfaces", "interfaces", "br0", "the bridge or interface br0"),
        ("pools", "pools", "fast", "the storage pool fast"),
        ("secrets", "secrets", "uuid", "the secret uuid"),
        ("nwfilters", "nwfilters", "clean", "the network filter clean"),
    ],
)
def test_what_guests_use_and_other_hosts_lack(has, uses, value, word):
    used = value if uses == "machine" else [value]
    there = host(guest("a", **{uses: used}), guest("b", **{uses: used}), **{has: [PC, value]})
    report = check({"kvm1": there, "kvm2": host(), "kvm3": host(**{has: [PC, value]})})
    assert texts(report) == {
        ("kvm2", "warning", f"it lacks {word}, which a, b use: no move to here")
    }
    assert (
        report["errors"] == 0 and report["lines"][-1] == "3 hosts checked: errors: 0, warnings: 1."
    )


def test_interfaces_of_another_machine_are_not_known():
    assert not check(
        {"kvm1": host(guest(interfaces=["br0"]), interfaces=["br0"]), "kvm2": host(interfaces=None)}
    )["findings"]


def test_what_is_wrong_with_a_host():
    report = check(
        {
            "kvm1": host(free_gib=0.2),
            "kvm2": host(kvm=False, hypervisor_version=6000000),
            "kvm3": host(security=["selinux"]),
        }
    )
    assert texts(report) == {
        ("kvm1", "error", "the folder of its instances has 0.2 GiB left"),
        ("kvm2", "warning", "it has no /dev/kvm, so that guests are emulated and slow"),
        (
            "kvm2",
            "warning",
            "it has QEMU 6.0.0, others have 7.2.0: an instance does not move from a newer"
            " to an older one",
        ),
        (
            "kvm3",
            "warning",
            (
                "its security driver is selinux, most hosts have apparmor: guests with a label of"
                " their own do not move between them"
            ),
        ),
    }
    assert report["lines"][0] == "error    kvm1: the folder of its instances has 0.2 GiB left."


def test_storage_pools_without_room_and_those_that_do_not_run():
    found = check({"kvm1": host(pools_free_gib={"iso": 0.0, "vms": 512.0}, pools_stopped=["ceph"])})
    assert texts(found) == {
        ("kvm1", "warning", "its storage pool iso has 0.0 GiB left"),
        ("kvm1", "warning", "its storage pool ceph starts with the host, but is stopped"),
    }


def test_kvm_with_which_no_guest_starts():
    report = check(
        {
            "kvm1": host(why_no_kvm="error: failed to set MSR 0x10a to 0x69."),
            "kvm2": host(kvm=False, why_no_kvm="no such file"),
        }
    )
    assert texts(report) == {
        ("kvm1", "error", "no guest starts with KVM: error: failed to set MSR 0x10a to 0x69"),
        ("kvm2", "warning", "it has no /dev/kvm, so that guests are emulated and slow"),
    }


GUESTS = (
    guest("large", memory_mib=65536),
    guest("small", memory_mib=1024),
    guest("off", memory_mib=None),
)


@pytest.mark.parametrize(
    ("options", "severity", "what"),
    [
        (
            {"bandwidth_mib": 1},
            "warning",
            (
                "with bandwidth_mib 1 of drover_migration, a migration of large can take longer"
                " than it may (800 s"
            ),
        ),
        (
            {"bandwidth_mib": 1, "timeout_per_gib": 500},
            "warning",
            "a migration of large, small can take longer than it may (500 s for each GiB)",
        ),
        ({"bandwidth_mib": 1, "timeout_per_gib": 1025}, None, None),
        ({"bandwidth_mib": 2}, None, None),
        ({"timeout_per_gib": 1}, None, None),
        ({}, None, None),
        (
            {"on_timeout": "post_copy"},
            "error",
            (
                "no migration can begin: The options: on_timeout is post_copy, but post_copy is not"
                " true"
            ),
        ),
        ({"bandwith_mib": 1}, "error", "did you mean bandwidth_mib?"),
        ("fast", "error", "drover_migration is no mapping"),
    ],
)
def test_time_limits_of_migrations(options, severity, what):
    report = check({"kvm1": host(*GUESTS)}, kvm1={"drover_migration": options})
    assert [(each["host"], each["severity"]) for each in report["findings"]] == (
        [("kvm1", severity)] if severity else []
    ), report
    assert all(what in each["what"] and each["remedy"] for each in report["findings"]), report


@pytest.mark.parametrize(
    ("bounds", "what"),
    [
        ([5.0, 6.0], "5 s ahead of"),
        ([-9.0, -8.0], "8 s behind"),
        ([-60.0, 1.0], None),
        ([1.9, 90], None),
    ],
)
def test_a_clock_is_wrong_only_for_certain(bounds, what):
    found = check({}, kvm1={"check_looked": {"clock_bounds": bounds, "host": host()}})
    assert texts(found) == (
        {("kvm1", "warning", f"its clock is at least {what} the controller's")} if what else set()
    )


@pytest.mark.parametrize(
    ("looked", "why"),
    [
        (
            {"msg": "Connecting to qemu:///system failed."},
            "it was not read: Connecting to qemu:///system failed",
        ),
        ({"unreachable": True, "msg": "no route to host"}, "it was not read: no route to host"),
        ({}, "it was not read: it gave no answer"),
        ({"host": 7}, "it was not read: its answer has no facts"),
        (
            {"host": {}},
            (
                "it was not read: its answer cannot be read (machines, security, networks, pools,"
                " pools_stopped, secrets, guests)"
            ),
        ),
        ({"host": host(pools=[{}])}, "it was not read: its answer cannot be read (a name)"),
        (
            {"host": host(missing_drivers=[{"driver": []}])},
            "it was not read: its answer cannot be read (missing_drivers)",
        ),
        (
            {"host": host(pool_types={"a": []})},
            "it was not read: its answer cannot be read (pool_types)",
        ),
        ({"host": host({"name": 3})}, "it was not read: its answer cannot be read (guests)"),
        (
            {"host": host(guest(networks={"a": 1}))},
            "it was not read: its answer cannot be read (guests)",
        ),
    ],
)
def test_a_host_that_was_not_read_is_a_line(looked, why):
    found = check({"kvm2": host()}, kvm1={"check_looked": looked})
    assert texts(found) == {("kvm1", "error", why)}
    assert texts(check({"kvm2": host()}, kvm1={})) == {
        ("kvm1", "error", "it was not read: it gave no answer")
    }


def test_connections_that_do_not_work():
    reach = {
        "tried": ["kvm2"],
        "unreached": ["kvm2"],
        "sentences": ["kvm1 cannot reach kvm2: no SSH key."],
    }
    report = check(
        {"kvm1": host()}, kvm1={"check_reach": reach, "check_root_reach": {"skipped": True}}
    )
    assert texts(report) == {("kvm1", "error", "kvm1 cannot reach kvm2: no SSH key")}
    report = check({"kvm1": host()}, kvm1={"check_reach": {"msg": "sudo: a password is required"}})
    assert texts(report) == {("kvm1", "error", "sudo: a password is required")}


def test_the_order_of_hosts_does_not_matter():
    draw = random.Random(5)
    answers = {
        f"kvm{number}": host(
            *(guest(f"g{number}{each}", networks=draw.sample(["a", "b"], 1)) for each in range(2)),
            networks=draw.sample(["a", "b"], draw.randrange(3)),
            security=draw.sample(["apparmor", "selinux"], 1),
            hypervisor_version=draw.choice([7002000, 8000000]),
        )
        for number in range(6)
    }
    expected = check(answers)
    for _dummy in range(20):
        mixed = list(answers)
        draw.shuffle(mixed)
        assert check(copy.deepcopy({name: answers[name] for name in mixed})) == expected


def test_what_many_hosts_have_is_one_entry():
    report = check(
        {
            "kvm1": host(guest(networks=["lan"]), networks=["lan"]),
            **{f"kvm{each}": host() for each in range(2, 300)},
        }
    )
    assert report["lines"] == [
        (
            "warning  kvm10, kvm100, kvm101 and 295 more: it lacks the network lan, which web uses:"
            " no move to here."
        ),
        (
            "           Define and start it there: virsh net-define, virsh net-start lan, virsh"
            " net-autostart lan."
        ),
        "299 hosts checked: errors: 0, warnings: 298.",
    ]


def compared(lacking=(), **names):
    return {"lacking": list(lacking), "names": names}


CPU = {
    "arch": "x86_64",
    "type": "kvm",
    "cpu": "<cpu mode='custom'><model>Cascadelake-Server</model></cpu>",
}


def test_guests_that_a_cpu_cannot_run():
    guests = host(guest("a", cpu=CPU), guest("b", cpu=dict(CPU)), guest("c", cpu=None))
    report = check(
        {"kvm1": guests, "kvm2": host(), "kvm3": host()},
        kvm1={"check_compared": compared()},
        kvm2={"check_compared": compared([CPU])},
        kvm3={"check_compared": compared()},
    )
    assert texts(report) == {
        ("kvm2", "warning", "its CPU lacks features that a, b use: no live move to here")
    }
    # A second look that failed gives no result.
    assert not check(
        {"kvm1": guests, "kvm2": host()}, kvm2={"check_compared": {"msg": "it broke"}}
    )["findings"]


def test_hosts_that_libvirt_takes_for_one():
    report = check(
        {
            "kvm1": host(hostname="a", host_uuid="u"),
            "kvm2": host(hostname="a", host_uuid="u"),
            "kvm3": host(hostname="kvm1"),
        }
    )
    assert any(
        line.startswith("error    kvm1, kvm2: they have the same host uuid u: ")
        for line in report["lines"]
    )
    assert texts(report) == {
        ("kvm1", "error", "they have the same host uuid u: libvirt refuses moves between them"),
        ("kvm2", "error", "they have the same host uuid u: libvirt refuses moves between them"),
        ("kvm1", "error", "they have the same host name a: libvirt refuses moves between them"),
        ("kvm2", "error", "they have the same host name a: libvirt refuses moves between them"),
        ("kvm3", "warning", "its host name is kvm1, which is another host of the inventory"),
    }


@pytest.mark.parametrize(
    ("given", "looked", "expected"),
    [
        ("10.1.0.1", {"addresses": ["10.1.0.1"], "silent": []}, None),
        (
            "m1",
            {"addresses": [], "silent": []},
            ("error", "its drover_migration_address m1 cannot be resolved (seen from kvm2, kvm3)"),
        ),
        (
            "m1",
            {"addresses": ["10.1.0.2"], "silent": []},
            (
                "error",
                (
                    "its drover_migration_address m1 is 10.1.0.2, which is no address of it (seen"
                    " from kvm2, kvm3)"
                ),
            ),
        ),
        (
            "10.1.0.1",
            {"addresses": ["10.1.0.1"], "silent": ["10.1.0.1"]},
            (
                "warning",
                "its drover_migration_address 10.1.0.1 does not answer (seen from kvm2, kvm3)",
            ),
        ),
        (
            None,
            {"addresses": [], "silent": []},
            (
                "warning",
                (
                    "its host name n1, to which guests are sent, cannot be resolved (seen from"
                    " kvm2, kvm3)"
                ),
            ),
        ),
        ("10.1.0.1", {"addresses": 5}, None),
    ],
)
def test_the_address_that_migrations_go_to(given, looked, expected):
    mine = {"drover_migration_address": given} if given else {}
    look = {"check_compared": compared(**{given or "n1": looked})}
    report = check(
        {"kvm1": host(hostname="n1", addresses=["10.1.0.1"]), "kvm2": host(), "kvm3": host()},
        kvm1=mine,
        kvm2=look,
        kvm3=look,
    )
    assert texts(report) == ({("kvm1", *expected)} if expected else set())


STORAGE = {"driver": "storage", "package": "libvirt-daemon-driver-storage", "daemon": None}
SECRET = {"driver": "secret", "package": "libvirt-daemon-driver-secret", "daemon": "virtsecretd"}


def test_a_missing_driver_is_named_with_what_it_costs_and_its_package():
    found = check({"kvm1": host(), "kvm2": host(missing_drivers=[STORAGE, SECRET])})
    assert found["errors"] == 0 and len(found["findings"]) == 2
    storage, secret = sorted(found["findings"], key=lambda each: each["what"], reverse=True)
    assert storage["host"] == "kvm2" and storage["what"].startswith(
        "its libvirt has no storage driver: no disk can be copied to it"
    )
    assert (
        storage["remedy"]
        == "Install libvirt-daemon-driver-storage there, and restart libvirtd (its guests run on)"
    )
    assert (
        secret["remedy"]
        == "Install libvirt-daemon-driver-secret there, and start it: systemctl enable --now"
        " virtsecretd.socket"
    )


@pytest.mark.parametrize(
    ("uses", "driver"),
    [
        ("networks", "network"),
        ("pools", "storage"),
        ("secrets", "secret"),
        ("nwfilters", "nwfilter"),
    ],
)
def test_what_a_host_cannot_have_for_lack_of_a_driver_is_not_to_be_defined_there(uses, driver):
    missing = [{"driver": driver, "package": "the-package", "daemon": None}]
    report = check(
        {
            "kvm1": host(guest(**{uses: ["x"]}), **{uses: ["x"]}),
            "kvm2": host(missing_drivers=missing),
            "kvm3": host(),
        }
    )
    remedies = {
        each["host"]: each["remedy"]
        for each in report["findings"]
        if "which web uses: no move to here" in each["what"]
    }
    assert remedies["kvm2"].startswith("Install the-package there") and remedies["kvm3"].startswith(
        "Define "
    )


def test_a_pool_whose_type_needs_a_package():
    types = {"rbd": "libvirt-daemon-driver-storage-rbd"}
    has = host(
        guest(pools=["vms", "fast"]),
        pools=["vms", "fast"],
        pool_types={"vms": "rbd", "fast": "dir"},
    )
    report = check(
        {
            "kvm1": has,
            "kvm2": host(missing_pool_types=types),
            "kvm3": host(missing_pool_types=types),
        }
    )
    # A type that is not needed is not named.
    assert len(report["findings"]) == 4
    remedies = {each["what"].partition(",")[0]: each["remedy"] for each in report["findings"]}
    assert remedies["it lacks the storage pool vms"].startswith(
        "Install libvirt-daemon-driver-storage-rbd there, restart libvirtd"
    )
    assert remedies["it lacks the storage pool fast"].startswith("Define and start it there")


def test_the_filters_of_a_guest():
    text = XML.replace(
        "<interface type='user'/>", "<interface type='user'><filterref filter='clean'/></interface>"
    )
    assert _host_check.of_xml(text)["nwfilters"] == ["clean"]


def test_f14_a_secret_of_which_libvirt_does_not_tell():
    secret = "3d5a4b1c-0000-4000-8000-000000000001"
    report = check(
        {
            "kvm1": host(guest("vault", secrets=[secret]), secrets=[secret]),
            "kvm2": host(secrets=[secret], secrets_unknown=[secret]),
        }
    )
    (finding,) = [each for each in report["findings"] if "secret" in each["what"]]
    assert (
        finding["host"] == "kvm2"
        and f"it is not known if the secret {secret}, which guests use, has a value there"
        in finding["what"]
    )
