#!/usr/bin/env python3
"""Writes src/text/jinja_unicode_tables.cc: what Python's str methods know of each code point.

    python3 tools/make_jinja_unicode.py src/text/jinja_unicode_tables.cc

Chat templates are written against Python's string methods, so the tables are read off the interpreter itself.
"""

import sys
import unicodedata
from pathlib import Path

LAST = 0x110000


def traits(code: int) -> int:
    """The bits of CharacterTraits in jinja_unicode.h."""
    c = chr(code)
    number = 3 if c.isdecimal() else 2 if c.isdigit() else 1 if c.isnumeric() else 0
    case = 3 if unicodedata.category(c) == "Lt" else 2 if c.isupper() else 1 if c.islower() else 0
    identifier = 2 if c.isidentifier() else 1 if ("a" + c).isidentifier() else 0
    final = (c + "Σ").lower().endswith("ς")
    ignorable = ("A" + c + "Σ").lower().endswith("ς") and not final
    return c.isalpha() | number << 1 | case << 3 | c.isprintable() << 5 | identifier << 6 | ignorable << 8


def runs(values: dict[int, int]) -> list[tuple[int, int, int, int]]:
    """(first, last, stride, delta): code points first, first + stride, ... last all move by delta."""
    found: list[list[int]] = []
    for code, target in sorted(values.items()):
        delta = target - code
        if found:
            first, last, stride, same = found[-1]
            if same == delta and (code - last == stride or (first == last and code - last <= 2)):
                found[-1] = [first, code, code - last, delta]
                continue
        found.append([code, code, 1, delta])
    return [tuple(run) for run in found]


def lines(items: list[str]) -> str:
    text, line = [], " "
    for item in items:
        if len(line) + len(item) + 2 > 120:
            text.append(line)
            line = " "
        line += f" {item},"
    return "\n".join([*text, line])


def c_string(text: str) -> str:
    return '"' + "".join(f"\\{byte:03o}" for byte in text.encode()) + '"'


def main() -> None:
    kinds: list[str] = []
    previous = None
    for code in range(LAST):
        bits = 0 if 0xD800 <= code <= 0xDFFF else traits(code)
        if bits != previous:
            kinds.append(f"0x{code << 11 | bits:x}")
            previous = bits
    methods = {"Upper": str.upper, "Lower": str.lower, "Title": str.title, "Fold": str.casefold}
    simple: dict[str, dict[int, int]] = {name: {} for name in methods}
    special: list[str] = []
    for code in range(LAST):
        if 0xD800 <= code <= 0xDFFF:
            continue
        c = chr(code)
        for name, method in methods.items():
            mapped = method(c)
            usual = {"Title": c.upper(), "Fold": c.lower()}.get(name, c)
            if mapped == usual:
                continue
            if len(mapped) == 1:
                simple[name][code] = ord(mapped)
            else:
                special.append(f"{{0x{code:x}, CaseMapping::k{name}, {c_string(mapped)}}}")
    out = ["// Made by tools/make_jinja_unicode.py; do not edit.", '#include "text/jinja_unicode_tables.h"', ""]
    out += ["namespace vernier::jinja {", ""]
    out += [f"// Unicode {unicodedata.unidata_version}. Each entry: first code point << 11 | traits.", "// clang-format off"]
    out += ["const uint32_t kTraitRuns[] = {", lines(kinds), "};", f"const size_t kTraitRunCount = {len(kinds)};"]
    for name, values in simple.items():
        found = runs(values)
        items = [f"{{0x{first:x}, 0x{last:x}, {stride}, {delta}}}" for first, last, stride, delta in found]
        out += [f"const CaseRun k{name}Runs[] = {{", lines(items), "};"]
        out += [f"const size_t k{name}RunCount = {len(found)};"]
    out += ["const SpecialCase kSpecialCases[] = {", lines(special), "};"]
    out += [f"const size_t kSpecialCaseCount = {len(special)};", "// clang-format on", ""]
    out += ["}  // namespace vernier::jinja"]
    Path(sys.argv[1]).write_text("\n".join(out) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
