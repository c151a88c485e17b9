# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A guest with a packet filter moves to a host that has it, and to no other one (F10)."""

from __future__ import annotations

import types

import pytest

libvirt = pytest.importorskip("libvirt")

from ansible_collections.drover.compute.plugins.module_utils._bindings import reading, there
from ansible_collections.drover.compute.tests.unit.devices import error

GUEST = """<domain type='qemu'><name>web</name><devices>
<interface type='ethernet'><filterref filter='own'/></interface></devices></domain>"""
SAME = types.SimpleNamespace(where="kvm2")


class Destination:
    """A libvirt whose lookup of a packet filter ends with an error code; 0 for one that has it."""

    def __init__(self, code, kind="QEMU"):
        self._code, self._kind = code, kind

    def getType(self):
        return self._kind

    def nwfilterLookupByName(self, name):
        if self._code:
            raise error(self._code, f"no {name}")


def reasons(destination, live):
    return there.reasons(destination, reading.read(GUEST), SAME, [], live, "uuid")


@pytest.mark.parametrize("live", [True, False])
def test_f10_a_packet_filter_is_looked_up_at_the_destination(live):
    (reason,) = reasons(Destination(libvirt.VIR_ERR_NO_NWFILTER), live)
    assert "own" in reason and "does not exist on kvm2" in reason and "nwfilter-define" in reason
    (reason,) = reasons(Destination(libvirt.VIR_ERR_NO_SUPPORT), live)
    assert "libvirt of kvm2 does not have it" in reason
    assert reasons(Destination(0), live) == []
    # The test driver has no packet filters at all.
    assert reasons(Destination(libvirt.VIR_ERR_NO_SUPPORT, "TEST"), live) == []
