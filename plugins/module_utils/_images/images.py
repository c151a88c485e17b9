# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Disk images and seeds as files. They get their names only when they are complete, and never
replace an existing file.

Private to the collection.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
from collections.abc import Callable, Sequence
from typing import TypedDict

from ansible.module_utils.basic import AnsibleModule

from .._files import programs, qemu_img
from .._files.image_info import ImageInfo
from .._files.problem import Problem
from .._libvirt.binding import host_name
from .._ownership import ownership

GIB = 2**30

#: The time limit in seconds for qemu-img commands with a time that does not grow with the disk.
QEMU_IMG_TIMEOUT = 120

#: The seconds between two checks for a reason to stop a long-running program.
LOOK_EVERY = 0.2

#: The greatest size in bytes of an image without data, for disks of any size.
FRESH = 4 * 2**20


class ImageProblem(Problem):
    """The error for a disk or seed that cannot be made or accepted. The text has the reason and
    advice.
    """


class NewDisk(TypedDict):
    """A disk to make. Without a size it gets that of its backing image."""

    path: str
    format: str
    size_gb: int | None
    backing_file: str | None
    backing_format: str | None


def check_disk(module: AnsibleModule, disk: NewDisk) -> bool:
    """Return True if the disk is missing and must be made; False if the right disk exists.

    :raises ImageProblem: the disk cannot be made, or another file has its path.
    """
    path = disk["path"]
    _check_folder(path)
    backing = disk["backing_file"]
    base = None
    if backing:
        if not os.path.isfile(backing):
            raise ImageProblem(
                f"The image {backing} that {path} is to be backed by does not exist on"
                f" {host_name()}: copy it there first."
            )
        base = image_info(module, backing)
        _refuse_encrypted(backing, base)
        backing_format = disk["backing_format"] or base["format"]
        if base["format"] != backing_format:
            raise ImageProblem(
                f"The image {backing} on {host_name()} is of the format {base['format']}, not"
                f" {backing_format}: correct backing_format."
            )
    if disk["size_gb"] is None and base is None:
        raise ImageProblem(
            f"The disk {path} has neither size_gb nor backing_file: give one of them."
        )
    size = wanted_size(disk, base)
    if base is not None and size < base["virtual-size"]:
        raise ImageProblem(
            f"The disk {path} of {disk['size_gb']} GiB would be smaller than its image {backing} "
            f"({base['virtual-size'] / GIB:.2f} GiB): make size_gb larger."
        )
    if not os.path.lexists(path):
        return True
    info = image_info(module, path)
    problems = []
    if info["format"] != disk["format"]:
        problems.append(f"its format is {info['format']}, not {disk['format']}")
    if info["virtual-size"] != size:
        problems.append(
            f"its size is {info['virtual-size'] / GIB:.2f} GiB, not {size / GIB:.2f} GiB"
        )
    behind = info.get("full-backing-filename") or info.get("backing-filename")
    if (behind or None) != (backing or None):
        problems.append(f"it is backed by {behind or 'nothing'}, not by {backing or 'nothing'}")
    if not problems and holds_data(module, path, info):
        problems.append("it holds data, and nothing proves whose")
    if problems:
        raise ImageProblem(
            f"The file {path} exists on {host_name()} already and is not the requested disk: "
            f"{', '.join(problems)}. Nothing was overwritten: move it away or choose another path."
        )
    return False


def check_source(module: AnsibleModule, path: str, image_format: str | None, size_gb: int) -> str:
    """Return the format of an image that is copied into a disk.

    :param size_gb: the size of the disk, in GiB.
    :raises ImageProblem: it is not there, of another format, or larger than the disk.
    """
    if not os.path.isfile(path):
        raise ImageProblem(
            f"The image {path} does not exist on {host_name()}: copy it there first."
        )
    info = image_info(module, path)
    _refuse_encrypted(path, info)
    if image_format not in (None, info["format"]):
        raise ImageProblem(
            f"The image {path} on {host_name()} is of the format {info['format']}, not"
            f" {image_format}: correct its format."
        )
    if info["virtual-size"] > size_gb * GIB:
        raise ImageProblem(
            f"The image {path} has {info['virtual-size'] / GIB:.2f} GiB, and its disk {size_gb}:"
            " make size_gb larger."
        )
    return str(info["format"])


def _refuse_encrypted(path: str, found: ImageInfo) -> None:
    """Refuse an encrypted image, because its content cannot be read without its key, and a new disk
    has no such key.
    """
    if found.get("encrypted"):
        raise ImageProblem(
            f"The image {path} on {host_name()} is encrypted, and a disk that is made of it could"
            " not be read: make an image of it that is not, with qemu-img convert."
        )


def holds_data(module: AnsibleModule, path: str, found: ImageInfo) -> bool:
    """Return True if data were written to an image. A new and unused image has no data.

    :param found: the answer of qemu-img info for the image.
    """
    if found.get("actual-size", 0) > FRESH or found.get("snapshots"):
        return True
    extents = json.loads(
        _run_qemu_img(module, ["map", "--output=json", "-U", path], f"reading {path}")
    )
    written = [each for each in extents if each["data"] and not each["depth"]]
    if found["format"] != "raw":
        return bool(written)
    # qemu-img allocates the first block of a new raw image.
    with open(path, "rb") as handle:
        return any(
            any(os.pread(handle.fileno(), each["length"], each["offset"])) for each in written
        )


def wanted_size(disk: NewDisk, base: ImageInfo | None) -> int:
    """Return the virtual size of a disk in bytes: ``size_gb``, or the size of its backing file."""
    if base is None or disk["size_gb"] is not None:
        return (disk["size_gb"] or 0) * GIB
    return base["virtual-size"]


def image_info(module: AnsibleModule, path: str, image_format: str | None = None) -> ImageInfo:
    """Return the output of ``qemu-img info`` for an image. A running domain may use the image.

    :param image_format: the format of the image; None to let QEMU detect it.
    """
    known = ["-f", image_format] if image_format else []
    return json.loads(
        _run_qemu_img(module, ["info", "--output=json", "-U", *known, path], f"reading {path}")
    )


def needed(module: AnsibleModule, path: str, image_format: str) -> int:
    """Return the size in bytes of a new image with all data of an image and of its backing
    files.
    """
    answer = _run_qemu_img(
        module,
        ["measure", "--output=json", "-U", "-f", image_format, "-O", image_format, path],
        f"measuring {path}",
    )
    return int(json.loads(answer)["required"])


def make_empty(
    module: AnsibleModule,
    path: str,
    image_format: str,
    size: int,
    options: str = "",
    backing: tuple[str, str] | None = None,
) -> None:
    """Make an image without data in a file of our own.

    :param size: the size in bytes.
    :param options: the options in the form of ``-o``.
    :param backing: the image behind it, and its format.
    """
    arguments = ["create", "-q", "-f", image_format, *(["-o", options] if options else [])]
    arguments += ["-b", backing[0], "-F", backing[1]] if backing else []
    _run_qemu_img(module, [*arguments, path, str(size)], f"making {path}")


def make_disk(module: AnsibleModule, disk: NewDisk) -> ownership.RemovalCandidate:
    """Make the disk under a temporary name and link it to its path. Return the Candidate of the new
    file. The link fails if a file exists at the path.
    """
    path = disk["path"]
    part = part_name(path)
    arguments = ["create", "-q", "-f", disk["format"]]
    if disk["backing_file"]:
        backing_format = (
            disk["backing_format"] or image_info(module, disk["backing_file"])["format"]
        )
        arguments += ["-b", disk["backing_file"], "-F", backing_format]
    arguments.append(part)
    if disk["size_gb"] is not None:
        arguments.append(str(disk["size_gb"] * GIB))
    try:
        _run_qemu_img(module, arguments, f"making the disk {path}")
        os.chmod(part, 0o600)
        return put_in_place(part, path)
    finally:
        ownership.drop_temporary(part)


def copy_image(
    module: AnsibleModule,
    source: tuple[str, str],
    part: str,
    options: str,
    backing: tuple[str, str] | None,
    mib: int | None,
    why_not: Callable[[], str | None],
) -> None:
    """Copy an image that no domain has open into a file of our own, which is on the disk when this
    returns.

    :param source: the image, and its format, which the copy has too.
    :param options: the options in the form of ``-o``.
    :param backing: the image behind both, and its format: only the data above it are copied.
    :param mib: MiB per second at most.
    :param why_not: a function that is called repeatedly. It returns the reason to stop the copy, or
        None.
    """
    # If no cache mode is given, qemu-img does not wait for the disk.
    arguments = [
        "convert",
        "-q",
        "-t",
        "writeback",
        "-f",
        source[1],
        "-O",
        source[1],
        *(["-o", options] if options else []),
    ]
    arguments += ["-B", backing[0], "-F", backing[1]] if backing else []
    arguments += ["-r", f"{mib}M"] if mib else []
    _run_qemu_img(module, [*arguments, source[0], part], f"copying {source[0]}", why_not)


def copy_to_device(
    module: AnsibleModule,
    source: tuple[str, str],
    device: str,
    mib: int | None,
    why_not: Callable[[], str | None],
) -> None:
    """Copy all data of an image that no domain has open into a block device of the same size. See
    copy_image().
    """
    arguments = [
        "convert",
        "-q",
        "-n",
        "-t",
        "none",
        "-f",
        source[1],
        "-O",
        "raw",
        *(["-r", f"{mib}M"] if mib else []),
    ]
    _run_qemu_img(module, [*arguments, source[0], device], f"copying {source[0]}", why_not)


def grow(module: AnsibleModule, path: str, image_format: str, size: int) -> None:
    """Make an image larger that no domain has open. qemu-img itself refuses to make an image
    smaller.
    """
    _run_qemu_img(
        module, ["resize", "-q", "-f", image_format, path, str(size)], f"making {path} larger"
    )


def commit(module: AnsibleModule, path: str, limit: float) -> None:
    """Write the data of an image that no domain has open into its backing file. The image stays
    unchanged.

    :param limit: the time limit in seconds. An interrupted merge can be repeated.
    """
    _run_qemu_img(
        module,
        ["commit", "-q", "-d", "-f", "qcow2", path],
        f"merging {path} into the image behind it",
        limit=limit,
    )


def rebase(module: AnsibleModule, path: str, base: tuple[str, str]) -> None:
    """Set the backing file in the header of an image to another image with the same content.

    :param base: path and format of the new backing file.
    """
    _run_qemu_img(
        module,
        ["rebase", "-q", "-u", "-f", "qcow2", "-b", base[0], "-F", base[1], path],
        f"putting {path} over {base[0]}",
    )


def check_seed(path: str, content: bytes) -> bool:
    """Return True if the seed must be made; False if the right seed exists.

    :raises ImageProblem: another file has its path."""
    _check_folder(path)
    if not os.path.lexists(path):
        return True
    try:
        with open(path, "rb") as handle:
            same = handle.read() == content
    except OSError as exc:
        raise ImageProblem(
            f"The seed {path} exists on {host_name()} already and cannot be read: {exc.strerror}."
        ) from exc
    if not same:
        raise ImageProblem(
            f"The file {path} exists on {host_name()} already with other content than the requested"
            " seed. Nothing was overwritten: move it away or choose another path."
        )
    return False


def make_seed(path: str, content: bytes) -> ownership.RemovalCandidate:
    """Write the seed and return the Candidate of the new file. Only root can read the seed, because
    it may have passwords.
    """
    part = part_name(path)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
            handle.write(content)
            handle.flush()
            os.fsync(handle.fileno())
        return put_in_place(part, path)
    except OSError as exc:
        raise ImageProblem(
            f"The seed {path} cannot be written on {host_name()}: {exc.strerror}."
        ) from exc
    finally:
        ownership.drop_temporary(part)


def _check_folder(path: str) -> None:
    folder = os.path.dirname(path)
    if not os.path.isabs(path) or not folder:
        raise ImageProblem(f"The path {path!r} is not absolute: give the full path of the file.")
    if not os.path.isdir(folder):
        raise ImageProblem(
            f"The folder {folder} for {os.path.basename(path)} does not exist on {host_name()}:"
            " make or mount it first."
        )


def part_name(path: str) -> str:
    """Return a temporary name for a file with the final name ``path``."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".drover-{secrets.token_hex(4)}-{name[:200]}.part")


def put_in_place(part: str, path: str) -> ownership.RemovalCandidate:
    """Give the complete file its name. Never replace an existing file."""
    try:
        made = ownership.made(part, path)
        try:
            os.link(part, path)
        except FileExistsError:
            raise
        except OSError:
            # The file system has no hard links: reserve the name with an empty file.
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            os.rename(part, path)
        return made
    except FileExistsError as exc:
        raise ImageProblem(
            f"The file {path} has just been made on {host_name()} by somebody else: nothing was"
            " overwritten."
        ) from exc
    except OSError as exc:
        raise ImageProblem(
            f"The file {path} cannot be made on {host_name()}: {exc.strerror}."
        ) from exc


def _run_qemu_img(
    module: AnsibleModule,
    arguments: Sequence[str],
    doing: str,
    why_not: Callable[[], str | None] | None = None,
    limit: float | None = None,
) -> str:
    program = module.get_bin_path("qemu-img")
    if program is None:
        raise ImageProblem(
            f"The program qemu-img, needed for {doing}, is missing on {host_name()}: "
            "install the package qemu-utils (Debian, Ubuntu) or qemu-img (RHEL, Fedora)."
        )
    code, out, err = _run([program, *arguments], doing, why_not, limit)
    if code:
        why = " ".join((err or out).split()).replace("qemu-img: ", "")
        raise ImageProblem(f"On {host_name()}, {doing} failed: {why}.")
    return out


def _run(
    command: Sequence[str],
    doing: str,
    why_not: Callable[[], str | None] | None = None,
    limit: float | None = None,
) -> tuple[int, str, str]:
    """Return (exit status, output, errors) of a program; do not wait for it longer than ``limit``
    seconds, not even after it was killed.

    :param why_not: a function that returns the reason to give it up; it replaces that limit.
    """
    # A long copy must end together with the module, because the module has the lock of the
    # instance.
    before = None if why_not is None else qemu_img.ending_with_caller()
    try:
        # Do not use run_command: it has no time limit, and it waits for a program that hangs on
        # dead storage.
        # pylint: disable-next=ansible-bad-function,consider-using-with,subprocess-popen-preexec-fn
        program = subprocess.Popen(
            command,
            encoding="utf-8",
            errors="surrogateescape",
            preexec_fn=before,  # noqa: PLW1509
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=programs.environment(),
        )
    except OSError as exc:
        raise ImageProblem(f"On {host_name()}, {doing} failed: {exc.strerror}.") from exc
    try:
        out, err = (
            program.communicate(timeout=limit or QEMU_IMG_TIMEOUT)
            if why_not is None
            else _wait_or_stop(program, doing, why_not)
        )
    except BaseException as exc:
        program.kill()
        for pipe in (program.stdout, program.stderr):
            if pipe is not None:
                pipe.close()
        if not isinstance(exc, subprocess.TimeoutExpired):
            raise
        raise ImageProblem(
            f"On {host_name()}, {doing} did not end within {limit or QEMU_IMG_TIMEOUT:.0f} s and"
            " was given up: look whether its storage hangs there."
        ) from None
    return program.returncode, out, err


def _wait_or_stop(
    program: subprocess.Popen[str], doing: str, why_not: Callable[[], str | None]
) -> tuple[str, str]:
    """Wait until a program ends, or until ``why_not`` returns a reason to stop it."""
    while True:
        try:
            return program.communicate(timeout=LOOK_EVERY)
        except subprocess.TimeoutExpired:
            reason = why_not()
            if reason is not None:
                program.kill()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    program.wait(10)
                raise ImageProblem(f"On {host_name()}, {doing} was given up: {reason}.") from None
