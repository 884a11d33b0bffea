#!/usr/bin/env python3
"""Fails when an invariant of a room's README is quoted by no test, or a test quotes one that no README has.

An invariant is a list item of src/**/README.md that begins with its number (`- KV-3 After ...`). A test quotes it by
naming the number, in a comment or in its own name (KV-3, KV_3), anywhere below tests/.

usage: check_invariants.py [ROOT]
"""

import pathlib
import re
import sys

ITEM = re.compile(r"^[-*] \**([A-Z][A-Z0-9]*)-(\d+)\b", re.M)
SUFFIXES = {".cc", ".h", ".cmake", ".py", ".txt"}


def invariants(root):
    """(room, number) and the README that has it."""
    found = {}
    for readme in sorted((root / "src").rglob("README.md")):
        for room, number in ITEM.findall(readme.read_text()):
            found.setdefault((room, int(number)), readme.relative_to(root).as_posix())
    return found


def quoted(root, rooms):
    """(room, number) and the first file that names it."""
    if not rooms:
        return {}
    quote = re.compile(rf"(?<![A-Za-z0-9])({'|'.join(sorted(rooms))})[-_](\d+)(?!\d)")
    found = {}
    for path in sorted((root / "tests").rglob("*")):
        if path.suffix in SUFFIXES and path.is_file() and "data" not in path.relative_to(root).parts:
            for room, number in quote.findall(path.read_text()):
                found.setdefault((room, int(number)), path.relative_to(root).as_posix())
    return found


def check(root):
    known = invariants(root)
    tests = quoted(root, {room for room, _ in known})
    problems = [f"{known[key]}: {key[0]}-{key[1]} is quoted by no test below tests/" for key in known if key not in tests]
    problems += [f"{tests[key]} quotes {key[0]}-{key[1]}, which no README has" for key in tests if key not in known]
    return known, sorted(problems)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parents[1])
    known, problems = check(root)
    for problem in problems:
        print(problem)
    if problems:
        sys.exit(1)
    print(f"check_invariants: {len(known)} invariants, each quoted by a test")


if __name__ == "__main__":
    main()
