# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The caches of images on hypervisors: bring images into them, and clean them."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Any

from .._common import certainty
from .._common.errors import DroverError, natural
from .._store.database import bulk, clock
from .._store.hosts import compute_nodes, continuity, services
from .._store.instances import files
from .ports import Ports
from .removing import Removing

#: Seconds of one call of the hypervisor, and so the time between two reports of progress.
STEP = 10
#: The number of other hypervisors to try.
PEERS = 3
#: The name of an image of the controller in the folder of instances, until the hypervisor has
#: copied and checked it; see module_utils._images.cache.
UPLOAD = ".drover-upload-{}"
#: The folder of the cache in the folder of instances, as in module_utils._images.cache.
CACHE = "_base"
MIB = 1 << 20


class SourceUnread(DroverError):
    """The host cannot read the source of an image."""


class SourceAbsent(SourceUnread):
    """The host does not have the source of an image."""


class OtherImageContent(DroverError):
    """The source of an image has another content than its checksum."""


class ImageCache:
    """The cache of one host.

    :param folder: the folder of the instances on that host.
    """

    def __init__(self, ports: Ports, host: str, folder: str, check_mode: bool = False) -> None:
        self._store, self._say, self._check_mode = ports.store, ports.say, check_mode
        self._hand, self._host, self._folder = ports.hosts.hand(host), host, folder.strip()
        self._hosts, self._removing = ports.hosts, Removing(ports)

    def bring(self, image: Mapping[str, Any]) -> tuple[bool, str | None]:
        """Bring an image into the cache, if the cache does not have it.

        :param image: name, source (a URL, or a path of the host or else of the controller),
            checksum.
        :returns: True if something changed; the path of the image, None in check mode if it is not
            in the cache yet.
        :raises DroverError: the image could not be brought there.
        """
        name, source = image["name"], image.get("source")
        if not source or not image.get("checksum"):
            missing = " and ".join(key for key in ("source", "checksum") if not image.get(key))
            raise DroverError(
                f"Image {name}: it has no {missing}, so it cannot be brought to {self._host}. Add"
                " that to the image."
            )
        options: dict[str, Any] = {
            "folder": self._folder,
            "name": name,
            "checksum": image["checksum"],
        }
        kind = "url" if "://" in source else "path"
        if kind == "path" and not os.path.isabs(source):
            raise DroverError(
                f"Image {name}: its source {source} is neither a URL nor an absolute path."
                " Correct it."
            )
        try:
            return self._fetch_image({**options, kind: source}, name)
        except SourceAbsent as problem:
            if not os.path.isfile(source):
                why = f"{problem} The controller does not have it either."
                return self._bring_from_peer(options, name, why)
        except SourceUnread as problem:
            return self._bring_from_peer(options, name, str(problem))
        return self._upload(options, name, source)

    def _bring_from_peer(
        self, given: dict[str, Any], name: str, why: str
    ) -> tuple[bool, str | None]:
        """Copy the image from the cache of another hypervisor.

        Its libvirt sends the file over the connection for migrations. The checksum proves that the
        file is the image. The file does not go through the controller, which would need room for a
        whole image.

        :param why: a sentence: this host cannot read the source.
        :raises DroverError: no other hypervisor can give the image.
        """
        words, peers = [why], self._peers(given["checksum"])
        for peer, (uri, path) in peers.items():
            self._say(f"{name}: {self._host} cannot read its source; {peer} -> {self._host}")
            try:
                return self._fetch_image({**given, "peer": uri, "path": path}, name)
            except (SourceUnread, OtherImageContent) as problem:
                words.append(str(problem))
        if peers:
            words.append(
                f"Correct the source, or let {self._host} reach the others with"
                " drover.compute.migration_trust."
            )
        else:
            words.append(
                "No other hypervisor that is up has an instance that was made from it, so it is not"
                " copied from one."
            )
        raise DroverError(" ".join(words), host=self._host)

    def _peers(self, checksum: str) -> dict[str, tuple[str, str]]:
        """Return hypervisors with the image, from the store: {host: (libvirt URI, path)}.

        They begin with the names after this host, so that not all hosts copy from one hypervisor.
        """
        with self._store.read() as connection:
            paths = files.holders(
                connection, f"/{CACHE}/{checksum.partition(':')[2].strip().lower()}"
            )
            up = services.up_hosts(connection, set(paths) - {self._host}, clock.now(connection))
            uris = compute_nodes.migration_uris(connection, up)
        names = sorted(up, key=lambda host: (natural(host) < natural(self._host), natural(host)))
        return {host: (uri, paths[host]) for host in names[:PEERS] if (uri := uris.get(host))}

    def _fetch_image(self, given: dict[str, object], name: str) -> tuple[bool, str | None]:
        if self._check_mode:
            foreseen = self._hand.foretell("_image_file", given)
            if foreseen.get("failed"):
                raise self._problem(name, foreseen.get("msg"), foreseen)
            return bool(foreseen["changed"]), foreseen["image"] if foreseen["done"] else None
        changed, had_part, tries = False, None, 1
        while True:
            answer = self._hand.act("_image_file", {**given, "seconds": STEP})
            if answer.outcome != certainty.DONE:
                had_part = answer.result.get("before") if had_part is None else had_part
                # The failed call removed the file that was uploaded for it.
                if (
                    had_part
                    and tries
                    and answer.result.get("other_content")
                    and not given.get("uploaded")
                ):
                    # The part in the cache came from an earlier run or another source, and had
                    # another content. Try once more without it.
                    had_part, tries = None, 0
                    continue
                raise self._problem(name, answer.message, answer.result)
            result = answer.result
            had_part = bool(result["before"]) if had_part is None else had_part
            changed = changed or bool(result["changed"])
            if result["done"]:
                if result["changed"]:
                    self._say(f"{name}: in the cache of {self._host}")
                return changed, result["image"]
            self._say(f"{name} -> {self._host}: {_progress(result['size'], result['total'])}")

    def _upload(self, given: dict[str, object], name: str, source: str) -> tuple[bool, str | None]:
        """Copy a file of the controller to the host, and bring it from there into the cache."""
        if self._check_mode:
            return True, None
        path = os.path.join(self._folder, UPLOAD.format(bulk.new_uuid()))
        self._say(f"{name}: controller -> {self._host}, {os.path.getsize(source) // MIB} MiB")
        answer = self._hand.act(
            "ansible.builtin.copy", {"src": source, "dest": path, "mode": "0600"}
        )
        if answer.outcome != certainty.DONE:
            raise self._problem(
                name, f"{source} of the controller was not copied: {answer.message}", {}
            )
        return self._fetch_image({**given, "path": path, "uploaded": True}, name)

    def _problem(
        self, name: str, message: str | None, details: Mapping[str, object]
    ) -> DroverError:
        """Return the error of a failed call, with what it says of the source in the details."""
        marks: dict[str, object] = {
            key: details[key] for key in ("absent", "unread", "other_content") if details.get(key)
        }
        kind = DroverError
        if "unread" in marks:
            kind = SourceAbsent if "absent" in marks else SourceUnread
        elif "other_content" in marks:
            kind = OtherImageContent
        return kind(f"Image {name} on {self._host}: {message}", host=self._host, **marks)

    def clean(self, uri: str) -> dict[str, object]:
        """Remove the images that no host needs.

        :returns: a dict: changed, removed (paths), kept (dicts path and reason), lines (the same
            for people).
        :raises DroverError: a host was not read since the store was made, so its needs are not
            known.
        """
        options: dict[str, object] = {"uri": uri, "folder": self._folder, "state": "clean"}
        foreseen = self._hand.foretell("_image_file", options)
        if foreseen.get("failed"):
            raise DroverError(f"The cache of {self._host}: {foreseen.get('msg')}", host=self._host)
        options["used_elsewhere"] = self._used_elsewhere(foreseen["removed"])
        if self._check_mode:
            result = self._hand.foretell("_image_file", options)
        else:
            answer = self._hand.act("_image_file", options)
            result = {
                **answer.result,
                "failed": answer.outcome != certainty.DONE,
                "msg": answer.message,
            }
        if result.get("failed"):
            raise DroverError(f"The cache of {self._host}: {result.get('msg')}", host=self._host)
        outcome = {key: result[key] for key in ("changed", "removed", "kept")}
        word = "would be removed" if self._check_mode else "removed"
        lines = [f"{self._host}: {path}: {word}" for path in outcome["removed"]]
        lines += [
            f"{self._host}: {each['path']}: kept, as {each['reason']}" for each in outcome["kept"]
        ]
        return {**outcome, "lines": lines or [f"{self._host}: there is no image in the cache"]}

    def _used_elsewhere(self, paths: Collection[str]) -> list[Any]:
        with self._store.read() as connection:
            continuity.refuse_unread(
                connection,
                f"The cache of {self._host} is not cleaned",
                self._hosts.names(),
                later=True,
            )
        return self._removing.look("", self._host, paths)


def _progress(size: int, total: int | None) -> str:
    if not total:
        return f"{size // MIB} MiB"
    return f"{100 * size // total} % of {total // MIB} MiB"
