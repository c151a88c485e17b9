# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The instances of a task: by their names, or by a selector of labels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypedDict

from .._common import labels
from .._common.errors import DroverError
from .._records.labels import Selector
from .._store.engine import Store
from .._store.instances import labels as label_rows
from .options import OptionSpec

SELECTOR_SPEC: dict[str, OptionSpec] = {"selector": {"type": "str"}}


class SelectorArgs(TypedDict):
    """The values of the options of SELECTOR_SPEC."""

    selector: str | None


#: A name that needs no quotes in a shell or in a list with commas.
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


def selector_of(args: Mapping[str, object], *others: str) -> Selector | None:
    """Return the selector of a task.

    :param others: options that may not be set with it.
    :raises DroverError: it is malformed, or one of the others is also set.
    """
    text = args["selector"]
    if text is None:
        return None
    for name in others:
        if args.get(name):
            raise DroverError(
                f"Give {name} or a selector, not both: {name} (drover_{name}) is {args[name]!r},"
                f" the selector (drover_selector) is {text!r}. Nothing was done."
            )
    return labels.parse(text)


def instances(
    store: Store, args: Mapping[str, Any], show: Callable[[str], None] = lambda line: None
) -> list[Any]:
    """Return the instances of a task.

    :param args: arguments with instances, selector and perhaps name and uuid.
    :param show: a function that gets a line with the names from a selector.
    :returns: names, uuids, or mappings of both; for a selector mappings. It may be empty without a
        selector.
    :raises DroverError: the selector is malformed or selects no instance, or names are given too.
    """
    selector = selector_of(args, "instances", "name", "uuid")
    if selector is None:
        if args["instances"] is not None:
            return list(args["instances"])
        given = {key: args[key] for key in ("name", "uuid") if args.get(key) is not None}
        return [given] if given else []
    with store.read() as connection:
        selected = label_rows.instances(connection, selector)
    show(
        f"The selector {selector} selects {len(selected)}:"
        f" {', '.join(each['name'] for each in selected)}"
    )
    return list(selected)


def refuse_unseen(selector: str, found: Iterable[Mapping[str, str]]) -> None:
    """Refuse to remove the selection of a selector, because the user may not have seen it.

    :param found: the result of instances().
    :raises DroverError: always; the message has the names.
    """
    names = [each["name"] for each in found]
    words = [
        (
            each["name"]
            if _PLAIN.fullmatch(each["name"]) and names.count(each["name"]) == 1
            else each["uuid"]
        )
        for each in found
    ]
    raise DroverError(
        f"Nothing was removed: a selector may select more than you have in mind. {selector} selects"
        f" {', '.join(names)}. To remove these, name them in its place: -e"
        f" drover_instances={','.join(words)}, or instances: [{', '.join(words)}] in a task."
    )
