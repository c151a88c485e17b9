# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Files of a domain that are gone: the consequence for the domain, and the remedy for a person.

Private to the collection. QEMU keeps a deleted file for as long as the guest runs. A shutdown loses
it.
"""

from __future__ import annotations

import shlex

from .._domain.facts import BindingFacts, DomainDisk
from .table import NEVER, STARTS


def binding(
    domain_name: str, disk: DomainDisk, name: str, is_medium: bool, runs: bool
) -> BindingFacts:
    """Return the fact of a file that is gone, as reading.as_facts() has it.

    :param name: the words for the file. is_medium: it is the medium of a drive. runs: the guest
        runs, and has it open.
    """
    keep_running = False
    if is_medium:
        what = f"{name} does not exist any more"
        way_out = (
            f"eject it with drover.compute.instance_cdrom (drover_instance={domain_name}), or bring"
            " the file back"
        )
    elif runs:
        keep_running = True
        what = f"{name} is not there any more, and only the running guest has what is in it"
        way_out = (
            f"save it with virsh blockcopy {shlex.quote(domain_name)} {disk['target']} --dest"
            " NEW_FILE --transient-job --wait --pivot on its host; a shutdown loses it"
        )
    else:
        what = f"{name} does not exist"
        way_out = "bring the file back, or detach the disk with drover.compute.instance_disk"
    only = disk.get("only") or ""
    return {
        **held(
            f"as it starts next time, {what}" if only == "next_start" else what,
            way_out,
            keep_running,
        ),
        "only": only,
    }


def held(what: str, way_out: str, keep_running: bool = False) -> BindingFacts:
    """Return the fact of something that holds a domain at its host."""
    return {
        "what": what,
        "way_out": way_out,
        "move": NEVER,
        # The destination looks for the files itself, and may have files that the dead host did not
        # see.
        "evacuation": STARTS,
        "only": "",
        "address": None,
        "keep_running": keep_running,
    }
