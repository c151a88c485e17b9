# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where long work over many hosts is: few lines, whoever writes them and however many hosts there are."""

from __future__ import annotations

#: How often, in seconds, one thing that is under way is mentioned at most.
MENTION = 10
#: Of fewer hosts than this nobody needs to be told.
MANY = 50
#: So many lines at most.
LINES = 10


def milestone(host, hosts):
    """A line when this host is one at which to tell how far a play has come, else None.

    Each host is worked on in a process of its own that knows nothing of the others. What all of them know is the order in
    which Ansible begins with the hosts, so the line tells how far down that order a host is that is done.

    :param host: the name of the host that is done.
    :param hosts: all hosts of the play, in order.
    """
    count = len(hosts)
    if count < MANY or host not in hosts:
        return None
    place = hosts.index(host) + 1
    if place * LINES // count == (place - 1) * LINES // count:
        return None
    return f"{host} is done: about {place} of {count} hosts ({100 * place // count} %)"


def pause(elapsed_s, count):
    """How long (seconds) nothing is said of one thing that has been under way for some time, among so many.

    However many there are, together they make no more than twelve lines in a minute; and what has taken an hour is
    mentioned every six minutes.
    """
    return max(MENTION, MENTION * count / 2, (elapsed_s or 0) / 10)
