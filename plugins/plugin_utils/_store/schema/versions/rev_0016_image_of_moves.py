# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The id and the format of the image of an instance, which filters ask again when it moves."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0016"
down_revision = "0015"


def upgrade() -> None:
    op.add_column("instances", sa.Column("image_id", sa.String(length=255), nullable=True))
    op.add_column("instances", sa.Column("image_format", sa.String(length=255), nullable=True))
