# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recorded small cases that Nova itself answered; benchmarks/compare_numa.py compares many more."""

from __future__ import annotations

import json
import pathlib

import pytest

from ansible_collections.drover.compute.tests.benchmarks import compare_numa, numa

RECORDED = json.loads(pathlib.Path(__file__).with_name("nova_vectors.json").read_text())
#: Nova's exception -> our exception, for features that drover does not have.
UNSUPPORTED = (
    "RealtimeMaskNotFoundOrInvalid",
    "RealtimeConfigurationInvalid",
    "LockMemoryForbidden",
)


def document_of(case):
    document = case["document"]
    hosts = [
        {**host, "cells": [RECORDED["cells"][cell] for cell in host["cells"]]}
        for host in document["hosts"]
    ]
    return {
        **document,
        "hosts": hosts,
        "alias": [RECORDED["aliases"][alias] for alias in document["alias"]],
    }


def test_no_case_is_lost():
    assert len(RECORDED["cases"]) == 109
    assert sum(answer["fits"] for case in RECORDED["cases"] for answer in case["answers"]) > 40


@pytest.mark.parametrize(
    "case", RECORDED["cases"], ids=lambda case: f"{case['number']}-{case['words']}"
)
def test_the_answer_is_nova_s(case):
    document = document_of(case)
    ours = [json.loads(json.dumps(answer)) for answer in numa.answers(document)]
    assert len(ours) == len(case["answers"]) == 1
    theirs = case["answers"][0]
    if (theirs["why"] or "").split(":")[0] in UNSUPPORTED:
        assert ours[0]["why"].startswith("Unsupported: ")
    else:
        assert compare_numa.differences(theirs, ours[0], compare_numa.cores_of(document)) == []
