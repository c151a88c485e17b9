# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that other hosts need: no file goes, or is given to another instance, before the hosts that can see its storage were read for it (rule S18).

The hypervisor that removes files gets from here what others need, as ``used_elsewhere``, and from nowhere else. What the store has seen counts too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .._common import storage_identity
from .._common.errors import DroverError, natural, some
from .._records.hosts import NodeStorage
from .._store import addresses, files, looks
from . import asking, used_files
from .ports import Ports

MODULE = "_file_users"
#: An entry of used_elsewhere: a path, or a path with the words for who needs it and how.
Need = Any


class Removing:
    """The looks of one run."""

    def __init__(self, ports: Ports) -> None:
        self._store, self._hosts, self._rules = ports.store, ports.hosts, ports.start_rules

    def recorded(self, uuid: str, host: str) -> list[Need]:
        """Return what the store has seen, to foretell a removal; look() comes before the removal itself."""
        with self._store.read() as connection:
            return list(used_files.elsewhere(connection, uuid, host))

    def look(self, uuid: str, host: str, paths: Collection[str], counts: bool = True) -> list[Need]:
        """Look who needs files of a host, on the other hosts.

        :param uuid: of the instance that has the files; none for files of no instance.
        :param paths: all that may go, as the hypervisor names them.
        :param counts: a domain of that uuid on another host needs them too; otherwise it is where the instance goes.
        :returns: used_elsewhere, with the files that no longer may go.
        :raises DroverError: the host itself does not answer.
        """
        with self._store.read() as connection:
            found: list[Need] = list(used_files.elsewhere(connection, uuid, host, paths))
        return found + self._fresh(host, set(paths) - set(found), None if counts else uuid, everywhere=True)

    def look_shared(self, host: str, paths: Collection[str]) -> dict[str, str]:
        """Look which files of a host on storage that others see are needed there, and why."""
        with self._store.read() as connection:
            found = dict.fromkeys(used_files.shared_elsewhere(connection, host, paths), "a domain of another host uses it")
        fresh = self._fresh(host, set(paths) - set(found), None, everywhere=False)
        return {**{each["path"]: f"{each['who']} {each['how']}" for each in fresh}, **found}

    def refuse_taken(self, uuid: str, name: str, host: str, paths: Collection[str], written: bool = False) -> None:
        """Refuse to give an instance a file that is there already, and that a domain of another host uses or may use, under whichever name.

        :param written: the instance only reads it, so that only a domain counts that writes to it.
        :raises DroverError: it is not given.
        """
        needs = self._fresh(host, paths, uuid, everywhere=True, written=written)
        if needs:
            path, who, how = (needs[0][key] for key in ("path", "who", "how"))
            why = "what is read from it would change" if written else "two users that write to one disk destroy it"
            raise DroverError(
                f"Instance {name} on {host}: {path} is not given to it: {who} {how}. Nothing was begun, as {why}. Give it another file, or a copy.",
                host=host,
                uncertain=False,
            )

    def of_moves(
        self, orders: Sequence[Mapping[str, Any]], options: Mapping[str, Mapping[str, Any]], fresh: bool
    ) -> dict[str, dict[str, Any]]:
        """Collect what the sources of moves have to know of their destinations and of other hosts.

        A move removes what it has copied. It copies a file of shared storage only with copy_storage=always, so all others are not looked for.

        :param orders: of moves, with uuid, source and destination.
        :param options: dict uuid -> options of its migration.
        :param fresh: the moves begin now; otherwise they are only foretold.
        :returns: dict uuid -> arguments of the module _domain_migration.
        """
        ways = {order["uuid"]: (order["source"], order["destination"]) for order in orders}
        with self._store.read() as connection:
            found = used_files.of_ways(connection, ways)
            needed, going = used_files.on_ways(connection, ways), used_files.own(connection, list(ways))
            seen = addresses.of_hosts(connection, {destination for _source, destination in ways.values()})
        for uuid, (source, destination) in ways.items():
            found[uuid]["addresses_there"] = sorted(seen.get(destination, ()))
            copies = options[uuid].get("copy_storage") == "always"
            paths = {path for path, identity in going[uuid] if fresh and (identity is None or copies)} - set(needed[uuid])
            found[uuid]["used_elsewhere"] = needed[uuid] + self._fresh(source, paths, uuid, everywhere=False)
        return found

    def _fresh(self, host: str, paths: Collection[str], but: str | None, everywhere: bool, written: bool = False) -> list[Need]:
        """Look for files on the other hosts.

        :param but: the uuid of an instance whose own needs do not count.
        :param written: only those who may write to them count, and no host that does not answer.
        :param everywhere: up to asking.ALL hosts all are read; otherwise those only that can see the storage as far as is known.
        """
        others = self._others(host)
        if not paths or not others:
            return []
        with self._store.read() as connection:
            known = looks.hosts(connection)
            storage = files.nodes_of(connection, {(each, None) for each in (host, *others)})
        nodes = {each: storage[(each, None)] for each in (host, *others)}
        reported = set(storage_identity.folders(nodes[host])) - set(paths)
        folders = reported | {os.path.dirname(path) for path in paths if os.path.isabs(path)}
        names = self._names(host, {*paths, *folders})
        looked_into = sorted({names[folder]["inode"] for folder in folders} - {None})
        wanted: dict[str, list[dict[str, Any]]] = {}
        seen: dict[str, set[str]] = {}
        for path in sorted(paths):
            name, text = names[path], _text(names[path], nodes[host])
            near = {names[folder]["inode"] for folder in reported if names[folder]["mount"] == name["mount"]} - {None}
            for other in others:
                sees = other not in known or storage_identity.may_see(name, text, nodes[host], nodes[other], near)
                if sees:
                    seen.setdefault(other, set()).add(path)
                if sees or (everywhere and len(others) < asking.ALL):
                    wanted.setdefault(other, []).append({**_question(name, text, nodes[other]), "written": written})
        given = {
            other: {"uris": looks.uris_of(known, other), "uuid": but, "files": questions, "folders_seen": looked_into}
            for other, questions in sorted(wanted.items(), key=lambda each: natural(each[0]))
        }
        answers, silent = asking.ask(self._hosts, MODULE, given) if given else ({}, {})
        needs = [
            {"path": path, "who": f"on {other}", "how": str(reason)}
            for other, answer in answers.items()
            for path, reason in sorted(answer["users"].items())
        ]
        if written:
            return needs
        return needs + self._doubts({other: seen.get(other, set()) for other in silent if other not in self._rules.absent})

    def _names(self, host: str, paths: Collection[str]) -> dict[str, dict[str, Any]]:
        """Ask a host for the names of its files and folders.

        :raises DroverError: it does not answer.
        """
        described = self._hosts.hand(host).read(MODULE, {"paths": sorted(paths)})
        if described.get("failed"):
            raise DroverError(f"Host {host} does not say where its files are, so none is removed: {described.get('msg')}", host=host)
        return {each["path"]: each for each in described["names"]}

    def _others(self, host: str) -> list[str]:
        with self._store.read() as connection:
            return sorted({*looks.hosts(connection), *self._hosts.names()} - {host}, key=natural)

    @staticmethod
    def _doubts(silent: Mapping[str, Collection[str]]) -> list[Need]:
        """Return the files that hosts may need which do not answer."""
        found = []
        for path in sorted(set().union(*silent.values())):
            hosts = sorted((host for host, paths in silent.items() if path in paths), key=natural)
            how = (
                f"not answer, and a domain there may need it; where it is certain that none does: -e drover_absent_hosts={','.join(hosts)}"
            )
            found.append({"path": path, "who": some(hosts), "how": f"{'does' if len(hosts) == 1 else 'do'} {how}"})
        return found


def _text(name: Mapping[str, Any], node: NodeStorage) -> str | None:
    """Return the text of a file by what its host has just said, or by what is declared."""
    for path in (name["path"], name["real_path"]):
        known = path and (storage_identity.of_path(path, node) or storage_identity.of_device(path, node))
        if known:
            return str(known)
    text: str | None = name["shared_id"]
    return text


def _question(name: Mapping[str, Any], text: str | None, there: NodeStorage) -> dict[str, Any]:
    """Return a file as the module takes it for another host."""
    path = name["path"]
    asked: dict[str, Any] = {"name": path, "shared_id": name["shared_id"], "inode": name["inode"], "device": name.get("device")}
    if name["real_path"] is None:
        asked["volume"] = path.rpartition("/")[2]
        return asked
    asked["paths"] = sorted({path, name["real_path"], *(storage_identity.paths_at(text, there) if text else ())})
    return asked
