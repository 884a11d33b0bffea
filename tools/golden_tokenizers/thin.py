#!/usr/bin/env python3
"""Copies goldens into tests/data: of each real vocabulary every second line, of the small tokenizers and the splits all.

    python3 tools/golden_tokenizers/thin.py FROM tests/data/tokenizers
"""

import gzip
import sys
from pathlib import Path


def main() -> int:
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    for path in sorted(source.glob("*.jsonl.gz")):
        if path.name == "unicode.jsonl.gz":  # lies in tools/data, where the tables are made of it
            continue
        lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
        whole = path.name.startswith(("mini-", "splits"))
        kept = lines if whole else [lines[0], *lines[1::2]]
        with open(target / path.name, "wb") as file, gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as out:
            out.write(b"".join(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main())
