# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""SQLAlchemy for the store, placement and migrations, or a stand-in that names the missing package
at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._common.errors import MissingPackage

__all__ = ("Connection", "Row", "Select", "event", "exc", "pool", "postgresql", "sa")

try:
    import sqlalchemy as sa
    from sqlalchemy import Connection, event, exc, pool
    from sqlalchemy.dialects import postgresql
except ImportError:
    sa = Connection = event = exc = pool = postgresql = MissingPackage("SQLAlchemy")  # type: ignore[assignment, misc]  # each use raises

if TYPE_CHECKING:
    from typing_extensions import Unpack

    # A row with any columns.
    Row = sa.Row[Unpack[tuple[Any, ...]]]
    Select = sa.Select[Unpack[tuple[Any, ...]]]
else:
    # Only annotations use these names.
    Row = Select = Any
