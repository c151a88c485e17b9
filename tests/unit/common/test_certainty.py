# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Uncertain unless proven: only the hypervisor's own answer is a proof, for any form of the
answer.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=2),
    max_leaves=3,
)
KEYS = (
    "failed",
    "msg",
    "begun",
    "domain_left",
    "changed",
    "domain",
    "module_stdout",
    "unreachable",
    "timedout",
    "rc",
)
STATES = (
    None,
    "absent",
    "running",
    "blocked",
    "paused",
    "shutoff",
    "crashed",
    "pmsuspended",
    "shutdown",
    "nostate",
)
ORDER = {"source": "kvm1", "destination": "kvm2"}


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING))
def test_a_failure_proves_nothing_unless_the_module_says_so(result):
    answer = certainty.judge(result)
    if not result.get("failed"):
        assert answer.outcome == certainty.DONE
    elif result.get("begun") is False:
        assert answer.outcome == certainty.NOTHING and answer.message
    else:
        assert answer.outcome == certainty.UNCERTAIN and answer.message


@given(st.dictionaries(st.sampled_from(KEYS), ANYTHING))
def test_only_a_host_without_the_domain_lets_it_be_built_elsewhere(result):
    proof = certainty.unable("kvm1", certainty.judge(result))
    assert (proof is not None) == (
        bool(result.get("failed"))
        and result.get("begun") is False
        and result.get("domain_left") is False
    )


def test_a_lost_host_proves_nothing():
    assert certainty.unable("kvm1", certainty.lost("kvm1 was lost")) is None
    assert certainty.is_absent("kvm1", None) is None
    assert certainty.has_not_left("kvm1", None) is None


@given(
    st.booleans(),
    st.none() | st.builds(lambda state: {"state": state}, st.sampled_from(STATES[2:])),
)
def test_a_look(busy, domain):
    look = {"uuid": "x", "busy": busy, "domain": domain}
    assert (certainty.is_absent("kvm1", look) is not None) == (not busy and domain is None)
    assert (certainty.has_not_left("kvm1", look) is not None) == (not busy and domain is not None)


@given(
    st.sampled_from(("completed", "failed", "cancelled", "conflict", "lost", "running", None)),
    st.sampled_from(STATES),
    st.sampled_from(STATES),
    st.booleans(),
)
def test_the_ends_of_a_move(status, here, there, opened):
    result = {"status": status, "source_state": here, "destination_state": there}
    arrived = certainty.has_arrived(ORDER, result)
    assert (arrived is not None) == (
        status == "completed" and here == "absent" and there not in (None, "absent")
    )
    stayed = certainty.has_stayed(ORDER, result, opened)
    if stayed is not None:
        assert here not in (None, "absent"), "what was not seen at the source did not stay there"
        assert there is not None or here in ("running", "blocked") or opened


PLACES = st.dictionaries(
    st.sampled_from(("kvm1", "kvm2", "kvm3")), st.none() | st.sampled_from(STATES[2:])
)


@given(PLACES, st.lists(st.sampled_from(("kvm2", "kvm3"))))
def test_a_start(seen, silent):
    proof = certainty.may_start("kvm1", "x", seen, silent)
    if any(state for host, state in seen.items() if host != "kvm1"):
        assert proof is None
    elif seen.get("kvm1") not in ("running", "blocked"):
        assert (proof is None) == bool(silent)
    if proof is not None:
        certainty.require_starts([proof], "kvm1", ["x"])
        for host, uuids in (("kvm2", ["x"]), ("kvm1", ["x", "y"])):
            with pytest.raises(TypeError):
                certainty.require_starts([proof], host, uuids)


@pytest.mark.parametrize("guess", [None, False, "it failed", {"sentence": "x"}, 0])
def test_a_guess_is_no_proof(guess):
    with pytest.raises(TypeError):
        certainty.require(guess)
    certainty.require(certainty.word("somebody"))
