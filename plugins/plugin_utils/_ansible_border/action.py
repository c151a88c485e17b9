# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The base class of all action plugins."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display
from ansible.utils.vars import load_extra_vars

from .._common.errors import DroverError
from .._common.plain import to_plain
from .._common.validation import MOST, shown
from .._store import Store
from . import known_variables, options, run_identity, terminal, times
from .machines import Machines
from .options import OptionSpec, Variables
from .remote_module import Hand

STORE_SPEC: dict[str, OptionSpec] = {"store_url": {"type": "str", "no_log": True}}


class StoreArgs(TypedDict):
    """The values of the options of STORE_SPEC."""

    store_url: str | None


def variables_of(task_vars: Variables, host: str) -> Variables:
    """Return the variables of a host in the inventory; none if the inventory does not have it."""
    # Ansible's hostvars has no get(): for an unknown host it returns a value that fails in use.
    known: Any = task_vars.get("hostvars") or {}
    return known[host] if host in known else {}  # noqa: SIM401


#: The TypedDict of the arguments of an action.
Args = TypeVar("Args", bound=Mapping[str, object])


class DroverAction(ActionBase, Generic[Args]):
    """Validate the arguments, call ``act`` and show each DroverError as a message.

    A subclass sets ARGUMENT_SPEC and defines ``act``, which returns plain types. It may set
    VARIABLES: options that the variable ``drover_<option>`` sets too. A pair there is an option and
    the name of its variable without ``drover_``.
    """

    ARGUMENT_SPEC: Mapping[str, Mapping[str, object]] = {}
    REQUIREMENTS: Mapping[str, object] = {}
    VARIABLES: Sequence[str | tuple[str, str]] = ()
    #: Options that a playbook sets from typed variables of other names: {option: variable}.
    TYPED: Mapping[str, str] = {}
    #: Hosts that have another machine now, by the word of a person.
    exchanged: Collection[str] = ()
    _supports_check_mode = True
    _supports_async = False

    def __init_subclass__(cls) -> None:
        # All imported objects stay until the process ends. Without this, the garbage collection at
        # the end of ansible-playbook and of each forked process takes a tenth of the time of a
        # short command.
        super().__init_subclass__()
        gc.freeze()

    def run(self, tmp: Any = None, task_vars: Variables | None = None) -> dict[str, Any]:
        task_vars = task_vars or {}
        result = super().run(tmp, task_vars)
        # A misspelt variable on the command line, or a misspelt value, must not begin a real run,
        # for example instead of a plan.
        typed = known_variables.unknown(load_extra_vars(self._loader))
        typed += known_variables.neither_yes_nor_no(
            self.variables(task_vars), self._templar.template
        )
        if typed:
            raise AnsibleActionFail(f"Nothing was done. {' '.join(typed)}")
        # Ansible shows equal warnings of all tasks and hosts once.
        for sentence in known_variables.unknown({*task_vars, *self.variables(task_vars)}):
            Display().warning(sentence)
        try:
            args = self._arguments(task_vars)
            result.update(times.with_iso(self.act(args, task_vars)))
        except DroverError as problem:
            # Without ``from None``, Ansible would append the text of the cause, which the message
            # already has.
            details = _brief(to_plain(problem.details))
            # A refused check has changed nothing, and a real run would be refused too.
            message = self._typed_name(str(problem), task_vars)
            raise AnsibleActionFail(
                message, result={**details, "changed": False} if self._task.check_mode else details
            ) from None
        result.setdefault("changed", False)
        return result

    def act(self, args: Args, task_vars: Variables) -> Mapping[str, object]:
        raise NotImplementedError

    def store(self, args: Mapping[str, object], task_vars: Variables) -> Store:
        """Open the store of this task. In check mode its writes are rolled back."""
        url = options.store_url(args, task_vars, self._templar)
        return Store.open(
            url,
            self._task.check_mode,
            run_identity.of_task(load_extra_vars(self._loader), self._reason(args, task_vars)),
        )

    def _reason(self, args: Mapping[str, object], task_vars: Variables) -> str:
        """Return the reason of the run, from the option ``reason`` or drover_reason; else empty."""
        reason = args.get("reason")
        if reason is None:
            reason = options.from_variable("reason", self.variables(task_vars), self._templar)
        return "" if reason is None else str(to_plain(reason))

    def machines(self, args: Mapping[str, object], task_vars: Variables) -> Machines:
        """Return the machines that the store of this task has for hosts."""
        return Machines(lambda: self.store(args, task_vars), self.exchanged)

    def hand(
        self,
        args: Mapping[str, object],
        task_vars: Variables,
        go_on: Callable[[], None] = lambda: None,
        host: str | None = None,
    ) -> Hand:
        """Return the way to run modules on the host of this task.

        :param host: its name in the store, if it has another name there.
        """
        return Hand(
            self, host or self.target(task_vars), task_vars, self.machines(args, task_vars), go_on
        )

    def show(self, line: str) -> None:
        """Show a line in the terminal or job log, folded to its width."""
        terminal.show(line)

    def variables(self, task_vars: Variables) -> Variables:
        """Return the variables that set the options of VARIABLES."""
        return task_vars

    def target(self, task_vars: Variables) -> str:
        """Return the inventory host of this task."""
        return str(self._task.delegate_to or task_vars.get("inventory_hostname") or "localhost")

    def _arguments(self, task_vars: Variables) -> Args:
        arguments = dict(self._task.args)
        pairs = [(each, each) if isinstance(each, str) else each for each in self.VARIABLES]
        known = {option: variable for option, variable in pairs if option in self.ARGUMENT_SPEC}
        options.add_variables(arguments, known, self.variables(task_vars), self._templar)
        self._task.args = arguments
        options.refuse_odd(arguments, self.ARGUMENT_SPEC)
        try:
            dummy, args = self.validate_argument_spec(
                argument_spec=self.ARGUMENT_SPEC, **self.REQUIREMENTS
            )
        except AnsibleActionFail as problem:
            message = self._with_variables(
                _without_types(str(problem), arguments, self.ARGUMENT_SPEC), arguments, task_vars
            )
            raise AnsibleActionFail(message + self._typed(message, task_vars)) from None
        args = to_plain(args)
        for name, spec in self.ARGUMENT_SPEC.items():
            # A survey or a command line gives names with commas between them, and a person may add
            # spaces.
            if (
                spec.get("type") == "list"
                and isinstance(arguments.get(name), str)
                and args[name] is not None
            ):
                args[name] = [
                    each.strip() if isinstance(each, str) else each
                    for each in args[name]
                    if each != ""
                ]
            if spec.get("type") in ("int", "float") and args[name] is not None and args[name] < 0:
                raise DroverError(f"{name} must be 0 or more, not {args[name]}.")
            if spec.get("type") == "int" and args[name] is not None and args[name] > MOST:
                raise DroverError(
                    f"{name} must be a whole number from 0 to {MOST}, not {args[name]}."
                )
        return args

    def _typed(self, message: str, task_vars: Variables) -> str:
        """Return a sentence with the variables behind the options of a message, or nothing."""
        named = [
            f"{variable} (option {option})"
            for option, variable in self.TYPED.items()
            if re.search(rf"\b{option}\b", message)
        ]
        return (
            f"{'' if message.endswith('.') else '.'} Set {' or '.join(named)}."
            if named and set(self.TYPED.values()) & set(task_vars)
            else ""
        )

    def _typed_name(self, message: str, task_vars: Variables) -> str:
        """Replace the option at the begin of a sentence by its variable."""
        option, space, rest = message.partition(" ")
        if option not in self.ARGUMENT_SPEC or self._task.args.get(option) is None:
            return message
        return self._variable_of(option, self._task.args[option], task_vars) + space + rest

    def _variable_of(self, option: str, value: Any, task_vars: Variables) -> str:
        """Return the name of the variable that a person typed for an option, else its own name."""
        pairs = [(each, each) if isinstance(each, str) else each for each in self.VARIABLES]
        own = {known: f"{known_variables.PREFIX}{variable}" for known, variable in pairs}
        names = (f"{known_variables.PREFIX}{option}", *sorted(known_variables.KNOWN))
        of_option = [
            name
            for name in names
            if name.endswith(f"_{option}") or name in (own.get(option), self.TYPED.get(option))
        ]
        typed = (
            name
            for name in of_option
            if name in task_vars and str(self._templar.template(task_vars[name])) == str(value)
        )
        return next(typed, option)

    def _with_variables(
        self, message: str, given: Mapping[str, object], task_vars: Variables
    ) -> str:
        """Replace an option in a message by its variable, because a person typed the variable."""
        for option, value in given.items():
            if f"value of {option} " in message or f"argument '{option}'" in message:
                name = self._variable_of(option, value, task_vars)
                message = message.replace(f"value of {option} ", f"value of {name} ").replace(
                    f"argument '{option}'", f"argument '{name}'"
                )
        return message


#: The words of people for the types of options.
_TYPES = {
    "list": "a list",
    "dict": "a mapping",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "path": "a path",
    "str": "a text",
}


def _without_types(
    message: str, given: Mapping[str, object], spec: Mapping[str, Mapping[str, object]]
) -> str:
    """Return a message with words of people in place of the types of Python that Ansible names."""
    match = re.search(
        r"argument '(\w+)' is of type \S+ and we were unable to convert to (\w+): ", message
    )
    if match is None:
        # Items of a list have another message.
        match = re.search(
            r"^Elements value for option '?(\w+)'? is of type \S+ and we were unable to convert to"
            r" (\w+): ",
            message,
        )
        if match is not None and match[2] in _TYPES and not spec.get(match[1], {}).get("no_log"):
            return (
                f"argument '{match[1]}' must be a list of which each item is {_TYPES[match[2]]},"
                f" not {shown(to_plain(given.get(match[1])))}."
            )
        return message
    if match[2] not in _TYPES or spec.get(match[1], {}).get("no_log"):
        return message
    return (
        f"argument '{match[1]}' must be {_TYPES[match[2]]}, not"
        f" {shown(to_plain(given.get(match[1])))}."
    )


#: The keys of each instance and each move in the result of a failed task.
BRIEF = ("uuid", "name", "host", "source", "destination", "state", "status", "changed")


def _brief(details: Any) -> Any:
    """Return details with short records of instances and moves.

    Ansible writes the whole result of a failed task, as JSON, behind the message.
    """
    if isinstance(details, dict):
        return {key: _brief(value) for key, value in details.items()}
    if isinstance(details, list) and all(
        isinstance(each, dict) and {"uuid", "name"} <= set(each) for each in details
    ):
        return [{key: each[key] for key in BRIEF if key in each} for each in details]
    return details


def difference(
    name: str, before: Mapping[str, object] | None, after: Mapping[str, object] | None
) -> dict[str, object]:
    """Return an entry of ``diff``; None stands for a thing that does not exist.

    The uuid is left out, because check mode cannot know the uuid of a real run.
    """
    shown = [
        {key: value for key, value in (each or {}).items() if key != "uuid"}
        for each in (before, after)
    ]
    return {"before": shown[0], "after": shown[1], "before_header": name, "after_header": name}
