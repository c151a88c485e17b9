# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The reserved amount of an inventory before the drain of its storage pool."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0018"
down_revision = "0017"


def upgrade() -> None:
    op.add_column("inventories", sa.Column("reserved_before_drain", sa.BigInteger(), nullable=True))
    op.add_column("inventories", sa.Column("drain_reason", sa.Text(), nullable=True))
