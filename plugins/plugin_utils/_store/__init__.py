# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store: SQLAlchemy tables, transactions and migrations. The one room with SQL."""

from __future__ import annotations

from .engine import Store

__all__ = ["Store"]
