# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU sets as Nova and the kernel write them: 0-3,8,^2."""

from __future__ import annotations

import re

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError

# Far more than any host has; a slip of the finger must not fill the controller's memory.
_MOST = 2**16

_PART = re.compile(r"^(\^?)(\d+)(?:-(\d+))?$")


def parse(text, option):
    """The CPU numbers of a set.

    :param text: "0-3,8,^2"; ^ takes a CPU out again.
    :param option: the option's name, for the error.
    :returns: a set of ints.
    :raises DroverError: it is not a CPU set, or is empty.
    """
    take, leave = set(), set()
    for part in str(text).split(","):
        match = _PART.match(part.strip())
        if not match:
            raise DroverError(f"{option}: {part.strip()!r} is no CPU set. Write for example 0-3,8,^2.")
        first, last = int(match.group(2)), int(match.group(3) or match.group(2))
        if last >= _MOST:
            raise DroverError(f"{option}: {part.strip()!r} goes beyond CPU {_MOST - 1}. Write for example 0-3.")
        if last < first:
            raise DroverError(f"{option}: {part.strip()!r} runs backwards. Write for example 0-3.")
        (leave if match.group(1) else take).update(range(first, last + 1))
    if not take - leave:
        raise DroverError(f"{option}: the set {text!r} holds no CPU.")
    return take - leave
