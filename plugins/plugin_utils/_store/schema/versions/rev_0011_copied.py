# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The amounts that moves copied, and their durations."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.add_column("migrations", sa.Column("copied_memory_mib", sa.BigInteger(), nullable=True))
    op.add_column("migrations", sa.Column("copied_disk_mib", sa.BigInteger(), nullable=True))
    op.add_column("migrations", sa.Column("seconds", sa.Double(), nullable=True))
