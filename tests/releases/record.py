# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The public names of a release, which the releases after it keep.

    record.py       writes tests/releases/VERSION.json, with the version of galaxy.yml

tests/properties/test_releases.py compares each recorded release with the present collection. The
data of the store have a test of their own: tests/unit/store/test_revisions.py.
"""

from __future__ import annotations

import importlib
import json
import pathlib
import sys
from typing import Any

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
if __name__ == "__main__":
    # The checkout's own conftest.py makes the checkout importable as a collection.
    sys.path.insert(0, str(ROOT))
    importlib.import_module("conftest")

from ansible_collections.drover.compute.plugins.plugin_utils._ansible_border import (  # noqa: E402
    known_variables,
)
from ansible_collections.drover.compute.plugins.plugin_utils._definitions import (  # noqa: E402
    tables,
)
from ansible_collections.drover.compute.tests.pages import options  # noqa: E402
from ansible_collections.drover.compute.tests.unit.awx import shipped  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
#: The folders of plugins with options.
PLUGINS = ("modules", "lookup", "inventory")


def names() -> dict[str, Any]:
    """Return the public names: variables, playbooks, plugins with options, roles, AWX objects."""
    return {
        "variables": sorted(known_variables.KNOWN),
        "playbooks": _stems("playbooks", "*.yml"),
        "roles": _stems("roles", "*"),
        "filters": _stems("plugins/filter", "*.yml"),
        **{kind: _options(kind) for kind in PLUGINS},
        "job_templates": _job_templates(),
        "definitions": {
            section: {key: field.example for key, field in table.items()}
            for section, table in tables.SECTIONS.items()
        },
    }


def _stems(folder: str, pattern: str) -> list[str]:
    return sorted(
        path.stem for path in (ROOT / folder).glob(pattern) if not path.name.startswith((".", "_"))
    )


def _options(kind: str) -> dict[str, list[str]]:
    """Return the options of public plugins: {plugin: names}."""
    plugins = {}
    for path in sorted((ROOT / "plugins" / kind).glob("[a-z]*.py")):
        plugins[path.stem] = sorted(options.documented(f"{kind}/{path.name}"))
    return plugins


def _job_templates() -> dict[str, list[str]]:
    """Return the variables in the surveys of the job templates that awx_setup makes."""
    return {
        template["name"]: sorted(
            question["variable"] for question in (template.get("survey_spec") or {}).get("spec", ())
        )
        for template in shipped.objects()["controller_templates"]
    }


def main() -> None:
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    path = FOLDER / f"{version}.json"
    path.write_text(json.dumps(names(), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
