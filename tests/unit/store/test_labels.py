# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Labels in the store, on both databases: the writes of a discovery, and the result of a
selector.
"""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common import labels
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._records.labels import (
    Requirement,
    Selector,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import instances
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import (
    labels as label_rows,
)
from ansible_collections.drover.compute.plugins.plugin_utils._store.reports import hosts
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.plugins.plugin_utils._tracker import node_data
from ansible_collections.drover.compute.tests.unit.store import fleets
from ansible_collections.drover.compute.tests.unit.store.fleets import domain, host

# Few labels, so that selectors match; with all characters that may break a path in JSON.
KEYS = ("a", "b", "a.b", "a/b", "a-b", "a_b", "0", "Project", "project", "null", "length")
VALUES = ("x", "y", "0", "7", "true", "null", "x.y")
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), max_size=4)
REQUIREMENTS = st.builds(
    Requirement, st.sampled_from(KEYS), st.none() | st.sampled_from(VALUES), st.booleans()
)
SELECTORS = st.lists(REQUIREMENTS, min_size=1, max_size=4).map(lambda found: Selector(tuple(found)))


def labelled(name, text, **more):
    return domain(name, metadata={"labels": text, "project": "p"}, **more)


def of_instances(url):
    with Store.open(url).read() as connection:
        return {each["name"]: each["labels"] for each in instances.listing(connection)}


def of_hosts(url):
    with Store.open(url).read() as connection:
        return {each["host"]: each["labels"] for each in hosts.states(connection, fleets.NOW)}


def chosen(url, text):
    with Store.open(url).read() as connection:
        return [each["name"] for each in label_rows.instances(connection, labels.parse(text))]


def refused(url, text):
    with pytest.raises(DroverError) as caught:
        chosen(url, text)
    return str(caught.value)


def meets(found, selector):
    """Return True if the labels match a selector; the function uses no SQL."""
    for key, value, negated in selector.requirements:
        there = key in found and value in (None, found[key])
        if there == negated:
            return False
    return True


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(LABELS, min_size=1, max_size=6), st.lists(SELECTORS, min_size=1, max_size=6))
def test_both_databases_select_what_a_selector_means(prepared_url, given_labels, selectors):
    table = tables.instances
    with Store.open(prepared_url).write() as connection:
        connection.execute(sa.delete(table))
        for number, label_set in enumerate(given_labels):
            row = {
                "uuid": fleets.uuid_of(str(number)),
                "name": f"i{number}",
                "state": "active",
                "vcpus": 1,
                "memory_mb": 1,
                "disk_gb": 0,
            }
            connection.execute(
                sa.insert(table).values(**row, labels=label_set or None, created_at=0.0)
            )
        for selector in selectors:
            expected = [
                f"i{number}" for number, found in enumerate(given_labels) if meets(found, selector)
            ]
            assert [
                each["name"] for each in instances.listing(connection, selector=selector)
            ] == expected, selector


def test_a_discovery_writes_what_hosts_have(prepared_url):
    fleet = [
        host(
            "kvm1", labelled("web", "project=web,tier=front"), domain("bare"), labels={"rack": "7"}
        ),
        host("kvm2"),
    ]
    assert fleets.discover(prepared_url, *fleet)["changed"] is True
    assert fleets.discover(prepared_url, *fleet)["changed"] is False
    assert of_instances(prepared_url) == {"web": {"project": "web", "tier": "front"}, "bare": {}}
    assert of_hosts(prepared_url) == {"kvm1": {"rack": "7"}, "kvm2": {}}
    # Labels that a host no longer shows are removed.
    assert (
        fleets.discover(prepared_url, host("kvm1", labelled("web", "tier=db"), domain("bare")))[
            "changed"
        ]
        is True
    )
    assert (
        of_instances(prepared_url)["web"] == {"tier": "db"} and of_hosts(prepared_url)["kvm1"] == {}
    )
    assert (
        fleets.discover(
            prepared_url,
            host("kvm1", labelled("web", "tier=db"), domain("bare"), labels={"rack": "8"}),
        )["changed"]
        is True
    )
    assert of_hosts(prepared_url)["kvm1"] == {"rack": "8"}


def test_labels_of_a_domain_that_cannot_be_read_are_named_and_ignored(prepared_url):
    nodes = [host("kvm1", labelled("web", "project=web,b ad=x,tier=1,tier=2"))]
    (report,) = node_data.reports(nodes, "kvm1", {})["kvm1"]
    assert len(report["warnings"]) == 1
    said = report["warnings"][0]
    assert said.startswith(
        f"Instance web ({fleets.uuid_of('web')}): these parts of its labels cannot be read, and"
        " were ignored: 'b ad=x', 'tier=1', 'tier=2'. A key"
    )
    fleets.discover(prepared_url, *nodes)
    assert of_instances(prepared_url) == {"web": {"project": "web"}}


@pytest.mark.parametrize("bad", [{"rack": 7}, {"ra ck": "7"}, {"rack": "7" * 64}])
def test_bad_labels_of_a_host_stop_its_discovery(prepared_url, bad):
    with pytest.raises(DroverError, match=r"Host kvm1 \(drover_labels\): "):
        fleets.discover(prepared_url, host("kvm1", labels=bad))
    assert of_hosts(prepared_url) == {}


def test_two_nodes_of_a_host_have_one_set_of_labels(prepared_url):
    nodes = [host("kvm1", hypervisor_hostname=name, labels={"rack": name}) for name in ("n1", "n2")]
    with pytest.raises(DroverError, match="Host kvm1 would have two sets of labels"):
        fleets.discover(prepared_url, *nodes)


def test_a_selection(prepared_url):
    fleets.discover(
        prepared_url,
        host(
            "kvm1",
            labelled("web2", "project=web"),
            labelled("web1", "project=web,tier=db"),
            labelled("x", "old=1"),
            domain("y"),
        ),
    )
    assert chosen(prepared_url, "project=web") == ["web1", "web2"]
    assert chosen(prepared_url, "project=web,tier!=db") == ["web2"]
    assert chosen(prepared_url, "!project") == ["x", "y"]
    assert chosen(prepared_url, "project,old!=1") == ["web1", "web2"]


def test_what_selects_none_is_refused_with_the_nearest_key(prepared_url):
    fleets.discover(prepared_url, host("kvm1", labelled("web", "project=web,tier=db"), domain("y")))
    assert (
        refused(prepared_url, "project=wbe")
        == "The selector project=wbe selects no instance. Nothing was done."
    )
    said = refused(prepared_url, "projct=web")
    assert (
        said
        == "The selector projct=web selects no instance. No instance has a label projct (did you"
        " mean project?). Nothing was done."
    )


@pytest.mark.parametrize("selector", ["teir!=db", "!teir", "project=web,teir!=db"])
def test_a_misspelt_exclusion_does_not_select_all(prepared_url, selector):
    """Otherwise a typing error would stop the instances that should be left out."""
    fleets.discover(prepared_url, host("kvm1", labelled("web", "project=web,tier=db"), domain("y")))
    refusal = refused(prepared_url, selector)
    assert (
        "No instance has a label teir (did you mean tier?), so that" in refusal
        and "would exclude none. Nothing was done." in refusal
    )
    # A reading is harmless.
    with Store.open(prepared_url).read() as connection:
        assert instances.listing(connection, selector=labels.parse(selector))


def test_a_selection_is_few_queries(prepared_url):
    counts = set()
    for size in (2, 40):
        fleets.discover(
            prepared_url,
            host(
                "kvm1", *(labelled(f"i{number}", "project=web") for number in range(size)), vcpus=64
            ),
        )
        with Store.open(prepared_url).read() as connection:
            counts.add(
                fleets.count_queries(
                    connection,
                    lambda opened: label_rows.instances(opened, labels.parse("project=web")),
                )
            )
    assert counts == {1}


def test_hosts_are_selected(prepared_url):
    fleets.discover(
        prepared_url,
        host("kvm1", labels={"rack": "7"}),
        host("kvm2", labels={"rack": "8"}),
        host("kvm3"),
    )
    with Store.open(prepared_url).read() as connection:
        for text, expected in (
            ("rack=7", ["kvm1"]),
            ("rack", ["kvm1", "kvm2"]),
            ("rack!=7", ["kvm2", "kvm3"]),
            ("row", []),
        ):
            selector = labels.parse(text)
            assert [
                each["host"] for each in hosts.states(connection, fleets.NOW, selector=selector)
            ] == expected
            assert [
                each["host"] for each in hosts.listing(connection, fleets.NOW, selector=selector)
            ] == expected
        said = label_rows.no_host(connection, labels.parse("rakc=1"))
    assert (
        said
        == "The selector rakc=1 selects no host. No host has a label rakc (did you mean rack?)."
    )


def test_a_selector_of_the_most_parts(prepared_url):
    """The database must accept the label."""
    fleets.discover(prepared_url, host("kvm1", labelled("web", "project=web")))
    with Store.open(prepared_url).read() as connection:
        longest = labels.parse(",".join(f"k{number}!={'x' * 63}" for number in range(64)))
        assert [each["name"] for each in instances.listing(connection, selector=longest)] == ["web"]
