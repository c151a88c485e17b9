# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fixtures of code that runs on hypervisors."""

from __future__ import annotations

from ansible_collections.drover.compute.tests.unit.module_utils import conftest as of_utils
from ansible_collections.drover.compute.tests.unit.modules import conftest as of_modules

own_digests = of_utils.own_digests
dead_storage = of_utils.dead_storage
fresh_looks = of_utils.fresh_looks
records = of_modules.records
domain_xml = of_modules.domain_xml
run_module = of_modules.run_module
fake_host = of_modules.fake_host
default_host = of_modules.default_host
no_binding = of_modules.no_binding
