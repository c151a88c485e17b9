# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Sets of CPUs in the notation of Nova and the kernel: 0-3,8,^2."""

from __future__ import annotations

import re

from .._common.errors import DroverError
from .._common.validation import Refusal

# This is far above the CPUs of any host; a typing error must not fill the controller's memory.
_MOST = 2**16

_PART = re.compile(r"^(\^?)(\d+)(?:-(\d+))?$")


def parse_cpu_set(text: str, where: str, refuse: Refusal = DroverError) -> set[int]:
    """Return the CPU numbers of a set.

    :param text: "0-3,8,^2"; ^ takes a CPU out again.
    :param where: the start of the message, such as the name of an option.
    :raises DroverError: or the exception that ``refuse`` makes; it is not a CPU set, or is empty.
    """
    take: set[int] = set()
    leave: set[int] = set()
    for part in str(text).split(","):
        match = _PART.match(part.strip())
        if not match:
            raise refuse(f"{where}: {part.strip()!r} is no CPU set. Write for example 0-3,8,^2.")
        first, last = int(match.group(2)), int(match.group(3) or match.group(2))
        if last >= _MOST:
            raise refuse(
                f"{where}: {part.strip()!r} goes beyond CPU {_MOST - 1}. Write for example 0-3."
            )
        if last < first:
            raise refuse(f"{where}: {part.strip()!r} runs backwards. Write for example 0-3.")
        (leave if match.group(1) else take).update(range(first, last + 1))
    if not take - leave:
        raise refuse(f"{where}: the set {text!r} holds no CPU.")
    return take - leave
