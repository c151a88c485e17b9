# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The search for files that other hosts need (rule S18).

No file is removed, or given to another instance, before the hosts that can see its storage were
read for it. The hypervisor that removes files gets the needs of other hosts from here, as
``used_elsewhere``, and from no other module. The records of the store count too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypedDict

from .._common import storage_identity
from .._common.errors import DroverError, natural, some
from .._records.hosts import NodeStorage
from .._store.hosts import addresses, looks
from .._store.instances import files
from . import asking, used_files
from .ports import Ports

MODULE = "_file_users"


class FileName(TypedDict):
    """The names of a file or folder on its host, from the module _file_users."""

    path: str
    real_path: str | None
    shared_id: str | None
    inode: str | None
    device: str | None
    mount: str | None


#: An entry of used_elsewhere: a path, or a path with the words for its user and its use.
Need = Any


class Removing:
    """The looks of one run."""

    def __init__(self, ports: Ports) -> None:
        self._store, self._hosts, self._rules = ports.store, ports.hosts, ports.start_rules

    def recorded(self, uuid: str, host: str) -> list[Need]:
        """Return the needs that the store knows, to foretell a removal.

        look() comes before the removal.
        """
        with self._store.read() as connection:
            return list(used_files.elsewhere(connection, uuid, host))

    def look(self, uuid: str, host: str, paths: Collection[str], counts: bool = True) -> list[Need]:
        """Return the needs of other hosts for files of a host, from a look at these hosts.

        :param uuid: the uuid of the instance that has the files; empty for files without an
            instance.
        :param paths: all files that may be removed, as the hypervisor names them.
        :param counts: count a domain of that uuid on another host too; without it, that host is the
            destination of the instance.
        :returns: used_elsewhere, with the files that must not be removed.
        :raises DroverError: the host itself does not answer.
        """
        with self._store.read() as connection:
            found: list[Need] = list(used_files.elsewhere(connection, uuid, host, paths))
        return found + self._fresh(
            host, set(paths) - set(found), None if counts else uuid, everywhere=True
        )

    def look_shared(self, host: str, paths: Collection[str]) -> dict[str, str]:
        """Return the files of a host that hosts with its shared storage need, and the reasons."""
        with self._store.read() as connection:
            needs = dict.fromkeys(
                used_files.shared_elsewhere(connection, host, paths),
                "a domain of another host uses it",
            )
        fresh = self._fresh(host, set(paths) - set(needs), None, everywhere=False)
        return {**{each["path"]: f"{each['who']} {each['how']}" for each in fresh}, **needs}

    def refuse_taken(
        self, uuid: str, name: str, host: str, paths: Collection[str], written: bool = False
    ) -> None:
        """Refuse to give an instance an existing file that another host uses or may use.

        The other host may have another name for the file.

        :param written: the instance only reads the file, so only a domain that writes to it counts.
        :raises DroverError: the instance does not get the file.
        """
        needs = self._fresh(host, paths, uuid, everywhere=True, written=written)
        if needs:
            path, who, how = (needs[0][key] for key in ("path", "who", "how"))
            reason = (
                "what is read from it would change"
                if written
                else "two users that write to one disk destroy it"
            )
            raise DroverError(
                f"Instance {name} on {host}: {path} is not given to it: {who} {how}. Nothing was"
                f" begun, as {reason}. Give it another file, or a copy.",
                host=host,
                uncertain=False,
            )

    def of_moves(
        self,
        orders: Sequence[Mapping[str, Any]],
        options: Mapping[str, Mapping[str, Any]],
        fresh: bool,
    ) -> dict[str, dict[str, Any]]:
        """Collect the facts of destinations and other hosts that the sources of moves need.

        A move removes the files that it has copied. It copies a file of shared storage only with
        copy_storage=always. The other hosts are searched only for files that are removed.

        :param orders: orders of moves, with uuid, source and destination.
        :param options: dict uuid -> options of its migration.
        :param fresh: True if the moves begin now; False if they are only foretold.
        :returns: dict uuid -> arguments of the module _domain_migration.
        """
        ways = {order["uuid"]: (order["source"], order["destination"]) for order in orders}
        with self._store.read() as connection:
            facts = used_files.of_ways(connection, ways)
            needed, going = (
                used_files.on_ways(connection, ways),
                used_files.own(connection, list(ways)),
            )
            seen = addresses.of_hosts(
                connection, {destination for _source, destination in ways.values()}
            )
        for uuid, (source, destination) in ways.items():
            facts[uuid]["addresses_there"] = sorted(seen.get(destination, ()))
            copies = options[uuid].get("copy_storage") == "always"
            paths = {
                path for path, identity in going[uuid] if fresh and (identity is None or copies)
            } - set(needed[uuid])
            facts[uuid]["used_elsewhere"] = needed[uuid] + self._fresh(
                source, paths, uuid, everywhere=False
            )
        return facts

    def _fresh(
        self,
        host: str,
        paths: Collection[str],
        but: str | None,
        everywhere: bool,
        written: bool = False,
    ) -> list[Need]:
        """Look for files on the other hosts.

        :param but: the uuid of an instance; its own needs do not count.
        :param written: count only domains that may write to the files, and no host that does not
            answer.
        :param everywhere: with up to asking.ALL hosts, read all hosts; without it, only hosts that
            may see the storage.
        """
        others = self._others(host)
        if not paths or not others:
            return []
        with self._store.read() as connection:
            known_hosts = looks.hosts(connection)
            storage = files.nodes_of(connection, {(each, None) for each in (host, *others)})
        nodes = {each: storage[(each, None)] for each in (host, *others)}
        reported = set(storage_identity.folders(nodes[host])) - set(paths)
        folders = reported | {os.path.dirname(path) for path in paths if os.path.isabs(path)}
        names = self._read_names(host, {*paths, *folders})
        looked_into = sorted(
            {inode for folder in folders if (inode := names[folder]["inode"]) is not None}
        )
        questions_by_host: dict[str, list[dict[str, object]]] = {}
        seen: dict[str, set[str]] = {}
        for path in sorted(paths):
            name, text = names[path], _text(names[path], nodes[host])
            near = {
                inode
                for folder in reported
                if names[folder]["mount"] == name["mount"]
                and (inode := names[folder]["inode"]) is not None
            }
            for other in others:
                sees = other not in known_hosts or storage_identity.may_see(
                    name, text, nodes[host], nodes[other], near
                )
                if sees:
                    seen.setdefault(other, set()).add(path)
                if sees or (everywhere and len(others) < asking.ALL):
                    questions_by_host.setdefault(other, []).append(
                        {**_question(name, text, nodes[other]), "written": written}
                    )
        arguments = {
            other: {
                "uris": looks.uris_of(known_hosts, other),
                "uuid": but,
                "files": questions,
                "folders_seen": looked_into,
            }
            for other, questions in sorted(
                questions_by_host.items(), key=lambda each: natural(each[0])
            )
        }
        answers, silent = asking.ask(self._hosts, MODULE, arguments) if arguments else ({}, {})
        needs = [
            {"path": path, "who": f"on {other}", "how": str(reason)}
            for other, answer in answers.items()
            for path, reason in sorted(answer["users"].items())
        ]
        if written:
            return needs
        return needs + self._doubts(
            {other: seen.get(other, set()) for other in silent if other not in self._rules.absent}
        )

    def _read_names(self, host: str, paths: Collection[str]) -> dict[str, FileName]:
        """Return the names of files and folders of a host, from the host itself.

        :raises DroverError: the host does not answer.
        """
        described = self._hosts.hand(host).read(MODULE, {"paths": sorted(paths)})
        if described.get("failed"):
            raise DroverError(
                f"Host {host} does not say where its files are, so none is removed:"
                f" {described.get('msg')}",
                host=host,
            )
        return {each["path"]: each for each in described["names"]}

    def _others(self, host: str) -> list[str]:
        with self._store.read() as connection:
            return sorted({*looks.hosts(connection), *self._hosts.names()} - {host}, key=natural)

    @staticmethod
    def _doubts(silent: Mapping[str, Collection[str]]) -> list[Need]:
        """Return the files that hosts without an answer may need."""
        needs = []
        for path in sorted(set().union(*silent.values())):
            hosts = sorted((host for host, paths in silent.items() if path in paths), key=natural)
            how = (
                "not answer, and a domain there may need it; where it is certain that none does:"
                f" -e drover_absent_hosts={','.join(hosts)}"
            )
            needs.append(
                {
                    "path": path,
                    "who": some(hosts),
                    "how": f"{'does' if len(hosts) == 1 else 'do'} {how}",
                }
            )
        return needs


def _text(name: FileName, node: NodeStorage) -> str | None:
    """Return the text of a file, from the new answer of its host or from a declaration."""
    for path in (name["path"], name["real_path"]):
        identity = path and (
            storage_identity.of_path(path, node) or storage_identity.of_device(path, node)
        )
        if identity:
            return str(identity)
    return name["shared_id"]


def _question(name: FileName, text: str | None, there: NodeStorage) -> dict[str, object]:
    """Return a file as an argument of the module for another host."""
    path = name["path"]
    question: dict[str, object] = {
        "name": path,
        "shared_id": name["shared_id"],
        "inode": name["inode"],
        "device": name.get("device"),
    }
    if name["real_path"] is None:
        question["volume"] = path.rpartition("/")[2]
        return question
    question["paths"] = sorted(
        {path, name["real_path"], *(storage_identity.paths_at(text, there) if text else ())}
    )
    return question
