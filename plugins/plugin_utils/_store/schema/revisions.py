# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The revisions of the schema, as Alembic runs them.

Only the code that creates or upgrades a schema imports this: the import of Alembic takes a third as
long as the import of SQLAlchemy.
"""

from __future__ import annotations

import os
from typing import Any

from ..._common.errors import MissingPackage
from ..database.sql import Connection

try:
    from alembic import op
    from alembic.config import Config
    from alembic.runtime.environment import EnvironmentContext
    from alembic.script import ScriptDirectory
except ImportError:
    op = Config = EnvironmentContext = ScriptDirectory = MissingPackage("alembic")  # type: ignore[assignment, misc]  # each use raises

# The revisions take op from here.
__all__ = ["known", "op", "run", "scripts"]


def scripts() -> ScriptDirectory:
    """Open the folder of the revisions."""
    return ScriptDirectory(os.path.dirname(__file__))


def known() -> set[str]:
    """Name the revisions that this version of the collection can upgrade."""
    return {script.revision for script in scripts().walk_revisions()}


def run(connection: Connection) -> None:
    """Upgrade the schema to the newest revision, inside the caller's transaction."""
    directory = scripts()

    def steps(current: Any, context: Any) -> Any:
        return directory._upgrade_revs("head", current)

    with EnvironmentContext(Config(), directory, fn=steps) as environment:
        environment.configure(connection=connection, transactional_ddl=True)
        environment.run_migrations()
