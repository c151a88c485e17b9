# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The URI that receives the memory of a migration."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._migrations import orders


@pytest.mark.parametrize(
    ("address", "uri"),
    [
        ("192.0.2.1", "tcp://192.0.2.1"),
        ("kvm1.storage.example.com", "tcp://kvm1.storage.example.com"),
        ("2001:db8::1", "tcp://[2001:db8::1]"),
        ("[2001:db8::1]", "tcp://[2001:db8::1]"),
    ],
)
def test_an_ipv6_address_is_in_brackets(address, uri):
    assert orders.migrate_uri(address) == uri
