# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims and moves against a model in plain Python: the same answers, the same sums, never too
much.
"""

from __future__ import annotations

import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansible_collections.drover.compute.plugins.plugin_utils._common import certainty
from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils._migrations import (
    claims as migration_claims,
)
from ansible_collections.drover.compute.plugins.plugin_utils._placement import claims
from ansible_collections.drover.compute.plugins.plugin_utils._store import Store
from ansible_collections.drover.compute.plugins.plugin_utils._store.instances import migrations_open
from ansible_collections.drover.compute.plugins.plugin_utils._store.schema import tables
from ansible_collections.drover.compute.tests.unit.store import fleets

PROOF = certainty.word("a test")

# host -> (VCPU, reserved, ratio, MEMORY_MB). Capacities of 4.5, 3, 2 and 8 VCPU.
HOSTS = {
    "kvm1": (3, 0, 1.5, 900),
    "kvm2": (4, 1, 1.0, 600),
    "kvm3": (2, 0, 1.0, 1000),
    "kvm4": (4, 2, 4.0, 300),
}
NAMES = ("a", "b", "c", "d", "e", "f")
REFUSED = "refused"

hosts = st.sampled_from(sorted(HOSTS))
names = st.sampled_from(NAMES)
steps = st.one_of(
    st.tuples(
        st.just("claim"),
        names,
        st.lists(hosts, min_size=1, max_size=3, unique=True),
        st.integers(0, 5),
        st.sampled_from([0, 100, 300, 700]),
    ),
    st.tuples(st.just("begin"), names, hosts),
    st.tuples(st.sampled_from(["build", "finish", "undo", "release"]), names),
)


class Model:
    """The model of the store's answers and allocations."""

    def __init__(self):
        self.place, self.amounts, self.active, self.open = {}, {}, set(), {}

    def used(self, host, resource):
        """Return the use of a host: by its instances, and by the instances that move to it."""
        takers = [name for name, place in self.place.items() if place == host]
        takers += [name for name, place in self.open.items() if place == host]
        return sum(self.amounts[name][resource] for name in takers)

    def fits(self, host, amounts):
        vcpus, reserved, ratio, memory_mb = HOSTS[host]
        limits = ((vcpus - reserved) * ratio, memory_mb), (vcpus, memory_mb)
        return all(
            not amounts[resource]
            or (
                self.used(host, resource) + amounts[resource] <= limits[0][resource]
                and amounts[resource] <= limits[1][resource]
            )
            for resource in (0, 1)
        )

    def claim(self, name, places, *amounts):
        if name not in self.place:
            host = next((host for host in places if self.fits(host, amounts)), None)
            if host is None:
                return REFUSED
            self.place[name], self.amounts[name] = host, amounts
        return self.place[name]

    def build(self, name):
        if name in self.place:
            self.active.add(name)

    def begin(self, name, host):
        if self.place.get(name) in (None, host):
            return REFUSED
        if name not in self.active:
            return REFUSED
        if name in self.open:
            return host if self.open[name] == host else REFUSED
        if not self.fits(host, self.amounts[name]):
            return REFUSED
        self.open[name] = host
        return host

    def finish(self, name):
        if name in self.open:
            self.place[name] = self.open.pop(name)

    def undo(self, name):
        self.open.pop(name, None)

    def release(self, name):
        if name in self.active or name in self.open:
            return REFUSED
        return [fleets.uuid_of(name)] if self.place.pop(name, None) else []


class Real:
    """The same operations through the store, each in one transaction."""

    def __init__(self, url):
        self.url = url

    def _do(self, function, *arguments):
        try:
            with Store.open(self.url).write(together=True) as connection:
                return function(connection, *arguments)
        except DroverError:
            return REFUSED

    def claim(self, name, places, vcpus, memory_mb):
        wanted = fleets.selection(name, *places, vcpus=vcpus, memory_mb=memory_mb)
        found = self._do(claims.claim, [wanted], fleets.NOW)
        return found if found == REFUSED else found[0]["host"]

    def build(self, name):
        table = tables.instances
        statement = (
            sa.update(table).where(table.c.uuid == fleets.uuid_of(name)).values(state="active")
        )
        self._do(lambda connection: connection.execute(statement))

    def begin(self, name, host):
        outcome = self._do(
            migration_claims.begin, fleets.uuid_of(name), host, None, "migration", fleets.NOW
        )
        return outcome if outcome == REFUSED else outcome["destination"]

    def _close(self, name, function, *arguments):
        def close(connection):
            for row in migrations_open.holding(connection, [fleets.uuid_of(name)]).values():
                function(connection, row.uuid, *arguments, fleets.NOW)

        return self._do(close)

    def finish(self, name):
        return self._close(name, migration_claims.finish, PROOF, "running")

    def undo(self, name):
        return self._close(name, migration_claims.undo, PROOF, "no")

    def release(self, name):
        return self._do(claims.release, [fleets.uuid_of(name)], PROOF, fleets.NOW)


def empty(url):
    """Return a store with HOSTS and no instances."""
    fleets.empty(url)
    fleets.discover(
        url,
        *(
            fleets.host(
                name,
                vcpus=vcpus,
                reserved_host_cpus=reserved,
                cpu_allocation_ratio=ratio,
                memory_mb=memory_mb,
            )
            for name, (vcpus, reserved, ratio, memory_mb) in HOSTS.items()
        ),
    )


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(sequence=st.lists(steps, min_size=4, max_size=25))
def test_the_store_agrees_with_the_model(prepared_url, sequence):
    empty(prepared_url)
    model, real = Model(), Real(prepared_url)
    for number, (verb, *arguments) in enumerate(sequence):
        assert getattr(real, verb)(*arguments) == getattr(model, verb)(*arguments), sequence[
            : number + 1
        ]
    columns = fleets.columns(prepared_url)
    for place, host in enumerate(columns["host"]):
        for number, resource in enumerate(("VCPU", "MEMORY_MB")):
            column = {
                field: values[place] for field, values in columns["resources"][resource].items()
            }
            assert column["used"] == model.used(host, number)
            assert column["used"] <= (column["total"] - column["reserved"]) * column["ratio"]
    assert fleets.where(prepared_url) == model.place
    holdings = fleets.holdings(prepared_url)
    # Each holder is one consumer, with a second one (its migration) while it moves.
    taking = [name for name in model.place if any(model.amounts[name])]
    assert len(holdings) == len(taking) + sum(1 for name in taking if name in model.open)
    assert all(len(places) == 1 for places in holdings.values())
