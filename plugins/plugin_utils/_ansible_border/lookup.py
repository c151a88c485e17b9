# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of all lookups."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from .._common import validation
from .._common.errors import DroverError
from .._common.plain import to_plain
from .._conductor.own_machines import OwnMachines
from .._scheduler import policy_file
from .._scheduler.policy import Policy
from .._store import Store
from . import options, own_known
from .options import Variables


def flat(terms: Iterable[Any]) -> list[Any]:
    """Flatten terms into one list; a term may be a list itself."""
    return [each for term in terms for each in (term if isinstance(term, list) else [term])]


class DroverLookup(LookupBase):
    """Collect the options, call ``answer`` and show each DroverError as a message. It never writes.

    A subclass defines ``answer``. Its result must be data for to_plain(). The subclass sets
    VARIABLES ({option: variable without ``drover_``}) and OPTIONS (options without a variable).
    """

    VARIABLES: dict[str, str] = {}
    OPTIONS: Sequence[str] = ()

    def run(self, terms: Any, variables: Variables | None = None, **kwargs: Any) -> list[Any]:
        try:
            self._collect(variables or {}, to_plain(kwargs))
            options.refuse_odd({"A term of this lookup": to_plain(terms)})
            return [to_plain(each) for each in self.answer(to_plain(terms))]
        except DroverError as problem:
            raise AnsibleError(str(problem)) from None

    def answer(self, terms: list[Any]) -> list[Any]:
        raise NotImplementedError

    def policy(self) -> Policy:
        """Return the scheduler policy; ``policy`` overrides ``policy_file``."""
        given, file = self.get_option("policy"), self.get_option("policy_file")
        return policy_file.combined(given, file, self._playbook_folder)

    def store(self) -> Store:
        """Open the store."""
        return Store.open(self._store_url)

    def own(self, store: Store) -> OwnMachines:
        """Return the controller and the server of the store, if they are in this fleet."""
        return own_known.machines(store, self._variables, self._templar)

    def _collect(self, variables: Variables, given: dict[str, object]) -> None:
        known = sorted({*self.VARIABLES, "store_url", *self.OPTIONS})
        validation.check_keys("This lookup", given, known, "option")
        options.refuse_odd(given)
        folder = variables.get("playbook_dir")
        self._playbook_folder = None if folder is None else str(folder)
        self._variables = variables
        self._store_url = options.store_url(given, variables, self._templar)
        # Ansible does not template values that it takes from a variable.
        for option, variable in self.VARIABLES.items():
            if given.get(option) is None:
                value = options.from_variable(variable, variables, self._templar)
                if value is not None:
                    given[option] = to_plain(value)
        self.set_options(
            direct={option: value for option, value in given.items() if value is not None}
        )
