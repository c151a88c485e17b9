# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of domains: one query finds the users of a file, however many files there are."""

from __future__ import annotations

import json

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import (
    Connection,
    sa,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0009"
down_revision = "0008"

_ROWS = 1000


def upgrade() -> None:
    op.create_table(
        "domain_files",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("compute_node_id", sa.Integer(), nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("path", sa.String(length=1024), nullable=False),
        sa.Column("identity", sa.String(length=1024), nullable=True),
        sa.ForeignKeyConstraint(
            ["compute_node_id"],
            ["compute_nodes.id"],
            name=op.f("fk_domain_files_compute_node_id_compute_nodes"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_domain_files")),
    )
    for column in ("compute_node_id", "uuid", "path", "identity"):
        op.create_index(op.f(f"ix_domain_files_{column}"), "domain_files", [column])
    _fill(op.get_bind())


def _fill(connection: Connection) -> None:
    """Add the files that discovery has seen; the next discovery adds the images behind them."""
    table = sa.table("domain_files", *map(sa.column, ("compute_node_id", "uuid", "path")))
    rows = []
    for node, uuid, facts in connection.execute(
        sa.text("SELECT compute_node_id, uuid, facts FROM domains")
    ).all():
        facts = json.loads(facts) if isinstance(facts, str) else facts
        paths = {
            disk["source"]
            for disk in (facts or {}).get("disks") or []
            if disk.get("type") in ("file", "block")
            and disk.get("source")
            and len(disk["source"]) <= 1024
        }
        rows += [{"compute_node_id": node, "uuid": uuid, "path": path} for path in sorted(paths)]
    for start in range(0, len(rows), _ROWS):
        connection.execute(sa.insert(table), rows[start : start + _ROWS])
