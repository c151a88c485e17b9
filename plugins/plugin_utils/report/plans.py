# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans for the whole fleet as lines of text."""

from __future__ import annotations

from ansible_collections.drover.compute.plugins.plugin_utils.report.columns import align


def rolling_lines(plan):
    """A rolling plan: the batches, and what is in none.

    :param plan: what plan_rolling returns.
    """
    batches, blocked = plan["batches"], plan["blocked"]
    count = sum(len(batch) for batch in batches)
    lines = [f"{count} host{'' if count == 1 else 's'} in {len(batches)} batch{'' if len(batches) == 1 else 'es'}."]
    lines.extend(f"  {number}. {', '.join(batch)}" for number, batch in enumerate(batches, start=1))
    if blocked:
        lines.append("In no batch:")
        lines.extend(f"  {each['host']}: {each['reason']}" for each in blocked)
    return lines


def rebalance_lines(plan):
    """A rebalance: the score, the moves with their gains, why no more.

    :param plan: what plan_rebalance returns, and cooling, a list of names.
    """
    moves = plan["moves"]
    lines = [f"Score {plan['score_before']:.4f}, {plan['score_after']:.4f} after {_moves(moves)}."]
    if moves:
        rows = [
            [
                each["wave"],
                each["name"],
                each["memory_mb"],
                f"{each['from_host']} -> {each['host']}",
                "live" if each["live"] else "cold",
                f"{each['gain']:.4f}",
            ]
            for each in moves
        ]
        lines.extend(
            align(
                ("WAVE", "INSTANCE", "MiB", "FROM -> TO", "HOW", "GAIN"),
                rows,
                right=("WAVE", "MiB", "GAIN"),
                indent="  ",
            )
        )
    lines.append(f"No more, as {plan['reason']}.")
    if plan["cooling"]:
        lines.append(f"Moved too recently: {', '.join(plan['cooling'])}.")
    return lines


def home_lines(plan):
    """The way home after maintenance.

    :param plan: what plan_return returns.
    """
    lines = [f"{_moves(plan['moves'])} home.".capitalize()]
    lines.extend(f"  {each['name']}: {each['from_host']} -> {each['host']}" for each in plan["moves"])
    lines.extend(f"  {each['name']} stays: {each['reason']}" for each in plan["staying"])
    return lines


def _moves(moves):
    return "no move" if not moves else "1 move" if len(moves) == 1 else f"{len(moves)} moves"
