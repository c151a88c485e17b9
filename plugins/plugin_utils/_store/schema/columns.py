# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Columns that several of the store's tables have, and the columns of records.node_fields."""

from __future__ import annotations

from typing import Any

from ..._records.node_fields import NUMBER, TEXT, NodeField
from ..database.sql import sa


def new_metadata() -> sa.MetaData:
    """Make the collection of tables, with the names of constraints."""
    return sa.MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


def identifier() -> sa.Column[int]:
    """Make the primary key."""
    return sa.Column("id", sa.Integer, primary_key=True)


def uuid() -> sa.Column[str]:
    """Make the column of a unique uuid."""
    return sa.Column("uuid", sa.String(36), nullable=False, unique=True)


def name() -> sa.Column[str]:
    """Make the column of a unique name."""
    return sa.Column("name", sa.String(255), nullable=False, unique=True)


def time(name: str) -> sa.Column[float]:
    """Make the column of a time that is always known, in seconds since 1970."""
    return sa.Column(name, sa.Double, nullable=False)


def reference(
    name: str, target: str, nullable: bool = False, ondelete: str | None = None, index: bool = True
) -> sa.Column[int]:
    """Make a foreign key."""
    return sa.Column(name, sa.ForeignKey(target, ondelete=ondelete), nullable=nullable, index=index)


def of_field(field: NodeField) -> sa.Column[Any]:
    """Make the column of a property of compute nodes."""
    kind: Any = sa.JSON(none_as_null=True)
    if field.types in (NUMBER, TEXT):
        kind = sa.Integer if field.types == NUMBER else sa.String(field.length)
    if field.default is None:
        return sa.Column(field.name, kind)
    return sa.Column(
        field.name, kind, nullable=False, default=field.default, server_default=str(field.default)
    )
