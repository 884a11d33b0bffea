#!/usr/bin/env python3
"""Fails when a room includes a room it must not see, or does what only one room may do.

Reads layers.toml. Reports file:line for each breach:
  - an #include "room/..." (or "vernier/...") that no arrow allows, in src/, app/ and include/;
  - a vernier_room(... DEPENDS ...) that no arrow allows;
  - an #if on a backend or an instruction set outside src/backends/;
  - the environment read outside app/;
  - a pointer to bytes in a header of a GPU's kernels other than views.h, where codes stand beside their scales (runtime.h
    copies memory that it does not read);
  - a name of a precompiled library in a file that includes that library nowhere: without precompiled headers it fails;
  - a type that two headers define, since all rooms share one namespace (kernels/ of one instruction set each apart);
  - a room without a README.md, and a room that layers.toml does not know.

usage: check_layers.py [ROOT]
"""

import pathlib
import re
import sys
import tomllib

INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
CONDITION = re.compile(r"^\s*#\s*(?:el)?if(?:n?def)?\b(.*)")
MACHINE = re.compile(
    r"\b(?:VERNIER_(?:CUDA|MLX|METAL|AVX\w*|NEON|SSE\w*)|__(?:CUDA\w*|NVCC__|AVX\w*|SSE\w*|FMA__|F16C__|ARM\w*|aarch64__|arm__"
    r"|x86_64__|amd64__|i386__|APPLE__)|_M_(?:X64|ARM64|IX86))"
)
ENVIRONMENT = re.compile(r"\b(?:secure_)?getenv\s*\(|\benviron\b")
TYPE = re.compile(r"^(?:class|struct|enum class|union) (?:\[\[\w+\]\] |alignas\(\d+\) )?(\w+)\b(?!::)(?!<)(?=.*\{|[^;]*$)")
BYTES = re.compile(r"\b(?:std::byte|(?:unsigned |signed )?char|u?int8_t|void)\s*(?:const\s*)?\*")
BORDER = re.compile(r"src/backends/(?:cuda|mlx)/kernels/(?!views\.h|runtime\.h)\w+\.h$")
HOST_AND_DEVICE = "VERNIER_ANYWHERE"  # a kernel's own function: nothing crosses by it
PRECOMPILED = {"nlohmann": re.compile(r"\bnlohmann::"), "fmt": re.compile(r"\bfmt::")}  # folder of its headers: its names
SOURCES = {".h", ".hpp", ".cc", ".cpp", ".cu", ".cuh", ".inc", ".mm"}


class Layers:
    """The allowed includes of each room, arrows followed to their end."""

    def __init__(self, table):
        self.arrows = table["arrows"]
        self.exact = table.get("exact", {})
        self.named_only_by = table.get("named_only_by", {})
        unknown = [(room, target) for room, targets in self.arrows.items() for target in targets
                   if not self._expand(target)]
        if unknown:
            raise SystemExit(f"layers.toml: arrows to unknown rooms: {unknown}")
        self.allowed = {room: self._reach(room) for room in self.arrows}

    def _expand(self, target):
        if target.endswith("/*"):
            return [room for room in self.arrows if room.startswith(target[:-1])]
        return [target] if target in self.arrows else []

    def _reach(self, room):
        if room in self.exact:
            return set(self.exact[room])
        reached, waiting = set(), [room]
        while waiting:
            for target in self.arrows[waiting.pop()]:
                for found in self._expand(target):
                    if found not in reached:
                        reached.add(found)
                        waiting.append(found)
        for pattern, namers in self.named_only_by.items():
            if room not in namers:
                reached -= set(self._expand(pattern))
        return reached

    def room_of(self, relative):
        """The room of a path below src/, app/ or include/; None where layers.toml has no such room."""
        parts = relative.parts
        if parts[0] == "app":
            return "app"
        if parts[0] == "include":
            return "public"
        if len(parts) >= 4 and parts[1] == "backends":
            name = "/".join(parts[1:3])
        else:
            name = parts[1]
        return name if name in self.arrows else None

    def target_of(self, include):
        """The room an include path names; None for a system or library header."""
        parts = include.split("/")
        if len(parts) < 2:
            return None
        if parts[0] == "vernier":
            return "public"
        if parts[0] == "backends":
            return "/".join(parts[:2])
        return parts[0] if parts[0] in self.arrows or parts[0] == "app" else None


def without_comments(text):
    """Comments blanked, line numbers and string literals kept."""
    pattern = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
    return pattern.sub(lambda m: m.group(0) if m.group(0)[0] == '"' else re.sub(r"[^\n]", " ", m.group(0)), text)


def check_file(layers, room, relative, text):
    breaches = []
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        place = f"{relative}:{number}"
        found = INCLUDE.match(line)
        if found:
            target = layers.target_of(found.group(1))
            if target and target != room and target not in layers.allowed[room]:
                allowed = ", ".join(sorted(layers.allowed[room])) or "nothing"
                breaches.append(f"{place}: {room} includes {found.group(1)}; it may see {allowed}")
        condition = CONDITION.match(line)
        if condition and not room.startswith("backends/") and MACHINE.search(condition.group(1)):
            breaches.append(f"{place}: #if on a backend or an instruction set outside src/backends/")
        if BORDER.match(relative.as_posix()) and HOST_AND_DEVICE not in text and BYTES.search(line):
            breaches.append(f"{place}: a bare pointer to bytes crosses to a kernel; codes and scales go as one view")
        if room != "app" and ENVIRONMENT.search(re.sub(r'"(?:\\.|[^"\\])*"', '""', line)):
            breaches.append(f"{place}: the environment is read in app/ only and becomes Options")
    return breaches


def check_depends(layers, room, relative, text):
    breaches = []
    for call in re.finditer(r"vernier_room\s*\(([^)]*)\)", text):
        words = call.group(1).split()
        if "DEPENDS" not in words:
            continue
        for word in words[words.index("DEPENDS") + 1:]:
            if word.isupper():
                break
            if word != room and word not in layers.allowed[room]:
                number = text[: call.start()].count("\n") + 1
                breaches.append(f"{relative}:{number}: {room} links {word}, which layers.toml does not allow")
    return breaches


def check_type_names(root):
    """One definition rule: two types of one name link without a word and run as one of the two."""
    breaches, defined = [], {}
    for top in ("src", "app"):
        for path in sorted((root / top).rglob("*.h")):
            relative = path.relative_to(root)
            if "kernels" in relative.parts:
                continue
            for number, line in enumerate(without_comments(path.read_text()).splitlines(), 1):
                found = TYPE.match(line)
                if not found:
                    continue
                first = defined.setdefault(found.group(1), relative)
                if first != relative:
                    breaches.append(f"{relative}:{number}: {found.group(1)} is defined in {first} too; rename one")
    return breaches


def libraries_of(root, relative, known):
    """The folders of the library headers that a file includes, itself or through headers of the project."""
    if relative in known:
        return known[relative]
    known[relative] = set()  # ends a circle
    for line in (root / relative).read_text().splitlines():
        found = INCLUDE.match(line)
        if not found:
            continue
        places = [top / found.group(1) for top in (pathlib.Path("src"), pathlib.Path("."), pathlib.Path("include"))]
        header = next((place for place in places if (root / place).exists()), None)
        known[relative] |= libraries_of(root, header, known) if header else {found.group(1).split("/")[0]}
    return known[relative]


def check_libraries(root):
    breaches, known = [], {}
    for top in ("src", "app"):
        for path in sorted((root / top).rglob("*.cc")):
            relative = path.relative_to(root)
            text = without_comments(path.read_text())
            for library, names in PRECOMPILED.items():
                found = names.search(text)
                if found and library not in libraries_of(root, relative, known):
                    number = text[: found.start()].count("\n") + 1
                    breaches.append(f"{relative}:{number}: {found.group(0)} is used and no header of {library}/ is included")
    return breaches


def rooms_of(root):
    """Folders of src/ that are rooms: those with a CMakeLists.txt, backends/ one level deeper."""
    for listing in sorted(root.glob("src/*/CMakeLists.txt")) + sorted(root.glob("src/backends/*/CMakeLists.txt")):
        if listing.parent.name != "backends":
            yield listing.parent


def check(root):
    layers = Layers(tomllib.loads((root / "layers.toml").read_text()))
    breaches = []
    for folder in rooms_of(root):
        relative = folder.relative_to(root)
        if not (folder / "README.md").exists():
            breaches.append(f"{relative}:1: a room needs a README.md (what it owns, what it refuses to know, its invariants)")
    for top in ("src", "app", "include"):
        for path in sorted((root / top).rglob("*")):
            relative = path.relative_to(root)
            if path.suffix not in SOURCES and path.name != "CMakeLists.txt":
                continue
            if top == "src" and len(relative.parts) < 3:
                continue
            if relative.parts[:2] == ("src", "backends") and len(relative.parts) == 3:
                continue
            room = layers.room_of(relative)
            if room is None:
                breaches.append(f"{relative}:1: layers.toml has no room for this file")
            elif path.name == "CMakeLists.txt":
                breaches += check_depends(layers, room, relative, path.read_text())
            else:
                breaches += check_file(layers, room, relative, path.read_text())
    return breaches + check_type_names(root) + check_libraries(root)


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    breaches = check(root)
    for breach in breaches:
        print(breach)
    print(f"check_layers: {len(breaches)} breaches" if breaches else "check_layers: every include follows the arrows")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
