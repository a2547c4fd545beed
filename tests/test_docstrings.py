"""Docstrings tell what a caller must know and cannot see in the signature."""

import ast
from collections.abc import Iterator, Mapping

import pytest

from tests.test_tidy import ROOT, name_of, tracked

PACKAGES = ("shared/ports", "shared/usecases", "shared/manifests", "shared/deployment", "embedded")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def modules(package: str) -> Mapping[str, ast.Module]:
    paths = [path for path in tracked(".py") if path.is_relative_to(ROOT / package)]
    return {name_of(path): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def public_functions(tree: ast.Module) -> Iterator[tuple[str, Function]]:
    """Yield functions and methods that others may call, by their name."""
    for node in tree.body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            methods = (part for part in node.body if isinstance(part, Function) and not part.name.startswith("_"))
            yield from ((f"{node.name}.{method.name}", method) for method in methods)


def makers(trees: Mapping[str, ast.Module]) -> Mapping[str, str]:
    """Return the functions that make an error for others to raise, with its class."""
    functions = (node for tree in trees.values() for node in tree.body if isinstance(node, Function))
    made = ((function.name, function.returns) for function in functions)
    return {name: kind.id for name, kind in made if isinstance(kind, ast.Name) and kind.id.endswith("Error")}


def name(node: ast.expr | None) -> str:
    node = node.func if isinstance(node, ast.Call) else node
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def raised(nodes: list[ast.stmt], caught: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield what statements raise and do not catch themselves; functions inside of them raise for others."""
    for node in nodes:
        if isinstance(node, Function | ast.ClassDef):
            continue
        if isinstance(node, ast.Raise) and name(node.exc) not in caught:
            yield name(node.exc)
        handlers = node.handlers if isinstance(node, ast.Try) else []
        kinds = [
            kind for handler in handlers for kind in ast.walk(handler.type or handler) if isinstance(kind, ast.Name)
        ]
        for field, value in ast.iter_fields(node):
            inside = caught | {kind.id for kind in kinds} if field == "body" else caught
            parts = [part for part in value if isinstance(part, ast.AST)] if isinstance(value, list) else []
            yield from raised([part for part in parts if isinstance(part, ast.stmt)], inside)
            for part in parts:
                if isinstance(part, ast.ExceptHandler | ast.match_case):
                    yield from raised(part.body, caught)


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_public_function_raises_is_in_its_docstring(package: str) -> None:
    trees = modules(package)
    made = makers(trees)
    untold = [
        (path, function, made.get(error, error))
        for path, tree in trees.items()
        for function, node in public_functions(tree)
        for error in raised(node.body)
        if error[:1].isupper() or error in made  # a name in small letters holds an error that was caught
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
