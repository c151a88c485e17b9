# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter without_tags: refuse --tags and --skip-tags, because the playbooks of the collection
have no tags.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from ansible import constants as C
from ansible import context
from ansible.errors import AnsibleFilterError

PLAYBOOKS = pathlib.Path(__file__).resolve().parents[2] / "playbooks"
#: Tags that select tasks without tags.
WHOLE = {"all", "untagged"}


def without_tags(hosts: str) -> str:
    """See _without_tags.yml."""
    tags, skipped = (set(context.CLIARGS.get(name) or ()) for name in ("tags", "skip_tags"))
    arguments = [f"--tags {','.join(sorted(tags))}"] if tags and not tags & WHOLE else []
    # Tags to skip in ansible.cfg are for playbooks of all kinds.
    skipped -= set(C.TAGS_SKIP or ()) - WHOLE
    arguments += [f"--skip-tags {','.join(sorted(skipped))}"] if skipped else []
    if arguments and any(map(_is_ours, context.CLIARGS.get("args") or ())):
        raise AnsibleFilterError(
            "Nothing was done: the playbooks of drover.compute have no tags, and this run has"
            f" {' and '.join(arguments)}. Run it without. --check shows what would be done;"
            " variables leave out steps, such as -e drover_rolling_reboot=never."
        )
    return hosts


def _is_ours(playbook: str) -> bool:
    """Return True if a playbook of the command line is of this collection; a playbook that imports
    one may have other tags.
    """
    return (
        playbook.startswith("drover.compute.")
        or pathlib.Path(playbook).resolve().parent == PLAYBOOKS
    )


class FilterModule:
    """The filters of this file, for Ansible."""

    def filters(self) -> dict[str, Callable[..., str]]:
        return {"_without_tags": without_tags}
