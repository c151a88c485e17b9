# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uuids as libvirt and the store write them."""

from __future__ import annotations

import uuid
from typing import Any


def is_uuid(value: Any) -> bool:
    """Whether a value is a uuid in lower case, with its hyphens: in another spelling it would be another instance."""
    try:
        return str(uuid.UUID(value)) == value
    except (ValueError, AttributeError, TypeError):
        return False
