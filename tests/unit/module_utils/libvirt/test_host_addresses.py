# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The addresses of a host, from the output of a real kernel."""

from __future__ import annotations

import socket

from ansible_collections.drover.compute.plugins.module_utils._libvirt import host_addresses

FIB_TRIE = """\
Main:
  +-- 0.0.0.0/0 3 0 5
     |-- 0.0.0.0
        /0 universe UNICAST
     +-- 10.99.0.0/24 2 0 2
        +-- 10.99.0.0/28 2 0 2
           |-- 10.99.0.0
              /24 link UNICAST
           |-- 10.99.0.11
              /32 host LOCAL
        |-- 10.99.0.255
           /32 link BROADCAST
     +-- 127.0.0.0/8 2 0 2
           |-- 127.0.0.1
              /32 host LOCAL
           |-- 169.254.7.1
              /32 host LOCAL
Local:
           |-- 10.99.0.11
              /32 host LOCAL
"""
IF_INET6 = """\
00000000000000000000000000000001 01 80 10 80       lo
fd000000000000000000000000000011 02 40 00 80     eth0
fe800000000000009481c3fffe2d5a11 02 40 20 80     eth0
"""


def test_addresses_that_others_see(tmp_path):
    for name, text in (("4", FIB_TRIE), ("6", IF_INET6)):
        (tmp_path / name).write_text(text)
    assert host_addresses.read(str(tmp_path / "4"), str(tmp_path / "6")) == [
        "10.99.0.11",
        "fd00::11",
    ]
    assert host_addresses.read(str(tmp_path / "none"), str(tmp_path / "none")) == []


def test_this_host():
    addresses = host_addresses.read()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))
        except OSError:
            return
        assert probe.getsockname()[0] in addresses
