# Copyright (c) 2026, The drover.compute authors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""No text decides: the code never compares the messages of libvirt, QEMU, tools and Ansible.

libvirt speaks the language of its host. Error codes, domains of errors and structured output
decide. This test follows the texts of errors and results through each function, and finds
comparisons, searches and patterns on them.
"""

from __future__ import annotations

import ast
import pathlib

import pytest

PLUGINS = pathlib.Path(__file__).parents[2] / "plugins"

#: Functions with the text of an error as their result.
TEXT_OF = {"to_native", "to_text", "get_error_message"}
#: Attributes and keys that have the words of a program or of a module.
WORDS = {"stderr", "strerror", "msg", "message", "module_stdout", "module_stderr"}
#: Parameters of functions that are errors by their names; str() of one is its text.
ERRORS = {"exc", "error", "problem", "exception"}
SEARCHES = {
    "startswith",
    "endswith",
    "find",
    "rfind",
    "index",
    "count",
    "search",
    "match",
    "fullmatch",
    "findall",
    "finditer",
}
#: Methods that turn a text into a text.
KEEPS = {
    "lower",
    "upper",
    "strip",
    "rstrip",
    "lstrip",
    "split",
    "splitlines",
    "join",
    "replace",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "casefold",
    "decode",
}

#: Functions of a text that return no text.
MEASURES = {
    "len",
    "bool",
    "isinstance",
    "int",
    "float",
    "any",
    "all",
    "hash",
    "append",
    "add",
    *SEARCHES,
}

#: {file: {function: the reason why it is allowed}}.
ALLOWED = {
    "module_utils/_host/kvm_probe.py": {"_cause": "it shortens what a person reads"},
    "module_utils/_libvirt/binding.py": {"text_of": "it shortens what a person reads"},
    "plugin_utils/_conductor/host_moves.py": {"_module": "a sentence of ours names its host once"},
    "plugin_utils/_events/watch.py": {"_tend": "the same words are logged once"},
    # ssh has the same exit status for all its messages, has no translations, and is the only source
    # about a host behind a proxy. A message that is not in the list is unclear, and then nothing is
    # fenced or started.
    "plugin_utils/_evacuation/host_answer.py": {
        "read": "only the words of ssh say whether it was silence"
    },
}


class Finder(ast.NodeVisitor):
    """The comparisons in one function."""

    def __init__(self, function):
        arguments = getattr(function, "args", None)
        parameters = (
            [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs] if arguments else []
        )
        self.errors = {each.arg for each in parameters if each.arg in ERRORS}
        self.texts, self.found = set(), []
        self._function = function
        # Two passes: in a loop a name may be used above the line that sets it.
        for _round in (1, 2):
            self.found = []
            for child in ast.iter_child_nodes(function):
                self.visit(child)

    def visit_FunctionDef(self, node):
        """Skip a nested function, which has another Finder."""

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ExceptHandler(self, node):
        if node.name:
            self.errors.add(node.name)
        self.generic_visit(node)

    def visit_Assign(self, node):
        self.generic_visit(node)
        if self.is_text(node.value):
            self.texts.update(
                each.id
                for target in node.targets
                for each in ast.walk(target)
                if isinstance(each, ast.Name)
            )

    def visit_NamedExpr(self, node):
        self.generic_visit(node)
        if self.is_text(node.value):
            self.texts.add(node.target.id)

    def visit_Compare(self, node):
        self.generic_visit(node)
        for operator, (left, right) in zip(
            node.ops, zip([node.left, *node.comparators], node.comparators)
        ):
            looked_into = isinstance(operator, (ast.In, ast.NotIn)) and self.is_text(right)
            equal = isinstance(operator, (ast.Eq, ast.NotEq)) and (
                self.is_text(left) or self.is_text(right)
            )
            # A comparison with nothing: it checks if there is any text.
            if looked_into or (
                equal
                and not any(
                    isinstance(each, ast.Constant) and not each.value for each in (left, right)
                )
            ):
                self.found.append(node)

    def visit_Call(self, node):
        self.generic_visit(node)
        # A full stop is only a matter of form.
        is_form = (
            bool(node.args) and isinstance(node.args[0], ast.Constant) and node.args[0].value == "."
        )
        if not isinstance(node.func, ast.Attribute) or node.func.attr not in SEARCHES or is_form:
            return
        if self.is_text(node.func.value) or any(self.is_text(each) for each in node.args):
            self.found.append(node)

    def is_text(self, node):
        """Return True if an expression is the message of a program."""
        if isinstance(node, ast.Name):
            return node.id in self.texts
        if isinstance(node, ast.Attribute):
            return node.attr in WORDS and not (
                isinstance(node.value, ast.Name) and node.value.id in ("self", "args")
            )
        if isinstance(node, ast.Subscript):
            key = node.slice
            return (
                (isinstance(key, ast.Constant) and key.value in WORDS)
                or (not isinstance(key, ast.Constant) and self.is_text(node.value))
                or (
                    isinstance(key, ast.Constant)
                    and isinstance(key.value, int)
                    and self.is_text(node.value)
                )
            )
        if isinstance(node, ast.BoolOp):
            return any(self.is_text(each) for each in node.values)
        if isinstance(node, ast.BinOp):
            return self.is_text(node.left) or self.is_text(node.right)
        if isinstance(node, ast.IfExp):
            return self.is_text(node.body) or self.is_text(node.orelse)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return self.is_text(node.elt) or any(
                self.is_text(each.iter) for each in node.generators
            )
        if isinstance(node, ast.Call):
            function, arguments = node.func, node.args
            name = (
                function.attr
                if isinstance(function, ast.Attribute)
                else getattr(function, "id", "")
            )
            if name in ("str", "repr") and arguments:
                return self.is_error(arguments[0]) or self.is_text(arguments[0])
            if name in TEXT_OF or (
                name == "text_of"
                and isinstance(function, ast.Attribute)
                and getattr(function.value, "id", "") in ("_libvirt", "binding")
            ):
                return True
            if name == "get" and arguments and isinstance(arguments[0], ast.Constant):
                return arguments[0].value in WORDS
            if (
                isinstance(function, ast.Attribute)
                and name in KEEPS
                and self.is_text(function.value)
            ):
                return True
            # A function makes another text from a text, unless it checks the form of the text.
            return name not in MEASURES and any(self.is_text(each) for each in arguments)
        return False

    def is_error(self, node):
        return isinstance(node, ast.Name) and node.id in self.errors


def comparisons(path):
    """Return {function: line} of a file."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
    ]
    line_by_function = {}
    for function in [tree, *functions]:
        for node in Finder(function).found:
            line_by_function.setdefault(
                getattr(function, "name", "a lambda" if function is not tree else "the file"),
                node.lineno,
            )
    return line_by_function


@pytest.mark.parametrize(
    "folder",
    sorted(each.name for each in PLUGINS.iterdir() if each.is_dir() and each.name != "__pycache__"),
)
def test_f06_no_text_decides(folder):
    problems = []
    for path in sorted((PLUGINS / folder).rglob("*.py")):
        name = str(path.relative_to(PLUGINS))
        for function, line in comparisons(path).items():
            if function not in ALLOWED.get(name, {}):
                problems.append(
                    f"plugins/{name}:{line} ({function}) decides by what somebody says in words"
                )
    assert not problems, "\n".join(problems)


def test_f06_each_exception_is_still_needed():
    for name, functions in ALLOWED.items():
        assert functions.keys() <= comparisons(PLUGINS / name).keys(), name


@pytest.mark.parametrize(
    "body",
    [
        "try: call()\n    except OSError as exc:\n        if 'exists' in str(exc): return",
        "text = str(error).lower()\n    return any(each in text for each in ('a', 'b'))",
        "return re.search('x', str(error))",
        "words = result.get('msg') or ''\n    return words.startswith('no')",
        "return done.stderr.strip().endswith('x')",
        "said = _libvirt.text_of(error)\n    return pattern.search(said)",
        "return result['msg'] == 'gone'",
    ],
)
def test_f06_the_rule_finds_them(tmp_path, body):
    (tmp_path / "one.py").write_text(f"def one(error, result, done, pattern):\n    {body}\n")
    assert comparisons(tmp_path / "one.py") == {"one": pytest.approx(2, abs=3)}
