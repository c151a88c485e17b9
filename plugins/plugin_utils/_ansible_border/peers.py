# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The destinations of the check of a host for migrations."""

from __future__ import annotations


def ring(hosts: list[str], of: str, most: int) -> list[str]:
    """Return the hosts after one in the ring of all.

    So each host is equally often destination and source.

    :param of: the host; it is left out.
    :param most: the maximum number of hosts; 0 for all.
    """
    begin = hosts.index(of) + 1 if of in hosts else 0
    found = [each for each in hosts[begin:] + hosts[:begin] if each != of]
    return found[:most] if most else found
