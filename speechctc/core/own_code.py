"""The content of code that a user adds, by which a change of it is noticed."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import sys
from types import CodeType
from typing import Any


def content(made: Any) -> str:
    """Return a hash of a class or function, with what it uses of its file, and with its base classes.

    Comments, docstrings and layout do not count. Of what other files define, only base classes count, but not those of
    this package and of other people's. Where there is no source, the bytecode counts.
    """
    top = _package(made)
    parts = [part for part in inspect.getmro(made) if _is_own(part, top)] if inspect.isclass(made) else [made]
    return hashlib.sha256(repr([_of_source(part) or _of_bytecode(part) for part in parts]).encode()).hexdigest()[:16]


def _package(part: Any) -> str:
    return str(getattr(part, "__module__", "")).partition(".")[0]


def _is_own(part: type, top: str) -> bool:
    package = _package(part)
    if package == top:
        return True
    codes = _codes(part)
    return package not in {*sys.stdlib_module_names, "speechctc"} and bool(
        codes and "-packages" not in codes[0].co_filename
    )


def _codes(part: Any) -> list[CodeType]:
    """Return the code of a function, or of the methods of a class."""
    members = vars(part).values() if inspect.isclass(part) else (part,)
    functions = (inspect.unwrap(getattr(each, "__func__", each)) for each in members)
    return [each.__code__ for each in functions if inspect.isfunction(each)]


def _of_source(part: Any) -> list[Any]:
    """Return the syntax of a class or function and of what it uses of its file; nothing where there is no source."""
    codes = _codes(part)
    if not codes:
        return []
    linecache.checkcache(codes[0].co_filename)
    try:
        tree = ast.parse("".join(linecache.getlines(codes[0].co_filename)))
    except (SyntaxError, ValueError):
        return []
    bound: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _bound(statement):
            bound.setdefault(name, []).append(statement)
    used: set[ast.stmt] = set()
    seen, waiting = set(), [part.__qualname__.partition(".")[0]]
    while waiting:
        if (name := waiting.pop()) not in seen:
            seen.add(name)
            used.update(bound.get(name, ()))
            inside = (each for statement in bound.get(name, ()) for each in ast.walk(statement))
            waiting += [each.id for each in inside if isinstance(each, ast.Name)]
    return [_syntax(statement) for statement in tree.body if statement in used]


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement of a file defines; what only a script does when it is run is none of it."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    inside = list(ast.walk(statement))
    if isinstance(statement, ast.If) and any(isinstance(each, ast.Name) and each.id == "__name__" for each in inside):
        return set()
    names = {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return names | {each.asname or each.name.partition(".")[0] for each in inside if isinstance(each, ast.alias)}


def _syntax(node: Any) -> Any:
    """Return a syntax tree as lists that are the same with each version of Python, without texts that do nothing."""
    if isinstance(node, list):
        return [_syntax(each) for each in node if not _is_docstring(each)]
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = ((name, value) for name, value in ast.iter_fields(node) if value is not None and value != [])
    return [type(node).__name__, *([name, _syntax(value)] for name, value in fields if name != "ctx")]


def _is_docstring(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _of_bytecode(part: Any) -> list[Any]:
    return [_instructions(code) for code in _codes(part)]


def _instructions(code: CodeType) -> list[Any]:
    inner = [_instructions(each) if isinstance(each, CodeType) else _constant(each) for each in code.co_consts]
    return [code.co_code.hex(), code.co_names, inner]


def _constant(value: Any) -> str:
    return repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)
