# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files that domains write to."""

from __future__ import annotations

import json

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import (
    Connection,
    sa,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column(
        "domain_files",
        sa.Column("written", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    _fill(op.get_bind())


def _fill(connection: Connection) -> None:
    """Mark the files that discovery has seen."""
    table = sa.table(
        "domain_files", *map(sa.column, ("compute_node_id", "uuid", "path", "written"))
    )
    rows = []
    for node, uuid, facts in connection.execute(
        sa.text("SELECT compute_node_id, uuid, facts FROM domains")
    ).all():
        facts = json.loads(facts) if isinstance(facts, str) else facts
        for disk in (facts or {}).get("disks") or []:
            if disk.get("device", "disk") in ("disk", "lun") and not disk.get("readonly"):
                names = {disk.get(key) for key in ("path", "source", "real_path")} - {None}
                rows += [
                    {"its_node": node, "its_uuid": uuid, "its_path": name} for name in sorted(names)
                ]
    if rows:
        named = [
            table.c[key] == sa.bindparam(f"its_{word}")
            for key, word in (("compute_node_id", "node"), ("uuid", "uuid"), ("path", "path"))
        ]
        connection.execute(sa.update(table).where(*named).values(written=sa.true()), rows)
