"""No function of the core branches more than ten times without a reason beside it."""

import ast
from pathlib import Path

from tests.test_tidy import functions_in, name_of, tracked

CORE = Path(__file__).resolve().parent.parent / "shared/reservoir/core"
BRANCHES_MAX = 10
REASON = "# Branches: "


def branches_of(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the ways through a function as radon does: loops, conditions and their parts, comprehensions, handlers."""
    count, within = 1, list(ast.iter_child_nodes(function))
    while within:
        node = within.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue  # counted by itself
        within += ast.iter_child_nodes(node)
        match node:
            case ast.If() | ast.IfExp() | ast.Assert():
                count += 1
            case ast.For() | ast.While() | ast.AsyncFor():
                count += 1 + bool(node.orelse)
            case ast.BoolOp():
                count += len(node.values) - 1
            case ast.comprehension():
                count += 1 + len(node.ifs)
            case ast.Try():
                count += len(node.handlers) + bool(node.orelse)
            case ast.Match():
                count += len(node.cases)
    return count


def has_reason(lines: list[str], function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the line above the function, or above its decorators, says why it branches so often."""
    first = min(
        [function.lineno, *(decorator.lineno for decorator in function.decorator_list)]
    )
    return lines[first - 2].strip().startswith(REASON)


def test_a_function_of_the_core_is_simple_or_says_why_not() -> None:
    silent, needless = list[str](), list[str]()
    for path in tracked(".py"):
        if path.is_relative_to(CORE):
            text = path.read_text(encoding="utf-8")
            for function in functions_in(ast.parse(text)):
                is_simple = branches_of(function) <= BRANCHES_MAX
                if is_simple == has_reason(text.splitlines(), function):
                    (needless if is_simple else silent).append(
                        f"{name_of(path)}: {function.name}"
                    )
    assert not silent, (
        f"more than {BRANCHES_MAX} branches, and no line '{REASON}...' above: {silent}"
    )
    assert not needless, f"simple, and yet with a reason: {needless}"


def test_branches_are_counted_as_radon_counts_them() -> None:
    (function,) = functions_in(
        ast.parse("""
def f(a, b):
    assert a or b
    while a and b:
        a = [x for x in b if x] if b else a
    try:
        return a
    except ValueError:
        return b
""")
    )

    assert branches_of(function) == 1 + 2 + 2 + 3 + 1
