#!/usr/bin/env python3
"""Writes src/text/unicode_tables.inc from tools/data/unicode.jsonl.gz and tools/data/unicode_more.jsonl.gz.

    python3 tools/make_unicode_tables.py

Both hold what Hugging Face `tokenizers` makes of every code point: classes of Unicode 16.0, normal forms of 9.0.
The script checks that the two agree where they overlap, and that each table gives back what it was made of.
"""

import gzip
import json
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "src/text/unicode_tables.inc"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
BREAKS = "Other CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT Extended_Pictographic".split()
CONJUNCTS = "None Linker Consonant Extend".split()


def read(name: str) -> list[dict]:
    with gzip.open(ROOT / "tools/data" / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def points(ranges) -> set[int]:
    return {point for first, last in ranges for point in range(first, last + 1)}


def runs(table: dict[int, int], default: int) -> list[tuple[int, int]]:
    """[start, value] wherever the value changes."""
    result: list[tuple[int, int]] = []
    for point in range(0x110000):
        value = table.get(point, default)
        if not result or result[-1][1] != value:
            result.append((point, value))
    return result


def canonical_forms(rows):
    forms = {row["form"]: {int(k, 16): v for k, v in row["changed"].items()} for row in rows if "form" in row}
    nfd, nfc = forms["NFD"], forms["NFC"]
    stable = {point: text for point, text in nfd.items() if point not in nfc and len(text) > 1}
    whole = {text: chr(point) for point, text in stable.items()}
    compose = {}
    for point, text in stable.items():
        # The last mark of the pair need not be the last of the full decomposition: marks are sorted in it.
        pairs = [
            (whole.get(rest, rest), text[i])
            for i in range(len(text) - 1, 0, -1)
            if len(rest := text[:i] + text[i + 1 :]) == 1 or rest in whole
        ]
        assert pairs, f"U+{point:04X} has no pair"
        compose[point] = pairs[0]
    return forms, compose


def check_compositions(compose) -> None:
    """The pairs are those of the Unicode data that Python ships, for all code points that both know."""
    import unicodedata

    for point, (first, second) in compose.items():
        parts = unicodedata.decomposition(chr(point)).split()
        assert [int(part, 16) for part in parts] == [ord(first), ord(second)], f"U+{point:04X} {parts}"


class Writer:
    def __init__(self) -> None:
        self.lines = ["// Made by tools/make_unicode_tables.py; do not edit.", "// clang-format off"]

    def array(self, kind: str, name: str, values: list[str]) -> None:
        self.lines.append(f"constexpr {kind} {name}[] = {{")
        line = ""
        for value in values:
            if len(line) + len(value) > 116:
                self.lines.append("    " + line.rstrip())
                line = ""
            line += value + ", "
        self.lines.append("    " + line.rstrip())
        self.lines.append("};")

    def ranges(self, name: str, ranges) -> None:
        self.array("CodePointRange", name, [f"{{0x{a:x},0x{b:x}}}" for a, b in ranges])

    def mapping(self, name: str, pool: list[int], table: dict[int, str]) -> None:
        entries = []
        for point in sorted(table):
            text = [ord(char) for char in table[point]]
            assert len(text) < 256
            entries.append(f"{{0x{point:x},{len(pool)},{len(text)}}}")
            pool.extend(text)
        self.array("Mapping", name, entries)


def main() -> None:
    rows, more = read("unicode.jsonl.gz"), read("unicode_more.jsonl.gz")
    classes = {row["class"]: row["ranges"] for row in rows if "class" in row}
    extra = {row["class"]: row["ranges"] for row in more if "class" in row}
    category = {point: CATEGORIES.index("Cs") for point in range(0xD800, 0xE000)}
    for name in CATEGORIES:
        for point in points(extra.get(f"\\p{{{name}}}", [])):
            assert point not in category
            category[point] = CATEGORIES.index(name)
    assert len(category) == 0x110000
    members = {name: {p for p, c in category.items() if CATEGORIES[c] == name} for name in CATEGORIES}
    for name, ranges in classes.items():
        if name.startswith("\\p{") and name != "\\p{Han}":
            wanted = name[3:-1]
            assert points(ranges) == set().union(*(members[c] for c in CATEGORIES if c.startswith(wanted))), name
    assert points(classes["\\d"]) == members["Nd"]
    assert classes["\\s"] == classes["WhitespaceSplit"]
    assert classes["\\p{Han}"] == extra["\\p{Han}"]

    out = Writer()
    out.array("uint32_t", "kCategoryRuns", [f"0x{(start << 8) | value:x}" for start, value in runs(category, -1)])
    out.ranges("kWhiteSpace", classes["\\s"])
    out.ranges("kWord", classes["\\w"])  # not a union of categories: it has circled letters, and the fractions of Latin-1
    out.ranges("kNumeric", classes["Digits"])
    out.ranges("kPunctuation", classes["Punctuation"])
    out.ranges("kSingleWord", extra["single_word"])
    out.ranges("kAccents", extra["StripAccents"])
    out.ranges("kBertAccents", extra["BertNormalizer strip_accents"])
    out.ranges("kBertDropped", extra["BertNormalizer clean_text"])
    scripts = [name[3:-1] for name in extra if name.startswith("\\p{") and len(name) > 6]
    for name in scripts:
        out.ranges(f"k{name}", extra[f"\\p{{{name}}}"])
    out.array("NamedRanges", "kScripts", [f'{{"{name}", k{name}}}' for name in scripts])

    breaks = {p: BREAKS.index(name) for name in BREAKS[1:] for p in points(extra[f"break {name}"])}
    out.array("uint32_t", "kBreakRuns", [f"0x{(start << 8) | value:x}" for start, value in runs(breaks, 0)])
    conjunct = {p: CONJUNCTS.index(name) for name in CONJUNCTS[1:] for p in points(extra[f"conjunct {name}"])}
    out.array("uint32_t", "kConjunctRuns", [f"0x{(start << 8) | value:x}" for start, value in runs(conjunct, 0)])

    combining = next(row["combining classes"] for row in rows if "combining classes" in row)
    orders = {p: int(value) for value, ranges in combining.items() for p in points(ranges)}
    out.array("uint32_t", "kCombiningRuns", [f"0x{(start << 8) | value:x}" for start, value in runs(orders, 0)])
    forms, compose = canonical_forms(rows)
    check_compositions(compose)
    pool: list[int] = []
    out.mapping("kCanonical", pool, forms["NFD"])
    out.mapping("kCompatibility", pool, forms["NFKC"])
    out.mapping("kLower", pool, forms["Lowercase"])
    out.array("char32_t", "kMappingPool", [f"0x{point:x}" for point in pool])
    pairs = sorted((ord(first), ord(second), point) for point, (first, second) in compose.items())
    out.array("Composition", "kCompositions", [f"{{0x{a:x},0x{b:x},0x{c:x}}}" for a, b, c in pairs])
    orbits = next(row["case orbits"] for row in more if "case orbits" in row)
    flat = [point for orbit in orbits for point in [*orbit, 0]]
    out.array("char32_t", "kCaseOrbits", [f"0x{point:x}" for point in flat])
    out.lines.append("// clang-format on")
    OUT.write_text("\n".join(out.lines) + "\n")
    print(f"{OUT.relative_to(ROOT)}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
