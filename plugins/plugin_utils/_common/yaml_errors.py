# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The faults of a YAML file, in words for people who do not know how a YAML reader works."""

from __future__ import annotations

import re
from typing import Any

#: Pairs of a regular expression over the reader's context and problem, and the fault in words for
#: people. The first match counts.
_WORDS = (
    (r"character '\\t'", "there is a tab. Indent with blanks only"),
    (r"quoted scalar", "a quote (\" or ') is opened and not closed"),
    (
        r"expected ',' or '\]'",
        "a list that begins with [ has no ] at its end, or a comma is missing in it",
    ),
    (
        r"expected ',' or '\}'",
        "a mapping that begins with { has no } at its end, or a comma is missing in it",
    ),
    (
        r"mapping values are not allowed",
        (
            "this line has a second colon or does not fit the line above. Put text with a colon"
            " into quotes"
        ),
    ),
    (
        r"could not find expected ':'",
        "the line above has no colon after its key, or is not indented as the lines around it",
    ),
    (r'duplicate key (".*?")', r"the key \1 stands twice. Remove one of them"),
    (r"single document", "a second document begins here, behind ---. Write all into one document"),
    (r"undefined alias", "an alias (*name) has no anchor (&name) above it"),
    (
        r"expected <block end>|did not find expected|expected the node content",
        "this line is not indented as the lines above it",
    ),
    (r"cannot start any token", "this character may not begin a text. Put the text into quotes"),
    (r"found a tab|tab character", "there is a tab. Indent with blanks only"),
)


def in_words(problem: Any) -> str:
    """Return the fault as part of a sentence.

    :param problem: an error of the reader, with ``context`` and ``problem`` if it has them.
    """
    message = " ".join(
        str(each)
        for each in (getattr(problem, "context", None), getattr(problem, "problem", None))
        if each
    )
    for pattern, words in _WORDS:
        found = re.search(pattern, message)
        if found:
            return found.expand(words)
    return f"this is not YAML ({message or ' '.join(str(problem).split())})"
