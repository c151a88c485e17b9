# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A host may be shut out of its storage by more than one fence."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0021"
down_revision = "0020"

NAME = "pk_storage_fences"


def upgrade() -> None:
    with op.batch_alter_table("storage_fences") as batch:
        batch.drop_constraint(NAME, type_="primary")
        batch.create_primary_key(NAME, ["host", "fence"])
