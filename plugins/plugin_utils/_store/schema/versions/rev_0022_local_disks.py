# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks of domains that their host alone has, so that no other host can start them; and libvirt's uuid of each host, to find a second name."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils._store.database.sql import sa
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema.revisions import op

revision = "0022"
down_revision = "0021"


def upgrade() -> None:
    op.add_column(
        "domains", sa.Column("local_disks", sa.Boolean, nullable=False, server_default=sa.false())
    )
    op.add_column("compute_nodes", sa.Column("host_uuid", sa.String(36)))
    op.create_index("ix_compute_nodes_host_uuid", "compute_nodes", ["host_uuid"])
    nodes = sa.table(
        "compute_nodes", sa.column("facts", sa.JSON), sa.column("host_uuid", sa.String)
    )
    op.execute(sa.update(nodes).values(host_uuid=nodes.c.facts["host_uuid"].as_string()))
