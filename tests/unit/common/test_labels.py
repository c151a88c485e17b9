# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels and selectors: the rule, the refusals, and the round trip of written labels."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.module_utils._domain import labels as texts
from ansible_collections.drover.compute.plugins.plugin_utils._common import labels
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._records.labels import (
    Requirement,
    Selector,
)

ENDS = string.ascii_letters + string.digits
WORDS = st.builds(
    lambda first, middle, last: first + (middle + last if last else ""),
    st.sampled_from(ENDS),
    st.text(ENDS + "-_./", max_size=61),
    st.sampled_from(["", *ENDS]),
)
LABELS = st.dictionaries(WORDS, WORDS, max_size=8)
REQUIREMENTS = st.builds(Requirement, WORDS, st.none() | WORDS, st.booleans())
SELECTORS = st.lists(REQUIREMENTS, min_size=1, max_size=8).map(lambda found: Selector(tuple(found)))
BAD_WORDS = (
    "",
    " ",
    "-web",
    "web-",
    "a b",
    "a=b",
    "a,b",
    "!a",
    "ä",
    "a\n",
    "a\x00",
    "x" * 64,
    "{{ 1 }}",
    "web/",
    ".",
)


@given(LABELS)
def test_what_is_written_into_metadata_is_read_again(found):
    assert labels.checked(found, "it") == found
    metadata = labels.to_metadata(found)
    assert labels.from_metadata(metadata, "it") == (found, [])
    assert texts.read(texts.write(found)) == (found, [])


@given(SELECTORS)
def test_what_a_selector_says_is_that_selector(selector):
    assert labels.parse(str(selector)) == selector
    assert labels.parse(" , ".join(map(str, selector.requirements))) == selector


@given(st.text(max_size=80))
def test_any_text_is_a_selector_or_refused_in_words(text):
    try:
        selector = labels.parse(text)
    except DroverError as problem:
        assert str(problem).startswith("The selector ") and "Write for example project=web" in str(
            problem
        )
        return
    assert labels.parse(str(selector)) == selector
    for each in selector.requirements:
        assert texts.is_word(each.key) and (each.value is None or texts.is_word(each.value))


@given(st.text(max_size=200))
def test_of_any_metadata_only_labels_are_taken(text):
    """The text may come from a hostile hypervisor."""
    parsed, said = labels.from_metadata({"labels": text}, "Instance web")
    assert labels.checked(parsed, "it") == parsed
    assert len(said) <= 1 and all(len(each) < 3000 for each in said)
    again, others = texts.read(text)
    # Labels that cannot be read stay when the others are written.
    assert texts.read(texts.write(again, others))[0] == parsed


@pytest.mark.parametrize("bad", BAD_WORDS)
def test_a_word_that_is_none(bad):
    assert not texts.is_word(bad)
    with pytest.raises(
        DroverError,
        match=r"Instance web: .* cannot be the key of a label. A key has 1 to 63 letters",
    ):
        labels.checked({bad: "x"}, "Instance web")
    with pytest.raises(
        DroverError,
        match=r"Instance web: the label project cannot be .* A value is a text of 1 to 63",
    ):
        labels.checked({"project": bad}, "Instance web")


@pytest.mark.parametrize("value", [7, 1.5, True])
def test_a_value_without_its_quotes(value):
    with pytest.raises(DroverError, match=r"the label rack cannot be .* Put it into quotes\."):
        labels.checked({"rack": value}, "Host kvm1")


@pytest.mark.parametrize("value", [["a"], "a=b", 7])
def test_labels_that_are_no_mapping(value):
    with pytest.raises(DroverError, match="labels must be a mapping such as project: web"):
        labels.checked(value, "Host kvm1")


def test_null_removes_only_where_that_is_meant():
    assert labels.checked({"old": None}, "it", removals=True) == {"old": None}
    with pytest.raises(DroverError, match="the label old cannot be None"):
        labels.checked({"old": None}, "it")


def test_no_more_than_so_many():
    many = {f"key{number}": "x" for number in range(texts.MOST + 1)}
    with pytest.raises(DroverError, match="65 labels are too many. There can be 64"):
        labels.checked(many, "it")
    found, said = labels.from_metadata({"labels": texts.write(many)}, "it")
    assert len(found) == texts.MOST and len(said) == 1
    with pytest.raises(DroverError, match="has 65 parts. It can have 64"):
        labels.parse(",".join(many))


def test_two_labels_of_one_key_are_none():
    assert texts.read("tier=db,a=b,tier=web,tier=x") == (
        {"a": "b"},
        ["tier=db", "tier=web", "tier=x"],
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "  ",
        ",",
        "project=web,",
        "project=",
        "=web",
        "!",
        "!=db",
        "tier!=",
        "a==b",
        "a=b=c",
        "!a=b",
        "!!a",
        "a!",
        "a;b",
        "a b",
        "a>3",
        7,
        None,
        ["a"],
    ],
)
def test_a_malformed_selector(text):
    with pytest.raises(DroverError, match="Write for example project=web,tier!=db,backup,!old"):
        labels.parse(text)


def test_the_four_kinds():
    assert labels.parse("project=web,tier!=db,backup,!old").requirements == (
        Requirement("project", "web"),
        Requirement("tier", "db", negated=True),
        Requirement("backup"),
        Requirement("old", negated=True),
    )
