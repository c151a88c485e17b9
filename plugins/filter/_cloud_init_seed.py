# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filter cloud_init_seed: a NoCloud seed as an ISO image."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.plugin_utils._common.errors import (
    DroverError,
    require,
)
from ansible_collections.drover.compute.plugins.plugin_utils._common.plain import to_plain

pycdlib: Any
try:
    import pycdlib
except ImportError:
    pycdlib = None

KEYS = ("user_data", "meta_data", "network_config")
LABEL = "cidata"

#: The date of the image (seconds since 1970); any fixed moment will do.
MOMENT = 315532800

#: The modules of pycdlib that read the clock.
CLOCKS = ("pycdlib.pycdlib", "pycdlib.headervd", "pycdlib.dates", "pycdlib.rockridge")


def cloud_init_seed(value: Any, instance_id: Any = None, hostname: Any = None) -> str:
    """Return a seed for cloud-init's NoCloud data source.

    :param value: a mapping with any of user_data, meta_data, network_config, each text or a
        mapping.
    :param instance_id, hostname: defaults of instance-id and local-hostname in meta_data.
    :returns: the ISO image in Base64, the same for the same input.
    :raises AnsibleFilterError: the input is not valid, or pycdlib is missing.
    """
    try:
        require("pycdlib", pycdlib)
        return base64.b64encode(
            _image(_files(to_plain(value), to_plain(instance_id), to_plain(hostname)))
        ).decode("ascii")
    except DroverError as problem:
        raise AnsibleFilterError(str(problem)) from None


def _files(value: Any, instance_id: Any, hostname: Any) -> dict[str, bytes]:
    """Return {name on the image: content}."""
    if not isinstance(value, dict):
        raise DroverError(
            f"cloud_init_seed takes a mapping with {', '.join(KEYS)}, not {type(value).__name__}."
        )
    unknown = sorted(str(key) for key in value if key not in KEYS)
    if unknown:
        raise DroverError(
            f"cloud_init_seed: unknown key '{unknown[0]}'; it takes: {', '.join(KEYS)}."
        )
    user_data = _text("user_data", value.get("user_data") or {}, "#cloud-config\n")
    network = value.get("network_config")
    network = _text("network_config", network) if network else None
    if instance_id is None:
        content = "\0".join(
            [user_data, _text("meta_data", value.get("meta_data") or {}), network or ""]
        )
        instance_id = "iid-" + hashlib.sha256(content.encode()).hexdigest()[:16]
    meta_data = _meta_data(
        value.get("meta_data") or {}, {"instance-id": instance_id, "local-hostname": hostname}
    )
    files = {"user-data": user_data, "meta-data": meta_data, "network-config": network}
    return {name: text.encode("utf-8") for name, text in files.items() if text is not None}


def _text(key: str, value: Any, head: str = "") -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return head + yaml.safe_dump(
            value, sort_keys=False, default_flow_style=False, allow_unicode=True
        )
    raise DroverError(
        f"cloud_init_seed: '{key}' must be a text or a mapping, not {type(value).__name__}."
    )


def _meta_data(given: Any, defaults: Mapping[str, object]) -> str:
    """Return the text of meta-data with the missing defaults added."""
    text = _text("meta_data", given)
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        reason = " ".join(str(problem).split())
        raise DroverError(f"cloud_init_seed: 'meta_data' is no YAML: {reason}.") from problem
    if not isinstance(document, dict):
        raise DroverError("cloud_init_seed: 'meta_data' must hold a mapping.")
    missing = {
        key: str(value)
        for key, value in defaults.items()
        if value is not None and document.get(key) is None
    }
    return _text("meta_data", {**document, **missing}) if missing else text


def _image(files: Mapping[str, bytes]) -> bytes:
    """Return an ISO 9660 image with Joliet and Rock Ridge names."""
    with _stopped_clock():
        image = pycdlib.PyCdlib()
        image.new(interchange_level=3, vol_ident=LABEL, joliet=3, rock_ridge="1.09")
        for name, content in sorted(files.items()):
            plain = name.replace("-", "").upper()[:8]
            image.add_fp(
                io.BytesIO(content),
                len(content),
                f"/{plain}.;1",
                rr_name=name,
                joliet_path=f"/{name}",
            )
        written = io.BytesIO()
        image.write_fp(written)
        image.close()
    return written.getvalue()


class _Stopped:
    """Replace the module time; the time is always MOMENT, in UTC."""

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)

    def time(self) -> float:
        return float(MOMENT)

    def localtime(self, dummy: float | None = None) -> tuple[Any, ...]:
        return time.gmtime(MOMENT)


@contextlib.contextmanager
def _stopped_clock() -> Iterator[None]:
    """Stop the clock of pycdlib, which writes the current time into an image and has no option for
    this.
    """
    modules: list[Any] = [
        sys.modules[name] for name in CLOCKS if hasattr(sys.modules.get(name), "time")
    ]
    for module in modules:
        module.time = _Stopped()
    try:
        yield
    finally:
        for module in modules:
            module.time = time


class FilterModule:
    """The filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"_cloud_init_seed": cloud_init_seed}
