"""Prints how large the code is: lines, modules, classes and functions, by package.

    python tools/size.py              as the last commit has it
    python tools/size.py REVISION     as another commit had it

What is hand-written counts: no generated messages, and no steps of the database's migration.
"""

from __future__ import annotations

import argparse
import ast
import io
import subprocess
import tarfile
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COLUMNS = ("lines", "modules", "classes", "functions")


def sizes(revision: str) -> dict[str, Counter[str]]:
    """The counts of each package, and of the folders tests, bench and tools."""
    packed = subprocess.run(
        ("git", "archive", revision), cwd=ROOT, capture_output=True, check=True
    ).stdout
    found: dict[str, Counter[str]] = {}
    with tarfile.open(fileobj=io.BytesIO(packed)) as files:
        for member in files:
            parts = Path(member.name).parts
            written = not {"_pb", "versions"} & set(parts)
            if member.name.endswith(".py") and written and (file := files.extractfile(member)):
                package = next((part for part in parts if part.startswith("deepsea_")), parts[0])
                found.setdefault(package, Counter()).update(counts(file.read()))
    return found


def counts(source: bytes) -> Counter[str]:
    """What one module has of each column."""
    nodes = [*ast.walk(ast.parse(source))]
    return Counter(
        lines=source.count(b"\n"),
        modules=1,
        classes=sum(isinstance(node, ast.ClassDef) for node in nodes),
        functions=sum(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in nodes),
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("revision", nargs="?", default="HEAD", help="a commit; by default HEAD")
    found = sizes(parser.parse_args().revision)
    product = [name for name in sorted(found) if name.startswith("deepsea_")]
    total = sum((found[name] for name in product), Counter[str]())
    rows = [(name, found[name]) for name in product] + [("product", total)]
    rows += [(name, found[name]) for name in sorted(found) if name not in product]
    print(f"| {'':16} |" + "".join(f" {column:>9} |" for column in COLUMNS))
    print(f"|{'-' * 18}|" + f"{'-' * 10}:|" * len(COLUMNS))
    for name, row in rows:
        print(f"| {name:16} |" + "".join(f" {row[column]:>9,} |" for column in COLUMNS))


if __name__ == "__main__":
    main()
