# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A resize of a pinned instance: the CPUs in its definitions at each moment, and the audit's
findings about them."""

from __future__ import annotations

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._domain.definition import (
    METADATA_NAMESPACE,
)
from ansible_collections.drover.compute.plugins.module_utils._domain.numa import parse_numa
from ansible_collections.drover.compute.plugins.module_utils._libvirt.xml import parse
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import flavors
from ansible_collections.drover.compute.tests.unit import hypervisors
from ansible_collections.drover.compute.tests.unit.action.running import run
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import uuid_of

#: Each host has the CPUs 0 and 2 for pinned guests. web has CPU 0 of kvm1. db has CPU 0 of kvm2, so
#: web gets CPU 2 there.
CPUS = {"kvm1": {0}, "kvm2": {2}}
FLAVORS = {"small": (1, 64), "large": (1, 128), "wide": (2, 128)}
METADATA = (
    "<drover:instance"
    f" xmlns:drover='{METADATA_NAMESPACE}'><drover:flavor>small</drover:flavor></drover:instance>"
)


@pytest.fixture
def there(prepared_url, tmp_path, monkeypatch):
    """Return the hypervisors: web and beside on kvm1, db on kvm2, each pinned to another CPU of its
    host."""
    fleet = hypervisors.Fleet(tmp_path / "hosts", monkeypatch)
    hypervisors.connect_actions(fleet, monkeypatch)
    fleet.variables.update(
        drover_cpu_dedicated_set="0,2", drover_cpu_shared_set="4", drover_reserved_host_cpus=0
    )
    for hypervisor in fleet.hosts.values():
        hypervisor.show_cells((0, 2, 4))
    for name, host, cpu in (("web", "kvm1", 0), ("beside", "kvm1", 2), ("db", "kvm2", 0)):
        fleet.hosts[host].connection.defineXML(
            hypervisors.xml(name, uuid_of(name), metadata=METADATA)
        ).create()
        fleet.hosts[host].pin(uuid_of(name), 1, cpu)
    with Store.open(prepared_url).write() as connection:
        for name, (vcpus, memory_mb) in FLAVORS.items():
            sizes = {
                "vcpus": vcpus,
                "memory_mb": memory_mb,
                "disk_gb": 0,
                "extra_specs": {"hw:cpu_policy": "dedicated"},
            }
            flavors.ensure(connection, name, sizes, fleets.NOW)
        flavors.ensure(
            connection, "floating", {"vcpus": 1, "memory_mb": 128, "disk_gb": 0}, fleets.NOW
        )
    for name in fleet.hosts:
        discover(fleet, prepared_url, name)
    yield fleet
    fleet.close()


def on(there, target, module, url, **args):
    return run(module, {"inventory_hostname": target, **there.variables}, store_url=url, **args)


def discover(there, url, host):
    on(there, host, "compute_node", url)


def resize(there, url, **more):
    return on(
        there, "localhost", "instance_resize", url, instances=["web"], timeout=1, force=True, **more
    )


def pinned(there, host, name="web"):
    """Return the CPUs in the definition of a domain, and the CPUs on which it runs; None if the
    host does not have it."""
    domain = there.hosts[host].domains().get(uuid_of(name))
    if domain is None:
        return None
    pinned_cpus = set()
    for flag in (0, libvirt.VIR_DOMAIN_XML_INACTIVE):
        numa = parse_numa(parse(domain.XMLDesc(flag))) or {}
        pinned_cpus |= {cpu for cpus in (numa.get("vcpu_pins") or {}).values() for cpu in cpus}
        pinned_cpus |= {*(numa.get("emulator_pins") or ()), *(numa.get("cpuset") or ())}
    return pinned_cpus


def watch(there):
    """After each change by libvirt, record the CPUs of web on both hosts."""
    seen = set()

    def look(*dummy):
        seen.update(
            (host, *sorted(found))
            for host in CPUS
            for found in [pinned(there, host)]
            if found is not None
        )

    there.libvirt_answers.append(look)
    return seen


def killed(there, monkeypatch, moment, work):
    """Carry out the work until its run is killed: before or after one call of a module that changes
    something. The calls count from 1."""
    when, number = moment
    calls = []

    def hook(host, module, rest):
        if not there.calls[-1][3]:
            calls.append(module)
            if len(calls) == number:
                raise KeyboardInterrupt

    monkeypatch.setattr(there, when, [hook])
    with pytest.raises(KeyboardInterrupt):
        work()
    monkeypatch.setattr(there, when, [])


def findings(url, kind):
    return [
        each for each in run("store_audit_info", store_url=url)["findings"] if each["kind"] == kind
    ]


def test_each_host_sees_only_the_cpus_that_are_claimed_there(there, prepared_url):
    seen = watch(there)
    resize(there, prepared_url, flavor="large", host="kvm2")
    assert there.where()["web"] == [("kvm2", "running")] and pinned(there, "kvm2") == {2}
    domain = there.hosts["kvm2"].domains()[uuid_of("web")]
    assert domain.maxMemory() == 128 * 1024
    resize(there, prepared_url, ending="revert")
    assert there.where()["web"] == [("kvm1", "running")] and pinned(there, "kvm1") == {0}
    assert there.hosts["kvm1"].domains()[uuid_of("web")].maxMemory() == 64 * 1024
    assert seen == {("kvm1", 0), ("kvm2", 2)}


def test_one_that_has_the_size_needs_no_room_for_both(there, prepared_url):
    resize(there, prepared_url, flavor="large", host="kvm2", ending="confirm")
    assert (
        resize(there, prepared_url, flavor="large", host="kvm2", ending="confirm")["changed"]
        is False
    )


@pytest.mark.parametrize(
    ("flavor", "host", "there_then"),
    [("large", "kvm2", {2}), ("wide", "kvm3", {0, 2}), ("floating", "kvm2", {4})],
)
@pytest.mark.parametrize("moment", [("after", 1), ("before", 2), ("after", 2), ("before", 3)])
def test_a_resize_that_is_killed_leaves_no_foreign_cpus(
    there, prepared_url, monkeypatch, moment, flavor, host, there_then
):
    killed(
        there, monkeypatch, moment, lambda: resize(there, prepared_url, flavor=flavor, host=host)
    )
    assert pinned(there, "kvm1") in (None, {0})
    assert pinned(there, host) in (None, there_then)
    for each in there.hosts:
        discover(there, prepared_url, each)
    assert findings(prepared_url, "pins_unclaimed") == []
    resize(there, prepared_url, flavor=flavor, host=host)
    assert pinned(there, host) == there_then
    domain = there.hosts[host].domains()[uuid_of("web")]
    assert (domain.maxVcpus(), domain.maxMemory() // 1024) == FLAVORS.get(flavor, (1, 128))
    resize(there, prepared_url, ending="revert")
    assert there.where()["web"] == [("kvm1", "running")] and pinned(there, "kvm1") == {0}


def test_the_audit_names_foreign_cpus_of_a_guest_that_is_resized(there, prepared_url, monkeypatch):
    killed(
        there,
        monkeypatch,
        ("after", 1),
        lambda: resize(there, prepared_url, flavor="large", host="kvm2"),
    )
    domain = there.hosts["kvm1"].domains()[uuid_of("web")]
    there.hosts["kvm1"].connection.defineXML(
        domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE).replace("cpuset='0'", "cpuset='2'")
    )
    discover(there, prepared_url, "kvm1")
    (found,) = findings(prepared_url, "pins_unclaimed")
    assert (found["name"], found["host"]) == ("web", "kvm1")
    assert (
        found["why"]
        == "It is pinned to CPU 2 of kvm1, not claimed for it there, while its migration from kvm1"
        " to kvm2 is open. CPU 2 is claimed for beside."
    )
