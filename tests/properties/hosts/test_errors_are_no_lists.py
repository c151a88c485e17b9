# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An error is not an empty list (F20): if a daemon answers with an error for a moment, no host has
lost anything."""

from __future__ import annotations

import errno

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._host import devices, domains, storage
from ansible_collections.drover.compute.plugins.module_utils._libvirt.binding import LibvirtProblem
from ansible_collections.drover.compute.plugins.module_utils._orders import orders
from ansible_collections.drover.compute.plugins.module_utils._orders.records import Records


def fails(code, domain=libvirt.VIR_FROM_RPC, number=0):
    def call(*_arguments):
        problem = libvirt.libvirtError("Fehler: Datenuebergabe unterbrochen (broken pipe)")
        problem.err = (code, domain, "broken", 2, None, None, None, number, 0)
        raise problem

    return call


@pytest.fixture
def conn():
    return libvirt.open("test:///default")


#: Code, domain and error number of libvirt's answers if the daemon of that driver runs, but has a
#: problem.
PROBLEMS = [
    (libvirt.VIR_ERR_RPC,),
    (libvirt.VIR_ERR_SYSTEM_ERROR, libvirt.VIR_FROM_RPC, errno.EPIPE),
    (libvirt.VIR_ERR_ACCESS_DENIED,),
    (libvirt.VIR_ERR_INTERNAL_ERROR,),
]
READS = {
    "listAllStoragePools": lambda conn: storage.read_pools(conn, None),
    "listAllNetworks": storage.read_networks,
    "listAllDevices": devices.read_devices,
    "listAllDomains": lambda conn: domains.read_domains(conn, False),
}


@pytest.mark.parametrize("call", READS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_f20_brothers_what_libvirt_does_not_tell_is_not_gone(conn, monkeypatch, call, problem):
    monkeypatch.setattr(libvirt.virConnect, call, fails(*problem))
    with pytest.raises(libvirt.libvirtError):
        READS[call](conn)


@pytest.mark.parametrize("call", READS)
def test_f20_brothers_what_a_driver_does_not_have_is_empty(conn, monkeypatch, call):
    monkeypatch.setattr(
        libvirt.virConnect, call, fails(libvirt.VIR_ERR_NO_SUPPORT, libvirt.VIR_FROM_NONE)
    )
    READS[call](conn)


@pytest.mark.parametrize(
    ("code", "is_left_out"),
    [(libvirt.VIR_ERR_NO_STORAGE_POOL, True), (libvirt.VIR_ERR_INTERNAL_ERROR, False)],
)
def test_f20_brothers_a_pool_is_left_out_only_if_it_is_gone(conn, monkeypatch, code, is_left_out):
    monkeypatch.setattr(libvirt.virStoragePool, "info", fails(code, libvirt.VIR_FROM_STORAGE))
    if is_left_out:
        assert storage.read_pools(conn, None) == []
    else:
        with pytest.raises(libvirt.libvirtError):
            storage.read_pools(conn, None)


@pytest.mark.parametrize("damage", ["[", "{}", "7", None])
def test_f20_brothers_withdrawn_orders_that_cannot_be_read_begin_nothing(tmp_path, damage):
    """The withdrawn orders that cannot be read may contain this order."""
    records = Records(str(tmp_path))
    orders.withdraw(records, "u", ["an order"])
    path = tmp_path / "u.withdrawn"
    if damage is None:
        path.unlink()
        path.mkdir()
    else:
        path.write_text(damage)
    for call in (
        lambda: orders.refuse_withdrawn(records, "u", "web", "an order"),
        lambda: orders.withdraw(records, "u", ["another"]),
    ):
        with pytest.raises(LibvirtProblem, match=f"{path} cannot be read .*nothing is begun"):
            call()
    orders.refuse_withdrawn(records, "v", "web", "an order")
