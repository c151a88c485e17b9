# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Progress: few lines for any number of hosts."""

from __future__ import annotations

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._conductor.progress import (
    LINES,
    MANY,
    milestone,
)


@pytest.mark.parametrize("count", [0, 1, MANY - 1, MANY, 101, 400, 1003])
def test_few_lines(count):
    hosts = [f"kvm{number}" for number in range(count)]
    lines = [line for line in (milestone(name, hosts) for name in hosts) if line]
    assert len(lines) == (0 if count < MANY else LINES)
    if lines:
        assert lines[-1] == f"kvm{count - 1} is done: about {count} of {count} hosts (100 %)"


def test_a_host_that_is_none_of_the_play():
    assert milestone("localhost", [f"kvm{number}" for number in range(99)]) is None
