# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One call of the module _domain_restart: instances started again, or forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .._orders.records import Records
from . import restart
from .restart_images import Surroundings


def restart_all(conn: Any, given: Mapping[str, Any], check_mode: bool) -> dict[str, object]:
    """Restart instances, some at the same time, forget others, and return the result of the
    module.
    """
    records, surroundings = Records(), Surroundings(conn)
    with ThreadPoolExecutor(given["at_once"]) as pool:
        instances = list(
            pool.map(
                lambda each: restart.restart(
                    conn, records, each, given["timeout"], check_mode, surroundings
                ),
                given["instances"],
            )
        )
    forgotten = [restart.forget(conn, records, uuid, check_mode) for uuid in given["forget"]]
    changed = any(each["status"] in ("restarted", "forgotten") for each in instances + forgotten)
    return {"changed": changed, "instances": instances, "forgotten": forgotten}
