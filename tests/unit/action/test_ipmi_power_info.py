# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ipmi_power_info by the real community.general.ipmi_power, whose pyghmi has one of these answers."""

from __future__ import annotations

import re
import sys

import pytest

from ansible_collections.drover.compute.tests.unit.action.running import play

PYGHMI = """
class Command:
    def __init__(self, bmc, userid, password, port=623, kg=None, **more):
        if password != "secret":
            raise Exception("Incorrect password provided")

    def get_power(self, bridge_request=None):
        return {answer!r}

    def set_power(self, state, wait=False, bridge_request=None):
        raise Exception("the power was switched")
"""


def ask(folder, answer, password="secret"):
    package = folder / "fake" / "pyghmi" / "ipmi"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "command.py").write_text(PYGHMI.format(answer=answer))
    task = {"drover.compute._ipmi_power_info": {"name": "bmc1", "user": "u", "password": password}, "register": "asked"}
    show = {"ansible.builtin.debug": {"msg": "<{{ asked.power_state | default('none') }}> {{ asked.msg | default('') }}"}}
    return play(
        folder,
        [{**task, "failed_when": False}, show],
        vars={"ansible_python_interpreter": sys.executable},
        environment={"PYTHONPATH": str(folder / "fake")},
    )


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ({"powerstate": "on"}, "on"),
        ({"powerstate": "off"}, "off"),
        # What the firmware of some makers answers, by pyghmi's own modules for them.
        ({"powerstate": None}, "unknown"),
        ({"powerstate": "unknown"}, "unknown"),
        ({"powerstate": "standby"}, "unknown"),
        ({}, "none"),
    ],
)
def test_suspected_6_off_only_where_the_controller_says_off(tmp_path, answer, state):
    code, text = ask(tmp_path, answer)
    assert code == 0 and re.search(f"<{state}>", text), text
    assert "the power was switched" not in text and "changed=0" in text
    if state == "unknown":
        assert "bmc1 reports the power neither as on nor as off" in text


def test_what_fails_is_said(tmp_path):
    code, text = ask(tmp_path, {"powerstate": "off"}, password="wrong")
    assert code == 0 and "<none> Incorrect password provided" in text and "secret" not in text
