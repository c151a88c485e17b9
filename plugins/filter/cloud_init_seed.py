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

import yaml
from ansible.errors import AnsibleFilterError

from ansible_collections.drover.compute.plugins.plugin_utils.errors import DroverError, require
from ansible_collections.drover.compute.plugins.plugin_utils.plain import to_plain

try:
    import pycdlib
except ImportError:
    pycdlib = None

KEYS = ("user_data", "meta_data", "network_config")
LABEL = "cidata"

#: What the image says of its age (seconds since 1970): any fixed moment will do.
MOMENT = 315532800

#: The modules of pycdlib that look at the clock.
CLOCKS = ("pycdlib.pycdlib", "pycdlib.headervd", "pycdlib.dates", "pycdlib.rockridge")


def cloud_init_seed(value, instance_id=None, hostname=None):
    """A seed for cloud-init's NoCloud data source.

    :param value: a mapping with any of user_data, meta_data, network_config, each text or a mapping.
    :param instance_id, hostname: used where meta_data has no instance-id, no local-hostname.
    :returns: base64 text of the ISO image; the same for the same input.
    :raises AnsibleFilterError: something is no text and no mapping, or pycdlib is missing.
    """
    try:
        require("pycdlib", pycdlib)
        return base64.b64encode(_image(_files(to_plain(value), to_plain(instance_id), to_plain(hostname)))).decode("ascii")
    except DroverError as problem:
        raise AnsibleFilterError(str(problem)) from None


def _files(value, instance_id, hostname):
    """{name on the image: bytes}."""
    if not isinstance(value, dict):
        raise DroverError(f"cloud_init_seed takes a mapping with {', '.join(KEYS)}, not {type(value).__name__}.")
    unknown = sorted(str(key) for key in value if key not in KEYS)
    if unknown:
        raise DroverError(f"cloud_init_seed: unknown key '{unknown[0]}'; it takes: {', '.join(KEYS)}.")
    user_data = _text("user_data", value.get("user_data") or {}, "#cloud-config\n")
    network = value.get("network_config")
    network = _text("network_config", network) if network else None
    if instance_id is None:
        content = "\0".join([user_data, _text("meta_data", value.get("meta_data") or {}), network or ""])
        instance_id = "iid-" + hashlib.sha256(content.encode()).hexdigest()[:16]
    meta_data = _meta_data(value.get("meta_data") or {}, {"instance-id": instance_id, "local-hostname": hostname})
    files = {"user-data": user_data, "meta-data": meta_data, "network-config": network}
    return {name: text.encode("utf-8") for name, text in files.items() if text is not None}


def _text(key, value, head=""):
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return head + yaml.safe_dump(value, sort_keys=False, default_flow_style=False, allow_unicode=True)
    raise DroverError(f"cloud_init_seed: '{key}' must be a text or a mapping, not {type(value).__name__}.")


def _meta_data(given, defaults):
    """The text of meta-data; a text that has everything is left as it is."""
    text = _text("meta_data", given)
    try:
        known = yaml.safe_load(text)
    except yaml.YAMLError as problem:
        reason = " ".join(str(problem).split())
        raise DroverError(f"cloud_init_seed: 'meta_data' is no YAML: {reason}.") from problem
    if not isinstance(known, dict):
        raise DroverError("cloud_init_seed: 'meta_data' must hold a mapping.")
    missing = {key: str(value) for key, value in defaults.items() if value is not None and known.get(key) is None}
    return _text("meta_data", {**known, **missing}) if missing else text


def _image(files):
    """The bytes of an ISO 9660 image with Joliet and Rock Ridge names."""
    with _stopped_clock():
        image = pycdlib.PyCdlib()
        image.new(interchange_level=3, vol_ident=LABEL, joliet=3, rock_ridge="1.09")
        for name, content in sorted(files.items()):
            plain = name.replace("-", "").upper()[:8]
            image.add_fp(io.BytesIO(content), len(content), f"/{plain}.;1", rr_name=name, joliet_path=f"/{name}")
        written = io.BytesIO()
        image.write_fp(written)
        image.close()
    return written.getvalue()


class _Stopped:
    """Stands in for the module time: it is always the same moment, everywhere."""

    def __getattr__(self, name):
        return getattr(time, name)

    def time(self):
        return float(MOMENT)

    def localtime(self, dummy=None):
        return time.gmtime(MOMENT)


@contextlib.contextmanager
def _stopped_clock():
    """pycdlib writes the present time all over an image and has no option for it."""
    modules = [sys.modules[name] for name in CLOCKS if hasattr(sys.modules.get(name), "time")]
    for module in modules:
        module.time = _Stopped()
    try:
        yield
    finally:
        for module in modules:
            module.time = time


class FilterModule:
    """Ansible's entry to the filter."""

    def filters(self):
        return {"cloud_init_seed": cloud_init_seed}
