# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Create, change or delete an image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.kept_item import (
    KEPT_SPEC,
    KeptArgs,
    KeptItem,
)
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import check
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import images


class Args(KeptArgs):
    """The arguments of this action."""

    source: str | None
    checksum: str | None
    disk_format: str | None
    properties: Any


class ActionModule(KeptItem[Args]):
    ARGUMENT_SPEC = {
        **KEPT_SPEC,
        "source": {"type": "str"},
        "checksum": {"type": "str"},
        "disk_format": {"type": "str"},
        "properties": {"type": "dict"},
    }
    SECTION = "images"

    def item(self, args: Args) -> Mapping[str, object]:
        given: Mapping[str, object] = args
        (image,) = check.images(
            [{key: given[key] for key in ("name", *images.FIELDS)}], lambda item: "Module image"
        )
        return image
