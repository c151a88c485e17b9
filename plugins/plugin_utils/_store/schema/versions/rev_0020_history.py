# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The capacity and the use of the fleet, one row for each day, zone and resource class."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.create_table(
        "history",
        sa.Column("day", sa.Integer(), nullable=False, autoincrement=False),
        sa.Column("zone", sa.String(length=255), nullable=False),
        sa.Column("resource_class", sa.String(length=255), nullable=False),
        sa.Column("capacity", sa.Double(), nullable=False),
        sa.Column("used", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("day", "zone", "resource_class", name=op.f("pk_history")),
    )
