# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which files domains write to: the next discovery of each host fills it in."""

from __future__ import annotations

try:
    import sqlalchemy as sa
    from alembic import op
except ImportError:
    sa = op = None

revision = "0010"
down_revision = "0009"


def upgrade():
    op.add_column("domain_files", sa.Column("written", sa.Boolean(), nullable=False, server_default=sa.false()))
