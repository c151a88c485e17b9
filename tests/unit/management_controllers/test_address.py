# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Forms of drover_power_address."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._management_controllers.address import (
    parse,
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("kvm1-bmc.example.com", ("kvm1-bmc.example.com", 623)),
        ("kvm1_bmc", ("kvm1_bmc", 623)),
        ("kvm1-bmc:1623", ("kvm1-bmc", 1623)),
        ("10.0.0.9", ("10.0.0.9", 623)),
        ("10.0.0.9:1", ("10.0.0.9", 1)),
        ("fd00::20", ("fd00::20", 623)),
        ("fd00::abcd", ("fd00::abcd", 623)),
        ("2001:db8::1:20", ("2001:db8::1:20", 623)),
        ("2001:db8:0:0:0:0:1:20", ("2001:db8::1:20", 623)),
        ("[fd00::20]", ("fd00::20", 623)),
        ("[fd00::20]:1623", ("fd00::20", 1623)),
        ("::ffff:10.0.0.9", ("::ffff:a00:9", 623)),
        ("fe80::1%eth0", ("fe80::1%eth0", 623)),
        (" 10.0.0.9 ", ("10.0.0.9", 623)),
    ],
)
def test_f19_addresses(text, found):
    host, port = parse(text, 623, None)
    assert (host.replace("::ffff:10.0.0.9", "::ffff:a00:9"), port) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":623",
        "bmc:",
        "bmc:0",
        "bmc:65536",
        "bmc:x",
        "bmc:-1",
        "a:b:c",
        "fd00::20::1",
        "[fd00::20",
        "fd00::20]",
        "[fd00::20]623",
        "[fd00::20]:",
        "[bmc]:623",
        "[10.0.0.9]:623",
        "fd00::20/64",
        "10.0.0.9/24",
        "10.0.0.256",
        "10.0.0",
        "1",
        "0x7f000001",
        "bmc one",
        "bmc/redfish/v1",
        "http://bmc",
        "https://bmc",
        "ipmi://bmc",
        "::",
        "0.0.0.0",
        "ff02::1",
        "224.0.0.1",
        "-bmc",
        "bmc..example.com",
        "bmc#1",
        "bmc?x",
        "bmc\\x",
        "[fd00::20]:623:1",
        "{{ bmc }}",
    ],
)
def test_f19_wrong_forms_are_refused_in_words(text):
    with pytest.raises(
        DroverError, match=r"drover_power_address is .*fd00::20 or \[fd00::20\]:623"
    ):
        parse(text, 623, None)


def test_f19_schemes_and_passwords():
    assert parse("HTTPS://bmc:8443/", 443, "https") == ("bmc", 8443)
    assert parse("https://[fd00::20]", 443, "https").netloc == "[fd00::20]:443"
    with pytest.raises(DroverError, match="begins with http://, and only https is possible"):
        parse("http://bmc", 443, "https")
    with pytest.raises(DroverError) as caught:
        parse("https://root:calvin@bmc", 443, "https")
    assert "calvin" not in str(caught.value) and "variables of their own" in str(caught.value)
