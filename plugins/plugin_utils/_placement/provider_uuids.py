# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The uuids of the providers that discovery creates below the providers of compute nodes. This
module reads and writes nothing.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from .._numa.device_providers import is_reported, key_of

# The namespace belongs to this collection, so no uuid from the same text elsewhere is taken for one
# of these.
_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "https://drover.compute/nested-providers")


def uuid_of(root: str, key: str) -> str:
    """Return the uuid of a provider by the uuid of its compute node: every discovery finds the same
    uuid.

    :param key: see nested_providers.NestedProvider.
    """
    return str(uuid.uuid5(_NAMESPACE, f"{root}/{key}"))


def provider_of(root: str, device: Mapping[str, object]) -> str:
    """Return the uuid of the provider of a PCI device by the uuid of its compute node."""
    return uuid_of(root, key_of(device))


def keys_of(root: str, devices: Iterable[Mapping[str, object]]) -> dict[str, str]:
    """Return the keys of the providers of PCI devices by their uuids; whether the host reports them
    is not asked.
    """
    return {
        uuid_of(root, key): key for key in {key_of(each) for each in devices if is_reported(each)}
    }
