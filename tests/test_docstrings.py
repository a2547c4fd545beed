"""Docstrings tell what a caller must know and cannot see in the signature."""

import ast
import re
from collections.abc import Iterator, Mapping

import pytest

from reservoir.ports import errors
from tests.test_tidy import ROOT, name_of, tracked

PACKAGES = (
    "shared/reservoir/ports",
    "shared/reservoir/usecases",
    "shared/reservoir/manifests",
    "shared/reservoir/deployment",
    "lab/embedded",
)
Function = ast.FunctionDef | ast.AsyncFunctionDef
Names = frozenset[str]
# What helpers of the adapters raise (shared/reservoir/adapters/dynamodb/table.py).
HELPERS = {
    "readable": "UnreadableRowsError",
    "all_readable": "UnreadableRowsError",
    "apply": "ConflictError",
    "transact": "ConflictError",
}
# "Implements ``reservoir.ports.state.NodeClaimStore``."; "as ``save``", "As :meth:`save`".
PORT = re.compile(r"``reservoir\.ports\.\w+\.(\w+)``")
AS_ANOTHER = re.compile(r"\b[Aa]s (?:``|:meth:`)(\w+)`")


def modules(package: str) -> Mapping[str, ast.Module]:
    paths = [path for path in tracked(".py") if path.is_relative_to(ROOT / package)]
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def public_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield functions and methods that others may call, by their name."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = (
                part
                for part in node.body
                if isinstance(part, Function) and not part.name.startswith("_")
            )
            yield from ((f"{node.name}.{method.name}", method) for method in methods)


def makers(trees: Mapping[str, ast.Module]) -> Mapping[str, str]:
    """Return the functions that make an error for others to raise, with its class."""
    functions = (
        node for tree in trees.values() for node in tree.body if isinstance(node, Function)
    )
    made = ((function.name, function.returns) for function in functions)
    return {
        name: kind.id
        for name, kind in made
        if isinstance(kind, ast.Name) and kind.id.endswith("Error")
    }


def name(node: ast.expr | None) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return (
        node.attr
        if isinstance(node, ast.Attribute)
        else node.id
        if isinstance(node, ast.Name)
        else ""
    )


def statements(
    nodes: list[ast.stmt], caught: Names = frozenset()
) -> Iterator[tuple[ast.stmt, Names]]:
    """Yield statements, those inside of others too, with what is caught around them.

    Functions inside of them run for others and are left out.
    """
    for node in nodes:
        if isinstance(node, Function | ast.ClassDef):
            continue
        yield node, caught
        handlers = node.handlers if isinstance(node, ast.Try) else []
        kinds = [
            kind
            for handler in handlers
            for kind in ast.walk(handler.type or handler)
            if isinstance(kind, ast.Name)
        ]
        for field, value in ast.iter_fields(node):
            inside = caught | {kind.id for kind in kinds} if field == "body" else caught
            parts = (
                [part for part in value if isinstance(part, ast.AST)]
                if isinstance(value, list)
                else []
            )
            yield from statements(
                [part for part in parts if isinstance(part, ast.stmt)], inside
            )
            for part in parts:
                if isinstance(part, ast.ExceptHandler | ast.match_case):
                    yield from statements(part.body, caught)


def raised(nodes: list[ast.stmt]) -> Iterator[str]:
    """Yield what statements raise and do not catch themselves."""
    for node, caught in statements(nodes):
        if isinstance(node, ast.Raise) and name(node.exc) not in caught:
            yield name(node.exc)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_public_function_raises_is_in_its_docstring(package: str) -> None:
    trees = modules(package)
    made = makers(trees)
    untold = [
        (path, function, made.get(error, error))
        for path, tree in trees.items()
        for function, node in public_functions(tree)
        for error in raised(node.body)
        # a name in small letters holds an error that was caught
        if error[:1].isupper() or error in made
        if made.get(error, error) not in (ast.get_docstring(node) or "")
    ]
    assert untold == []


def test_a_raise_is_found_wherever_it_stands() -> None:
    source = """
def function():
    if a:
        raise OneError
    try:
        raise CaughtError("x")
    except CaughtError as error:
        raise errors.TwoError from error
    with b:
        match c:
            case 1:
                raise ThreeError(d)
    def inner():
        raise InnerError
"""
    (function,) = ast.parse(source).body
    assert isinstance(function, ast.FunctionDef)
    assert list(raised(function.body)) == ["OneError", "TwoError", "ThreeError"]


def methods_of(node: ast.ClassDef) -> Mapping[str, Function]:
    return {part.name: part for part in node.body if isinstance(part, Function)}


def classes(package: str) -> Iterator[ast.ClassDef]:
    yield from (
        node
        for tree in modules(package).values()
        for node in tree.body
        if isinstance(node, ast.ClassDef)
    )


def escaping(
    methods: Mapping[str, Function], method: str, seen: Names = frozenset()
) -> Iterator[str]:
    """Yield what leaves a method: what it raises, what the helpers do, and what its own class's methods do."""
    for node, caught in statements(methods[method].body):
        found = [name(node.exc)] if isinstance(node, ast.Raise) else []
        own = [
            part
            for part in ast.iter_child_nodes(node)
            if isinstance(part, ast.expr | ast.withitem)
        ]
        for call in (
            part for each in own for part in ast.walk(each) if isinstance(part, ast.Call)
        ):
            called = name(call.func)
            if isinstance(call.func, ast.Name) and called in HELPERS:
                found.append(HELPERS[called])
            elif (
                ast.unparse(call.func) == f"self.{called}"
                and called in methods.keys() - seen
            ):
                found += escaping(methods, called, seen | {method})
        yield from (error for error in found if error not in caught)


def test_what_an_adapter_raises_is_in_the_docstring_of_its_port() -> None:
    """Errors of AWS are left out: the ports say once for all that their methods may raise them."""
    ports = {node.name: methods_of(node) for node in classes("shared/reservoir/ports")}
    docstrings = {
        (port, key): ast.get_docstring(node) or ""
        for port in ports
        for key, node in ports[port].items()
    }
    told: set[tuple[str, str, str]] = set()
    untold: set[tuple[str, str, str]] = set()
    for adapter in classes("shared/reservoir/adapters"):
        methods = methods_of(adapter)
        for port in PORT.findall(ast.get_docstring(adapter) or ""):
            for method in ports[port].keys() & methods.keys():
                docstring = docstrings[port, method]
                docstring += "".join(
                    docstrings.get((port, other), "")
                    for other in AS_ANOTHER.findall(docstring)
                )
                for error in escaping(methods, method):
                    if error[:1].isupper() and not hasattr(errors, error):
                        (told if error in docstring else untold).add((port, method, error))
    assert untold == set()
    assert {
        ("NodeClaimStore", "settle", "ConflictError"),
        ("WorkloadStore", "get_placed", "UnreadableRowsError"),
    } <= told, "through another method"
