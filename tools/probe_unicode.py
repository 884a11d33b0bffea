#!/usr/bin/env python3
"""Asks Hugging Face `tokenizers` and `regex` which code points belong to the classes that unicode.jsonl.gz does not hold.

    pip install tokenizers==0.23.3 regex
    python3 tools/probe_unicode.py      # rewrites tools/data/unicode_more.jsonl.gz

Every general category and the scripts that split rules name come from the regular expressions of `tokenizers`; so do the
sets of characters that match each other under (?i). "single_word" is what an added token with that flag takes for a
word character. What the normalizers StripAccents and BertNormalizer drop are sets of an older Unicode. Grapheme break
classes come from the `regex` package.
"""

import gzip
import json
from pathlib import Path

import regex
from tokenizers import AddedToken, Regex, Tokenizer, normalizers
from tokenizers.models import BPE

OUT = Path(__file__).resolve().parent / "data" / "unicode_more.jsonl.gz"
CATEGORIES = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn".split()
SCRIPTS = (
    "Arabic Armenian Bengali Bopomofo Cyrillic Devanagari Ethiopic Georgian Greek Gujarati Gurmukhi Han Hangul Hebrew "
    "Hiragana Kannada Katakana Khmer Lao Latin Malayalam Mongolian Myanmar Oriya Sinhala Tamil Telugu Thai Tibetan "
    "Common Inherited"
).split()
BREAKS = "CR LF Control Extend ZWJ Regional_Indicator Prepend SpacingMark L V T LV LVT".split()
CONJUNCT = "Linker Consonant Extend".split()
SCALARS = [point for point in range(0x110000) if not 0xD800 <= point < 0xE000]
EVERYTHING = "".join(map(chr, SCALARS))


def ranges(points) -> list[list[int]]:
    result: list[list[int]] = []
    for point in points:
        if result and result[-1][1] == point - 1:
            result[-1][1] = point
        else:
            result.append([point, point])
    return result


def members(pattern: str) -> list[list[int]]:
    kept = set(normalizers.Replace(Regex(pattern), "").normalize_str(EVERYTHING))
    return ranges(point for point in SCALARS if chr(point) not in kept)


def word_characters() -> list[list[int]]:
    """Characters after which an added token with single_word does not match."""
    tokenizer = Tokenizer(BPE({"x": 0}, [], unk_token="x"))
    tokenizer.add_tokens([AddedToken("\u00a6Q\u00a6", single_word=True, normalized=False)])
    mark, found = tokenizer.token_to_id("\u00a6Q\u00a6"), []
    for point in SCALARS:
        if mark not in tokenizer.encode(chr(point) + "\u00a6Q\u00a6").ids:
            found.append(point)
    return ranges(found)


def dropped(normalizer) -> list[list[int]]:
    """Characters that it drops between two others."""
    return ranges(point for point in SCALARS if normalizer.normalize_str(f"a{chr(point)}b") == "ab")


def bert(**kept) -> normalizers.BertNormalizer:
    off = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**off, **kept})


def case_orbits() -> list[list[int]]:
    """Characters that match each other, one for one, under (?i)."""
    cased = [c for c in EVERYTHING if regex.match(r"[\p{L}\p{Nl}\p{So}\p{Mn}]", c) and not regex.match(r"\p{Lo}", c)]
    cased += [c for c in EVERYTHING if regex.match(r"\p{Lo}", c) and (c.lower() != c or c.upper() != c)]
    text, seen, orbits = "\n".join(cased) + "\n", set(), []
    for char in cased:
        if char in seen or (char.lower() == char and char.upper() == char and char.casefold() == char):
            continue
        left = normalizers.Replace(Regex(f"(?i:{regex.escape(char)})"), "").normalize_str(text)
        kept = set(left)
        orbit = [ord(c) for c in cased if c not in kept]
        seen.update(map(chr, orbit))
        if len(orbit) > 1:
            orbits.append(orbit)
    return orbits


def lines():
    for name in CATEGORIES:
        yield {"class": f"\\p{{{name}}}", "ranges": members(f"\\p{{{name}}}")}
    for name in SCRIPTS:
        yield {"class": f"\\p{{{name}}}", "ranges": members(f"\\p{{{name}}}")}
    yield {"class": "single_word", "ranges": word_characters()}
    yield {"class": "StripAccents", "ranges": dropped(normalizers.StripAccents())}
    yield {"class": "BertNormalizer strip_accents", "ranges": dropped(bert(strip_accents=True))}
    yield {"class": "BertNormalizer clean_text", "ranges": dropped(bert(clean_text=True))}
    for name in BREAKS:
        yield {"class": f"break {name}", "ranges": ranges(map(ord, regex.findall(f"\\p{{GCB={name}}}", EVERYTHING)))}
    pictures = regex.findall(r"\p{Extended_Pictographic}", EVERYTHING)
    yield {"class": "break Extended_Pictographic", "ranges": ranges(map(ord, pictures))}
    for name in CONJUNCT:
        found = regex.findall(f"\\p{{InCB={name}}}", EVERYTHING)
        yield {"class": f"conjunct {name}", "ranges": ranges(map(ord, found))}
    yield {"case orbits": case_orbits()}


def main() -> None:
    rows = [json.dumps(line, separators=(",", ":")) for line in lines()]
    with open(OUT, "wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as out:
        out.write("".join(row + "\n" for row in rows).encode())
    print(f"{OUT}: {len(rows)} lines, {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
