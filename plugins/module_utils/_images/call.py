# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""One call of the module _image_file: an image is brought into the cache, or the cache is
cleaned.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ansible.module_utils.basic import AnsibleModule

from .._files.problem import Problem
from .._ownership import ownership
from .cache import (
    AbsentSource,
    CachedImage,
    Cleaning,
    ImageUnfinished,
    OtherContent,
    UnreadableSource,
)
from .images import ImageProblem


def _fail(module: AnsibleModule, problem: Exception, **more: int) -> None:
    """End the module with the sentence of a problem, and with its kind, which decides about the
    caller's next step.
    """
    kinds = {"other_content": OtherContent, "unread": UnreadableSource, "absent": AbsentSource}
    module.fail_json(
        msg=str(problem),
        **{name: isinstance(problem, kind) for name, kind in kinds.items()},
        **more,
    )


@contextlib.contextmanager
def failures_of_kinds(module: AnsibleModule) -> Iterator[None]:
    """End the module with the kind of a problem, which decides about the next step of the
    caller.
    """
    try:
        yield
    except Problem as problem:
        _fail(module, problem)


def bring(module: AnsibleModule) -> dict[str, object]:
    """Bring the image into the cache, within the time of this call."""
    params = module.params
    cached = CachedImage(params["folder"], params["name"], params["checksum"])
    if cached.is_there():
        if not module.check_mode:
            cached.mark_used()
        return {"changed": False, "image": cached.path, "done": True, "before": 0}
    if module.check_mode:
        return {
            "changed": True,
            "image": cached.path,
            "done": False,
            "before": 0,
            "size": 0,
            "total": None,
        }
    try:
        changed = cached.bring(params["url"], params["path"], params["seconds"], params["peer"])
    except ImageUnfinished as so_far:
        params = {**params, "uploaded": False}
        found = {"done": False, "size": so_far.size, "total": so_far.total}
        return {"changed": True, "image": cached.path, "before": cached.begun, **found}
    except ImageProblem as exc:
        _fail(module, exc, before=cached.begun)
        raise
    finally:
        if params["uploaded"] and params["path"]:
            ownership.drop_temporary(params["path"])
    return {"changed": changed, "image": cached.path, "done": True, "before": cached.begun}


def clean(module: AnsibleModule, conn: Any) -> dict[str, object]:
    """Remove the unused files of the cache."""
    cleaning = Cleaning(conn, module.params["folder"], module.params["used_elsewhere"])
    removed = cleaning.sort_out()
    if not module.check_mode:
        removed = cleaning.remove()
    return {"changed": bool(removed), "removed": removed, "kept": cleaning.kept}
