# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Results of modules as they reach the engine."""

from __future__ import annotations

import types

import pytest

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border.remote_module import (
    Hand,
)
from ansible_collections.drover.compute.tests.unit.action.running import is_plain


def test_what_a_module_warns_of_is_a_sentence():
    """From ansible-core 2.19 on a warning is an object. tests/lab/test_silent_host.py has a module
    that warns.
    """
    messages = pytest.importorskip("ansible.module_utils._internal._messages")
    warning = messages.WarningSummary(event=messages.Event(msg="The room below /srv is unknown."))
    deprecation = messages.DeprecationSummary(event=messages.Event(msg="old"))
    answer = {
        "changed": False,
        "warnings": [warning, "Plain."],
        "deprecations": [deprecation],
        "exception": object(),
    }
    task = types.SimpleNamespace(environment=None, timeout=0)
    action = types.SimpleNamespace(
        _execute_module=lambda **dummy: answer, _task=task, _connection=None
    )
    machines = types.SimpleNamespace(environment=lambda host: {}, refusal=lambda host, result: None)
    module_result = Hand(action, "kvm1", {}, machines).read("hypervisor_info", {})
    assert module_result == {
        "changed": False,
        "warnings": ["The room below /srv is unknown.", "Plain."],
    } and is_plain(module_result)
