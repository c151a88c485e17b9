# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print the version of pip that this environment's ansible-test wants, with "_" for "."."""

from __future__ import annotations

import pathlib
import re

import ansible_test

text = (
    pathlib.Path(ansible_test.__file__).parent / "_internal" / "python_requirements.py"
).read_text()
version = re.search(r"pip='([\d.]+)'", text)
print((version.group(1) if version else "24.2").replace(".", "_"))
