# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Data for cloud-init that it would ignore in silence, refused before an instance is built."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from .._common.errors import DroverError
from .._common.validation import shown
from .definition import Definition

#: The beginnings of user data that cloud-init or cloudbase-init runs, in small letters.
_BEGINNINGS = (
    "#cloud-config",
    "#cloud-boothook",
    "#include",
    "#part-handler",
    "#upstart-job",
    "#!",
    "## template:",
    "content-type:",
    "mime-version:",
    "#ps1",
    "rem cmd",
    "<powershell>",
    "<script>",
    "-----begin",
)
#: The format of cloud-init that is a mapping in YAML. cloud-init also takes a first line that only
#: begins with it.
_CONFIG = "#cloud-config"
_OTHER_CONFIGS = ("#cloud-config-archive", "#cloud-config-jsonp")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z", re.IGNORECASE)
#: The longest name that Linux takes.
_LONGEST = 64


def refuse(definition: Definition, place: str) -> None:
    """Refuse cloud_init of a definition that its guest would ignore.

    :param place: the beginning of each sentence.
    """
    cloud_init = definition.get("cloud_init")
    if not cloud_init:
        return
    place = f"{place}, cloud_init"
    user_data = cloud_init.get("user_data")
    if isinstance(user_data, str) and user_data.strip():
        _refuse_user_data(user_data, place)
    meta_data = _mapping(cloud_init.get("meta_data"), f"{place}: meta_data")
    _refuse_network(_mapping(cloud_init.get("network_config"), f"{place}: network_config"), place)
    _refuse_name(definition["name"], meta_data.get("local-hostname"), place)


def _refuse_user_data(text: str, place: str) -> None:
    first = text.lstrip().splitlines()[0]
    is_ignition = text.lstrip().startswith("{") and '"ignition"' in text
    if not first.lower().startswith(_BEGINNINGS) and not is_ignition:
        raise DroverError(
            f"{place}: user_data begins with {shown(first)}, which cloud-init ignores in silence."
            f" Write {_CONFIG} into its first line, or #! and the program of a script; or give"
            " user_data as a mapping. Nothing was placed."
        )
    if first.lower().startswith(_CONFIG) and not first.lower().startswith(_OTHER_CONFIGS):
        _mapping(text, f"{place}: user_data")


def _refuse_network(given: Mapping[str, object], place: str) -> None:
    """Refuse a network without a version: cloud-init leaves the network of the guest as it is
    then.
    """
    network = given.get("network", given)
    if not given or not isinstance(network, Mapping) or network.get("config") == "disabled":
        return
    version = network.get("version")
    if version not in (1, 2) or isinstance(version, bool):
        what = "has no version" if version is None else f"has the version {shown(version)}"
        raise DroverError(
            f"{place}: network_config {what}, and cloud-init knows 1 and 2 and ignores all else."
            " Write version: 2 into it. Nothing was placed."
        )


def _mapping(value: Any, what: str) -> Mapping[str, Any]:
    """Return data that are a mapping or a text of one."""
    if not value or isinstance(value, Mapping):
        return value or {}
    try:
        read = yaml.safe_load(value)
    except yaml.YAMLError as problem:
        mark = getattr(problem, "problem_mark", None)
        line = f" line {mark.line + 1}" if mark is not None else ""
        raise DroverError(
            f"{what} is no YAML:{line} cannot be read. The guest would ignore it. Nothing was"
            " placed."
        ) from problem
    if read is not None and not isinstance(read, dict):
        raise DroverError(
            f"{what} must be a mapping, or a text of one, not {shown(read)}. The guest would ignore"
            " it. Nothing was placed."
        )
    return read or {}


def _refuse_name(name: str, given: Any, place: str) -> None:
    hostname = name if given is None else given
    labels = hostname.split(".") if isinstance(hostname, str) else []
    if labels and len(hostname) <= _LONGEST and all(_LABEL.match(each) for each in labels):
        return
    what = "the name of the instance" if given is None else "local-hostname of meta_data"
    raise DroverError(
        f"{place}: the guest gets {what} as its host name, and {shown(hostname)} is none: letters,"
        f" digits and hyphens, in parts of 1 to 63 with dots between, {_LONGEST} at most. Give"
        f" meta_data with local-hostname, such as local-hostname: {_likely(str(hostname))}. Nothing"
        " was placed."
    )


def _likely(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:63] or "web1"
