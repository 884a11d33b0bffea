#!/usr/bin/env python3
"""Fails when a file, a function or a README is too long. Lines of code: neither blank nor comment alone.

  file      400 lines of code (a kernel, under src/backends/*/kernels/: 800)
  function   60 lines of code (a kernel: 150)
  README     60 lines
  include/vernier  under 600 lines, all C++ headers together; vernier.h, the C API, counts as a file (decision 0005)

tools/sizes_allow.toml lists the exceptions with their reasons; one that is no longer needed is an error too.

usage: check_sizes.py [ROOT]
"""

import pathlib
import re
import sys
import tomllib

FILE_LINES, KERNEL_FILE_LINES = 400, 800
FUNCTION_LINES, KERNEL_FUNCTION_LINES = 60, 150
README_LINES = 60
PUBLIC_LINES = 600
FOLDERS = ("src", "app", "include", "tests", "bench")
SOURCES = {".h", ".hpp", ".cc", ".cpp", ".cu", ".cuh", ".inc", ".mm"}

TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"([^(\s]*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9A-Za-z_])\'(?:\\.|[^\'\\\n])+\'', re.S
)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
CONTAINER = re.compile(r"\b(?:namespace|class|struct|union|enum|extern)\b")


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def bare(text, keep_strings=False):
    """Text without comments (and strings), with every line where it was."""
    def replace(match):
        if match.group(0).startswith(("//", "/*")):
            return blank(match)
        if keep_strings:
            return match.group(0)
        return re.sub(r"[^\n]", "s", match.group(0))
    return TOKEN.sub(replace, text)


def code_lines(text):
    return sum(1 for line in bare(text, keep_strings=True).splitlines() if line.strip())


ATTRIBUTE = re.compile(r"\[\[[^\]]*\]\]|\b(?:alignas|__attribute__)\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")


def is_function(head):
    """Whether the text before an opening brace, at namespace or class level, heads a function body."""
    head = ATTRIBUTE.sub(" ", head).strip()
    head = re.sub(r"^(?:public|private|protected)\s*:", "", head).strip()
    head = re.sub(r"^template\s*<[^{}]*?>\s*(?=\w|\[)", "", head)
    if "(" not in head or head.endswith("=") or re.match(r"(?:class|struct|union)\s+[\w:<>, *]+?(?:\s+final)?\s*(?::(?!:)|$)", head):
        return False
    before_parameters = head.split("(", 1)[0]
    return not (CONTAINER.search(before_parameters) and not before_parameters.strip().split()[-1].startswith("operator")
                and re.match(r"(?:typedef\s+)?(?:inline\s+)?(?:namespace|extern|enum)\b", head))


def function_name(head):
    head = ATTRIBUTE.sub(" ", head)
    found = re.search(r"([~\w:]+|operator\s*\S+?)\s*\(", head)
    name = found.group(1) if found else "?"
    if name in ("TEST", "TEST_F", "TEST_P", "RC_GTEST_PROP"):
        inside = re.search(r"\(\s*(\w+)\s*,\s*(\w+)", head)
        return f"{name}({inside.group(1)}, {inside.group(2)})" if inside else name
    return name


def kind_of(head, stack, parentheses):
    """What an opening brace opens: "inline" leaves the head before it open (a braced initialiser, a default argument)."""
    if parentheses:
        return "inline"
    if any(kind == "function" for kind, _, _ in stack):
        return "other"
    if re.search(r"\)[^()]*:(?!:)", head) and head[-1:].strip() and not CONTAINER.match(head.strip()):
        return "inline"  # `A::A(int a) : b_{`: the formatter puts a space before a body and none before an initialiser
    if is_function(head):
        return "function"
    return "container" if CONTAINER.search(head) else "other"


def functions(text):
    """(name, first line, lines of code) of each function body, found by matching braces."""
    clean = DIRECTIVE.sub(blank, bare(text))
    has_code = [bool(line.strip()) for line in clean.splitlines()]
    stack, head_start, found, parentheses = [], 0, [], 0
    for at, char in enumerate(clean):
        if char in "()":
            parentheses = max(0, parentheses + (1 if char == "(" else -1))
        elif char == "{":
            head = clean[head_start:at]
            kind = kind_of(head, stack, parentheses)
            stack.append((kind, head, at))
            if kind != "inline":
                head_start = at + 1
        elif char == "}" and stack:
            kind, head, opened = stack.pop()
            if kind == "function":
                label = re.match(r"\s*(?:(?:public|private|protected)\s*:\s*)?", head)
                first = clean.count("\n", 0, opened - len(head) + label.end())
                last = clean.count("\n", 0, at)
                found.append((function_name(head), first + 1, sum(has_code[first:last + 1])))
            if kind != "inline":
                head_start = at + 1
        elif char == ";" and not parentheses:
            head_start = at + 1
    return found


def is_kernel(relative):
    parts = relative.parts
    return len(parts) > 4 and parts[:2] == ("src", "backends") and parts[3] == "kernels"


def check(root):
    allow_path = root / "tools" / "sizes_allow.toml"
    allow = tomllib.loads(allow_path.read_text()) if allow_path.exists() else {}
    files_allowed = {entry["path"]: entry for entry in allow.get("file", [])}
    functions_allowed = {(entry["path"], entry["name"]): entry for entry in allow.get("function", [])}
    breaches, used = [], set()
    for entry in list(files_allowed.values()) + list(functions_allowed.values()):
        if len(entry.get("reason", "")) < 10:
            breaches.append(f"tools/sizes_allow.toml: {entry['path']}: an exception needs a reason")

    public_lines = 0
    paths = [path for folder in FOLDERS for path in sorted((root / folder).rglob("*")) if path.suffix in SOURCES]
    for path in paths:
        relative = path.relative_to(root)
        text = path.read_text()
        kernel = is_kernel(relative)
        lines, limit = code_lines(text), KERNEL_FILE_LINES if kernel else FILE_LINES
        exception = files_allowed.get(str(relative))
        if exception and lines > limit:
            used.add(str(relative))
            limit = exception["lines"]
        if lines > limit:
            breaches.append(f"{relative}:1: {lines} lines of code, at most {limit}: split it")
        limit = KERNEL_FUNCTION_LINES if kernel else FUNCTION_LINES
        for name, first, length in functions(text):
            exception = functions_allowed.get((str(relative), name))
            bound = limit
            if exception and length > limit:
                used.add((str(relative), name))
                bound = exception["lines"]
            if length > bound:
                breaches.append(f"{relative}:{first}: function {name} has {length} lines of code, at most {bound}")
        if relative.parts[0] == "include" and relative.name != "vernier.h":
            public_lines += len(text.splitlines())
    if public_lines >= PUBLIC_LINES:
        breaches.append(f"include/vernier:1: {public_lines} lines together, must stay under {PUBLIC_LINES}")
    for path in sorted(root.glob("src/**/README.md")) + sorted(root.glob("src/backends/*/README.md")):
        lines = len(path.read_text().splitlines())
        breach = f"{path.relative_to(root)}:1: {lines} lines, at most {README_LINES}"
        if lines > README_LINES and breach not in breaches:
            breaches.append(breach)
    for key in (set(files_allowed) | set(functions_allowed)) - used:
        breaches.append(f"tools/sizes_allow.toml: the exception for {key} is not needed; remove it")
    return breaches


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    breaches = check(root)
    for breach in breaches:
        print(breach)
    print(f"check_sizes: {len(breaches)} too long" if breaches else "check_sizes: every file and function is within its size")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
