# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines for the operator of a run that waits for a host."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Iterator

#: Seconds between two lines.
EVERY = 10
#: Module -> the words for the thing that the run waits for; ANSWER for all others.
WORDS = {
    "compute_node": "its libvirt, which is read",
    "hypervisor_info": "its libvirt, which is read",
    "_boot_info": "a sign of life over SSH",
    "_host_probe": "what it sees of the silent host",
    "_domain_sightings": "the list of its instances",
    "_domain_order": "the end of earlier orders there",
    "_domain_restart": "the start of instances there",
    "ansible.builtin.service": "the restart of its libvirt",
}
ANSWER = "an answer"

#: A mark in this process: a call inside of another one makes no lines.
_shown = threading.local()


@contextlib.contextmanager
def shown(
    show: Callable[[str], None], host: str, module: str, limit: float | None
) -> Iterator[None]:
    """Show a line every EVERY seconds while the block waits for a host.

    :param limit: the maximum of seconds to wait; None without a limit, and then no line is shown.
    """
    if not limit or limit <= EVERY or getattr(_shown, "waits", False):
        yield
        return
    over, began = threading.Event(), time.monotonic()
    words = WORDS.get(module.removeprefix("drover.compute."), ANSWER)

    def tell() -> None:
        while not over.wait(EVERY):
            show(line([host], words, time.monotonic() - began, limit))

    teller = threading.Thread(target=tell, daemon=True)
    _shown.waits = True
    teller.start()
    try:
        yield
    finally:
        over.set()
        teller.join()
        _shown.waits = False


def silence() -> None:
    """Show no lines in this process, because its parent shows them."""
    _shown.waits = True


def line(hosts: Iterable[str], words: str, passed: float, limit: float) -> str:
    """Return the line about hosts that have not answered yet."""
    return (
        f"{', '.join(hosts)}: waiting for {words}, {round(passed)} s of at most {round(limit)} s."
    )
