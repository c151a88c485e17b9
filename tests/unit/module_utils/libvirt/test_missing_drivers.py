# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Drivers that libvirt lacks. Its test driver really has none for secrets and network filters, and
answers as a libvirt for QEMU without these drivers does."""

from __future__ import annotations

import errno

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._host import reboot_signs
from ansible_collections.drover.compute.plugins.module_utils._images import rbd_images
from ansible_collections.drover.compute.plugins.module_utils._libvirt import (
    binding,
    drivers,
    missing_drivers,
)
from ansible_collections.drover.compute.plugins.module_utils._ownership.needs import Needs
from ansible_collections.drover.compute.plugins.module_utils._storage import block_volumes, sources
from ansible_collections.drover.compute.tests.unit.module_utils.faraway import refuse

UUID = "00000000-0000-4000-8000-000000000001"
HERE = binding.host_name()


@pytest.fixture
def conn(monkeypatch):
    """A connection to a hypervisor whose drivers may be missing."""
    monkeypatch.setattr(missing_drivers, "_HYPERVISORS", ("TEST",))
    monkeypatch.setattr(reboot_signs, "system", lambda: {"debian"})
    made = binding.open_connection("test:///default")
    yield made
    binding.close(made)


def absent(*_arguments):
    """Raise the error of a split daemon without the daemon of another driver, as seen with
    virtqemud 9.0."""
    problem = libvirt.libvirtError(
        "Failed to connect socket to '/var/run/libvirt/virtstoraged-sock': No such file or"
        " directory"
    )
    text = problem.args[0]
    problem.err = (
        libvirt.VIR_ERR_SYSTEM_ERROR,
        libvirt.VIR_FROM_RPC,
        text,
        2,
        "%s",
        text,
        None,
        errno.ENOENT,
        -1,
    )
    raise problem


def test_the_missing_ones_are_found_by_one_call_each(conn, monkeypatch):
    monkeypatch.setattr(libvirt.virConnect, "getLibVersion", lambda _self: 11_003_000)
    # Debian 13 without the packages that it does not install by default.
    text = (
        "<storagepoolCapabilities><pool type='dir' supported='yes'/><pool type='rbd'"
        " supported='no'/></storagepoolCapabilities>"
    )
    monkeypatch.setattr(
        libvirt.virConnect, "getStoragePoolCapabilities", lambda _self, _flags: text
    )
    calls = []
    for driver in drivers.DRIVERS.values():
        called = getattr(libvirt.virConnect, driver.probe)
        monkeypatch.setattr(
            libvirt.virConnect,
            driver.probe,
            lambda *given, called=called: calls.append(1) or called(*given),
        )
    answer = missing_drivers.read(conn, True)
    assert answer["missing_drivers"] == [
        {"driver": "secret", "package": "libvirt-daemon-driver-secret", "daemon": None},
        {"driver": "nwfilter", "package": "libvirt-daemon-driver-nwfilter", "daemon": None},
    ]
    assert answer["missing_pool_types"] == {"rbd": "libvirt-daemon-driver-storage-rbd"}
    assert len(calls) == len(drivers.DRIVERS) == 6


def test_a_daemon_without_socket_is_a_missing_driver(conn, monkeypatch):
    monkeypatch.setattr(libvirt.virConnect, "numOfStoragePools", absent)
    monkeypatch.setattr(libvirt.virConnect, "listAllStoragePools", absent)
    storage = missing_drivers.read(conn, True)["missing_drivers"][0]
    assert (storage["driver"], storage["daemon"]) == ("storage", "virtstoraged")
    assert drivers.remedy(storage).endswith(
        " there, and start it: systemctl enable --now virtstoraged.socket"
    )
    with pytest.raises(
        libvirt.libvirtError,
        match=f"^libvirt on {HERE} has no storage driver: install .*virtstoraged.socket$",
    ):
        conn.listAllStoragePools(0)


def test_other_trouble_is_not_a_missing_driver(conn, monkeypatch):
    def denied(*_arguments):
        refuse(libvirt.VIR_ERR_ACCESS_DENIED, "access denied")

    monkeypatch.setattr(libvirt.virConnect, "numOfStoragePools", denied)
    monkeypatch.setattr(libvirt.virConnect, "listAllStoragePools", denied)
    assert "storage" not in {
        each["driver"] for each in missing_drivers.read(conn, True)["missing_drivers"]
    }
    with pytest.raises(libvirt.libvirtError, match="^access denied$"):
        missing_drivers.listed(conn.listAllStoragePools, 0)


def test_a_call_that_needs_it_names_host_driver_package_and_what_to_do(conn, monkeypatch):
    monkeypatch.setattr(libvirt.virConnect, "getLibVersion", lambda _self: 11_003_000)
    with pytest.raises(libvirt.libvirtError) as problem:
        conn.secretLookupByUUIDString(UUID)
    words = (
        f"libvirt on {HERE} has no secret driver: install libvirt-daemon-driver-secret there, and"
        " restart libvirtd (its guests run on)"
    )
    assert binding.text_of(problem.value) == words
    assert binding.code_of(problem.value) == libvirt.VIR_ERR_NO_SUPPORT
    text = (
        "<domain><devices><disk><auth><secret type='ceph'"
        f" uuid='{UUID}'/></auth></disk></devices></domain>"
    )
    assert sources.missing_secrets(conn, text, "kvm2") == [
        f"libvirt of kvm2 does not tell about the secret {UUID} (ceph): {words}"
    ]


def test_a_guest_that_cannot_start_without_one_says_so_too(conn, monkeypatch):
    def refused(*_arguments):
        problem = libvirt.libvirtError("no connection driver available for nwfilter:///system")
        text, name = problem.args[0], "nwfilter:///system"
        problem.err = (
            libvirt.VIR_ERR_NO_CONNECT,
            0,
            text,
            2,
            "no connection driver available for %s",
            name,
            None,
            -1,
            -1,
        )
        raise problem

    monkeypatch.setattr(libvirt.virDomain, "create", refused)
    with pytest.raises(
        libvirt.libvirtError,
        match=(
            rf"available for nwfilter:///system \(libvirt on {HERE} has no nwfilter driver:"
            r" install "
        ),
    ):
        conn.lookupByName("test").create()


def test_a_call_that_a_driver_does_not_have_is_no_missing_driver(conn):
    # The test driver has storage, but not this call.
    with pytest.raises(libvirt.libvirtError, match="not supported by the connection driver"):
        conn.getStoragePoolCapabilities(0)
    assert missing_drivers.read(conn, True)["missing_pool_types"] is None


def test_hypervisors_with_all_built_in_lack_nothing(monkeypatch):
    made = binding.open_connection("test:///default")
    assert missing_drivers.read(made, True) == {"missing_drivers": [], "missing_pool_types": None}
    with pytest.raises(libvirt.libvirtError, match="not supported by the connection driver"):
        made.listAllSecrets(0)
    binding.close(made)


def test_what_does_not_need_it_goes_on(conn, monkeypatch):
    assert (
        missing_drivers.listed(conn.listAllSecrets, 0)
        == missing_drivers.listed(conn.listAllNWFilters, 0)
        == ()
    )
    monkeypatch.setattr(libvirt.virConnect, "listAllStoragePools", absent)
    assert block_volumes.at(conn, "/dev/vg/lv") is None
    assert rbd_images.kept(conn) == []


@pytest.mark.parametrize("installed", [False, True])
def test_a_daemon_that_only_does_not_run_may_know_of_pools(conn, monkeypatch, tmp_path, installed):
    monkeypatch.setattr(libvirt.virConnect, "numOfStoragePools", absent)
    monkeypatch.setattr(libvirt.virConnect, "listAllStoragePools", absent)
    monkeypatch.setattr(missing_drivers, "_PROGRAMS", (str(tmp_path),))
    if installed:
        (tmp_path / "virtstoraged").touch(0o755)
    doubts = [
        each
        for each in Needs(conn).doubts()
        if "the storage pools of this host cannot be read" in each
    ]
    assert [f"libvirt on {HERE} has no storage driver" in each for each in doubts] == (
        [True] if installed else []
    )


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in dir(libvirt.virConnect)
        if name.startswith(("storage", "nodeDevice", "secret", "network", "nwfilter"))
    ],
)
def test_each_call_belongs_to_its_driver(name):
    if "Event" in name:
        return
    (found,) = [driver for driver, each in drivers.DRIVERS.items() if each.calls.fullmatch(name)]
    assert name.lower().startswith(found.replace("nodedev", "nodedevice"))


@pytest.mark.parametrize(
    "name", [name for name in dir(libvirt.virDomain) if not name.startswith("_")]
)
def test_no_call_of_a_domain_belongs_to_one(name):
    assert not [driver for driver, each in drivers.DRIVERS.items() if each.calls.fullmatch(name)]


@pytest.mark.parametrize(
    ("name", "version", "systems", "package"),
    [
        ("storage", 9_000_000, {"debian"}, "libvirt-daemon"),
        ("storage-rbd", 9_000_000, {"debian"}, "libvirt-daemon-driver-storage-rbd"),
        ("storage-logical", 9_000_000, {"ubuntu", "debian"}, "libvirt-daemon"),
        ("storage", 11_003_000, {"debian"}, "libvirt-daemon-driver-storage"),
        ("storage-fs", 11_003_000, {"debian"}, "libvirt-daemon-driver-storage"),
        ("storage-logical", 11_003_000, {"debian"}, "libvirt-daemon-driver-storage-logical"),
        ("nodedev", 11_003_000, {"debian"}, "libvirt-daemon-driver-nodedev"),
        (
            "storage",
            9_000_000,
            {"rocky", "rhel", "fedora", "centos"},
            "libvirt-daemon-driver-storage-core",
        ),
        ("secret", 9_000_000, {"fedora"}, "libvirt-daemon-driver-secret"),
        ("secret", 11_003_000, set(), "libvirt-daemon-driver-secret"),
        (
            "storage",
            11_003_000,
            set(),
            (
                "libvirt-daemon-driver-storage (Debian, Ubuntu) or"
                " libvirt-daemon-driver-storage-core (Fedora, RHEL, SUSE)"
            ),
        ),
    ],
)
def test_packages(name, version, systems, package):
    assert drivers.package(name, version, systems) == package
