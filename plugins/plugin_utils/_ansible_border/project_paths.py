# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Paths on the controller from a survey of AWX.

A user of a job must not read or run any file of its container.
"""

from __future__ import annotations

import os

from .._common.errors import DroverError
from .._common.validation import shown
from .options import Variables
from .run_identity import job_of


def refuse_outside(path: str, variable: str, extra_vars: Variables) -> None:
    """Refuse a path outside of the project in a job of AWX, with links followed.

    The current folder of a job is its project.

    :param variable: the name of its variable, for the message.
    :raises DroverError: the path is outside.
    """
    project = os.path.realpath(os.getcwd())
    if job_of(extra_vars) and os.path.commonpath([project, os.path.realpath(path)]) != project:
        raise DroverError(
            f"{variable} is {shown(path)}, which is outside of the project of this job. Give the"
            " path of a file in the project. Nothing was done."
        )
