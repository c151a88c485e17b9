# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The options of the roles and the questions of the surveys follow from the modules."""

from __future__ import annotations

import pytest
import yaml

from ansible_collections.drover.compute.tests.pages import options, role_files, surveys

OPTION = {
    "description": ["With O(state=absent), keep O(disks), see O(way=fast). Or not.", "More."],
    "type": "int",
    "default": 3,
}


def test_an_option_of_a_role_is_the_option_of_its_module(monkeypatch):
    monkeypatch.setattr(options, "of_module", {"drain": {"copies": OPTION, "way": {}}}.__getitem__)
    option = options._resolved("copies", "drain", {"way": "drover_way"})
    assert option == {
        "type": "int",
        "default": 3,
        "description": "Keep C(disks), see O(drover_way=fast). Or not.",
        "paragraphs": ["Keep C(disks), see O(drover_way=fast). Or not.", "More."],
    }
    assert options.sentence(option) == "Keep disks, see drover_way=fast"
    assert options.markdown(option) == "Keep `disks`, see `drover_way=fast`. Or not"
    changed = options._resolved({"of": "copies", "default": 4}, "drain", {})
    assert changed["default"] == 4
    own = options._resolved({"of": "copies", "description": "Own."}, "drain", {})
    assert own["description"] == "Own." and "paragraphs" not in own


@pytest.mark.parametrize(
    "option, answer",
    [
        ({"type": "int", "default": 0}, {"type": "integer", "min": 0, "default": 0}),
        ({"type": "int", "default": 3}, {"type": "integer", "min": 1, "default": 3}),
        (
            {"type": "bool"},
            {"type": "multiplechoice", "choices": ["true", "false"], "default": "false"},
        ),
        ({"type": "dict"}, {"type": "text", "min": 2, "default": "{}"}),
        ({"type": "str", "default": "x"}, {"type": "text", "min": 1, "default": "x"}),
    ],
)
def test_a_question_with_a_default_is_never_empty(option, answer):
    assert surveys._answer(option, {}) == {**answer, "required": True}


def test_a_question_without_a_default_may_be_empty():
    assert surveys._answer({"type": "str"}, {}) == {"type": "text", "required": False}
    assert surveys._answer({"type": "list", "default": []}, {}) == {
        "type": "text",
        "required": False,
    }
    assert surveys._answer({"type": "str", "required": True}, {}) == {
        "type": "text",
        "min": 1,
        "required": True,
    }


@pytest.mark.parametrize("role", options.table()["roles"])
def test_the_text_of_an_entry_point_stays_as_it_is(role):
    path = options.ROOT / "roles" / role / "meta/argument_specs.yml"
    written = yaml.safe_load(path.read_text(encoding="utf-8"))["argument_specs"]
    made = yaml.safe_load(role_files.specification(role))["argument_specs"]
    for name, entry in made.items():
        assert {**entry, "options": None} == {**written[name], "options": None}
        assert list(entry["options"]) == list(options.of_role(role)[name])
