# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels of instances and hosts."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.add_column("instances", sa.Column("labels", sa.JSON(), nullable=True))
    op.add_column("services", sa.Column("labels", sa.JSON(), nullable=True))
