# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A terminal with some lines, as an SVG: the text scales, can be searched, and a screen reader can
read it."""

from __future__ import annotations

import html

#: Pixels of a character and of a line, in a font of 14 pixels.
CHARACTER, LINE, EDGE, BAR = 8.43, 20, 16, 34
INK, PAPER, FRAME, PROMPT, GOOD = "#d7dde5", "#161b22", "#2d333b", "#7ee2a8", "#ffd479"


def terminal(lines: list[str], title: str, description: str) -> str:
    """Draw lines. Lines that begin with "$ " are commands; lines with the new host of an instance
    are highlighted.

    :param title: title of the window.
    :param description: text for readers who do not see the picture.
    """
    width = round(max(len(line) for line in lines) * CHARACTER + 2 * EDGE)
    height = BAR + len(lines) * LINE + EDGE
    text = []
    for number, line in enumerate(lines):
        colour = (
            PROMPT
            if line.startswith("$ ")
            else GOOD
            if " there after " in line or " is empty " in line
            else INK
        )
        if line:
            place = f'x="{EDGE}" y="{BAR + (number + 1) * LINE - 4}" fill="{colour}"'
            # The computed width, for any font of the reader.
            text.append(
                f'  <text {place} textLength="{len(line) * CHARACTER:.1f}"'
                f' xml:space="preserve">{html.escape(line, quote=False)}</text>'
            )
    dots = "".join(
        f'<circle cx="{EDGE + 4 + 18 * number}" cy="{BAR // 2}" r="5" fill="#57606a"/>'
        for number in range(3)
    )
    return "\n".join(
        [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
                f' width="{width}" height="{height}" role="img"'
            ),
            (
                "  font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans"
                ' Mono\', monospace" font-size="14">'
            ),
            f"  <title>{html.escape(title)}</title>",
            f"  <desc>{html.escape(description)}</desc>",
            f'  <rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
            (
                f'  <path d="M0 {BAR}V8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{BAR - 8}z"'
                f' fill="{FRAME}"/>'
            ),
            f"  {dots}",
            (
                f'  <text x="{width / 2:.0f}" y="{BAR // 2 + 5}" fill="{INK}"'
                f' text-anchor="middle">{html.escape(title)}</text>'
            ),
            *text,
            "</svg>",
            "",
        ]
    )
