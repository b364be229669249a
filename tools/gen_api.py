"""Write the API reference, docs/api/, from docstrings and signatures, or check it for drift.

    python tools/gen_api.py            write the folder anew
    python tools/gen_api.py --check    exit 1 if the folder is not what the code gives

Invariants: a module of `PUBLIC` is public with what its `__all__` names, and nothing else is; every
such name has a docstring. The code is read, not imported: pages do not depend on the environment.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from inspect import cleandoc
from pathlib import Path
from typing import Final, NamedTuple

from deepsea_arena.api.ladder_api import METHODS
from deepsea_arena.api.openapi import callers_in_words, method_summary

ROOT: Final = Path(__file__).resolve().parent.parent
TARGET: Final = ROOT / "docs" / "api"
CONTAINERS: Final = {"deepsea_rules": "sdk", "deepsea_sdk": "sdk", "deepsea_referee": "referee"}
PUBLIC: Final = (
    "deepsea_sdk",
    "deepsea_sdk.batch",
    "deepsea_sdk.evaluation",
    "deepsea_sdk.features",
    "deepsea_sdk.features_many",
    "deepsea_sdk.gymnasium_env",
    "deepsea_sdk.pettingzoo_env",
    "deepsea_rules",
    "deepsea_rules.events",
    "deepsea_referee",
)
LADDER: Final = ROOT / "docs" / "api.md"
TABLE: Final = "<!-- made by tools/gen_api.py from the declarations: run `make api` -->"
TABLE_END: Final = "<!-- end -->"
NOTE: Final = "<!-- made by tools/gen_api.py from docstrings: change those and run `make api` -->"
_ITEM: Final = re.compile(r"(\S+(?:,? \S+)*?)  +(\S.*)")


class Found(NamedTuple):
    """A name where it is defined."""

    module: str
    name: str
    node: ast.stmt
    doc: str


class Undocumented(Exception):
    """A public name has no docstring, or is not found."""


def main() -> int:
    """Returns the exit status: 0 done, 1 drift, 2 a name without a docstring."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 on drift")
    check = parser.parse_args().check
    try:
        pages = {f"{module}.md": page(module) for module in PUBLIC} | {"README.md": index()}
    except Undocumented as error:
        print(error, file=sys.stderr)
        return 2
    old = {path.name: path.read_text(encoding="utf-8") for path in TARGET.glob("*")}
    stale = sorted(name for name in old.keys() | pages.keys() if old.get(name) != pages.get(name))
    text = LADDER.read_text(encoding="utf-8")
    before, _, rest = text.partition(TABLE)
    with_table = f"{before}{TABLE}\n{methods()}{rest[rest.index(TABLE_END) :]}"
    if text != with_table:
        stale.append(LADDER.name)
    if check:
        if stale:
            print(f"docs/api: run `make api` and commit {', '.join(stale)}", file=sys.stderr)
        return bool(stale)
    LADDER.write_text(with_table, encoding="utf-8")
    TARGET.mkdir(exist_ok=True)
    for name in old.keys() - pages.keys():
        (TARGET / name).unlink()
    for name, text in pages.items():
        (TARGET / name).write_text(text, encoding="utf-8")
    return 0


def methods() -> str:
    """The table of the ladder's API."""
    rows = [
        f"| `{method.verb} {method.path}` | {callers_in_words(method)} "
        f"| {method_summary(method)} |\n"
        for method in METHODS.values()
    ]
    return "".join(["| below `/api/v1` | for | what it does |\n|---|---|---|\n", *rows])


# Reading


@cache
def tree(module: str) -> ast.Module:
    """The module's code."""
    parts = module.split(".")
    path = ROOT / CONTAINERS[parts[0]] / Path(*parts)
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(path.read_text(encoding="utf-8"))


def public_names(module: str) -> list[str]:
    """The module's `__all__`."""
    for node, _ in documented(tree(module).body):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    raise Undocumented(f"{module} is public and has no __all__")


def documented(body: list[ast.stmt]) -> Iterator[tuple[ast.stmt, str]]:
    """Each statement with its docstring, which follows an assignment, or ""."""
    for node, after in zip(body, [*body[1:], None], strict=True):
        doc = ""
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            doc = ast.get_docstring(node) or ""
        elif isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            doc = cleandoc(str(after.value.value))
        yield node, doc


def find(module: str, name: str) -> Found:
    """The place where a name is defined; follows imports."""
    package = module if tree(module).body and _is_package(module) else module.rpartition(".")[0]
    body = tree(module).body
    typing_only = [inner for node in body if isinstance(node, ast.If) for inner in node.body]
    for node, doc in documented([*body, *typing_only]):
        if isinstance(node, ast.ImportFrom):
            if any((alias.asname or alias.name) == name for alias in node.names):
                own = f"{package}.{node.module}" if node.level else str(node.module)
                return find(own, name)
        elif name in _defined(node):
            if not doc:
                raise Undocumented(f"{module}.{name} is public and has no docstring")
            return Found(module, name, node, doc)
    raise Undocumented(f"{module}.{name} is not found")


def _is_package(module: str) -> bool:
    parts = module.split(".")
    return (ROOT / CONTAINERS[parts[0]] / Path(*parts)).is_dir()


def _defined(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [ast.unparse(node.target)]
    if isinstance(node, ast.Assign):
        return [ast.unparse(target) for target in node.targets]
    return []


# Writing


@cache
def homes() -> dict[tuple[str, str], str]:
    """The page of each public definition: that of its own package first."""
    found: dict[tuple[str, str], str] = {}
    for module in sorted(PUBLIC, key=lambda module: (-module.count("."), module)):
        for name in public_names(module):
            place = find(module, name)
            home = found.setdefault((place.module, place.name), module)
            if place.module.startswith(module) and not home.startswith(module):
                found[place.module, place.name] = module
    return found


def page(module: str) -> str:
    """The page of a module."""
    names = [find(module, name) for name in public_names(module)]
    lines = [
        f"# {module}",
        "",
        NOTE,
        "",
        *prose(ast.get_docstring(tree(module)) or ""),
        "| name | |",
        "|---|---|",
    ]
    sections: list[str] = []
    for place in names:
        lines.append(f"| {link(place, module)} | {summary(place.doc)} |")
        if homes()[place.module, place.name] == module:
            sections += section(place, module)
    return re.sub(r"\n{3,}", "\n\n", "\n".join([*lines, "", *sections])).rstrip() + "\n"


def index() -> str:
    """The page that lists the others."""
    modules = (
        f"- [{module}]({module}.md): {summary(ast.get_docstring(tree(module)) or '')}"
        for module in PUBLIC
    )
    text = "What has no page here is internal, and changes without notice."
    return "\n".join(["# API reference", "", NOTE, "", *modules, "", text]) + "\n"


def link(place: Found, module: str) -> str:
    """A name as a link to its section."""
    home = homes()[place.module, place.name]
    return f"[`{place.name}`]({'' if home == module else home + '.md'}#{place.name.lower()})"


def summary(doc: str) -> str:
    """The first sentence."""
    first = " ".join(doc.split("\n\n")[0].split())
    return re.split(r"(?<=\.) ", first)[0].replace("|", "\\|")


def section(place: Found, module: str) -> Iterator[str]:
    """A name with its signature, docstring and members."""
    node = place.node
    yield from (f"## {place.name}", "")
    if isinstance(node, ast.ClassDef):
        yield from class_section(place, node, module)
    elif isinstance(node, ast.FunctionDef):
        yield from (*code(signature(node)), *prose(place.doc))
    else:
        value = ast.unparse(node)
        yield from (*code(value if len(value) < 200 else place.name), *prose(place.doc))


def class_section(place: Found, node: ast.ClassDef, module: str) -> Iterator[str]:
    """A class: how it is made, what it is, its fields, properties and methods."""
    members = [
        (member, doc)
        for member, doc in documented(node.body)
        if (names := _defined(member)) and (names[0] == "__init__" or names[0][0] != "_")
    ]
    functions = [(m, doc) for m, doc in members if isinstance(m, ast.FunctionDef)]
    start = next(((m, doc) for m, doc in functions if m.name == "__init__"), None)
    yield from code(f"class {signature(start[0], place.name) if start else place.name}")
    bases = []
    for base in map(ast.unparse, node.bases):
        try:
            bases.append(link(find(place.module, base), module))
        except (Undocumented, KeyError):
            bases.append(f"`{base}`")
    if bases:
        yield from (f"Based on {', '.join(bases)}.", "")
    yield from prose(place.doc)
    if start and start[1]:
        yield from prose(start[1])
    for member, doc in members:
        match member:
            case ast.AnnAssign(
                annotation=ast.Subscript(ast.Name("Annotated"), ast.Tuple([kind, about]))
            ):
                field = ast.AnnAssign(member.target, kind, member.value, member.simple)
                yield item(ast.unparse(field), doc or str(ast.literal_eval(about)))
            case ast.AnnAssign() | ast.Assign():
                yield item(ast.unparse(member), doc)
            case ast.FunctionDef() if _is_property(member):
                returns = ast.unparse(member.returns or ast.Name("object"))
                yield item(f"{member.name}: {returns}", doc)
    yield ""
    for function, doc in functions:
        if function.name != "__init__" and not _is_property(function):
            yield from (f"### {place.name}.{function.name}", "")
            yield from (*code(signature(function)), *prose(doc))


def _is_property(function: ast.FunctionDef) -> bool:
    return any(ast.unparse(d) == "property" for d in function.decorator_list)


def signature(function: ast.FunctionDef, name: str = "") -> str:
    """How a function is called; without `self`."""
    arguments = function.args
    if arguments.args and arguments.args[0].arg in ("self", "cls"):
        arguments = ast.arguments(
            **{**{f: getattr(arguments, f) for f in arguments._fields}, "args": arguments.args[1:]}
        )
    returns = f" -> {ast.unparse(function.returns)}" if function.returns and not name else ""
    # unparse() writes defaults as if there were no annotations.
    inside = re.sub(r"(?<=[\w\]])=(?=[\w'\"(\[])", " = ", ast.unparse(arguments))
    one_line = f"{name or function.name}({inside}){returns}"
    if len(one_line) <= 100:
        return one_line
    parts = re.split(r", (?![^\[(]*[\])])", inside)
    return f"{name or function.name}(\n    " + ",\n    ".join(parts) + f",\n){returns}"


def code(text: str) -> list[str]:
    """A block of code."""
    return ["```text" if "├" in text else "```python", text, "```", ""]


def item(text: str, doc: str) -> str:
    """A field or property with its docstring in one line."""
    return f"- `{text}`" + (f": {' '.join(doc.split())}" if doc else "")


def prose(doc: str) -> Iterator[str]:
    """A docstring as Markdown: indented text is code, `name  meaning` lines are a list."""
    block: list[str] = []
    for paragraph in [*doc.split("\n\n"), ""]:
        lines = paragraph.splitlines()
        if lines and all(line.startswith("    ") or not line for line in lines):
            block += ([""] if block else []) + lines
            continue
        if block:
            yield from code("\n".join(line[4:] for line in block))
            block = []
        listed = False
        for line in lines:
            if match := _ITEM.fullmatch(line):
                if not listed:
                    yield ""
                yield f"- `{match[1]}`: {match[2]}"
                listed = True
            elif listed and not line.startswith(" "):
                yield from ("", line)
                listed = False
            else:
                yield f"  {line.strip()}" if listed else line
        if lines:
            yield ""


if __name__ == "__main__":
    sys.exit(main())
