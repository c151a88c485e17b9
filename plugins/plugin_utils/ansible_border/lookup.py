# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every lookup of the collection does around its one call of the engine."""

from __future__ import annotations

from ansible.errors import AnsibleError
from ansible.plugins.lookup import LookupBase

from ansible_collections.drover.compute.plugins.plugin_utils import validation
from ansible_collections.drover.compute.plugins.plugin_utils.ansible_border import options
from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain
from ansible_collections.drover.compute.plugins.plugin_utils.scheduler import policy_file
from ansible_collections.drover.compute.plugins.plugin_utils.store import Store


def flat(terms):
    """Terms of a lookup where each is one thing or a list of such things: one list."""
    return [each for term in terms for each in (term if isinstance(term, list) else [term])]


class DroverLookup(LookupBase):
    """Collects options, calls ``answer`` and turns failures into sentences. It never writes.

    A subclass sets VARIABLES ({option: variable without ``drover_``}) and writes
    ``answer(terms) -> list`` of plain types.
    """

    VARIABLES = {}

    def run(self, terms, variables=None, **kwargs):
        try:
            self._collect(variables or {}, to_plain(kwargs))
            return self.answer(to_plain(terms))
        except DroverError as problem:
            raise AnsibleError(str(problem)) from None

    def answer(self, terms):
        raise NotImplementedError

    def policy(self):
        """The scheduler policy of the options ``policy`` and ``policy_file``, the first over the second."""
        given, file = self.get_option("policy"), self.get_option("policy_file")
        return policy_file.combined(given, file, self._playbook_folder)

    def store(self):
        """The Store to read."""
        return Store.open(self._store_url)

    def _collect(self, variables, given):
        known = sorted({*self.VARIABLES, "store_url", *getattr(self, "OPTIONS", ())})
        validation.check_keys("This lookup", given, known, "option")
        self._playbook_folder = variables.get("playbook_dir")
        self._store_url = options.store_url(given, variables, self._templar)
        # A value that Ansible itself takes from a variable arrives untemplated.
        for option, variable in self.VARIABLES.items():
            if given.get(option) is None:
                value = options.from_variable(variable, variables, self._templar)
                if value is not None:
                    given[option] = to_plain(value)
        self.set_options(direct={option: value for option, value in given.items() if value is not None})
