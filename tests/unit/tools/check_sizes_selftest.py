"""Proves that tools/check_sizes.py counts what it says and fails on what is too long."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import check_sizes  # noqa: E402

HEADS = [
    "int f(int a) {",
    "Result<int> A::f(const B& b) const noexcept {",
    "A::A(int a) : b_(a), c_{1, 2} {",
    "template <class T, class... Args>\nauto f(T&& t) -> decltype(t()) {",
    "struct A* f() {",
    "TEST(Suite, Name) {",
    "bool operator==(const A& a, const A& b) {",
    "static inline __attribute__((target(\"avx2\"))) void f(float* out) {",
    "int f(std::vector<int> a = {1, 2}) {",
]


def body(lines):
    return "\n".join("  x();" for _ in range(lines))


class CheckSizes(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def assert_one(self, start):
        found = check_sizes.check(self.root)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(start), found)

    def test_files(self):
        self.write("src/kv/a.cc", "// comment\n\n" * 300 + "int a;\n" * 400)
        self.assertEqual(check_sizes.check(self.root), [])
        self.write("src/kv/a.cc", "int a;\n" * 401)
        self.assert_one("src/kv/a.cc:1: 401 lines")

    def test_kernels_may_be_longer(self):
        self.write("src/backends/cpu/kernels/a.cc", "int a;\n" * 800 + "/* long\ncomment */\n")
        self.assertEqual(check_sizes.check(self.root), [])
        self.write("src/backends/cpu/kernels/a.cc", "int a;\n" * 801)
        self.assert_one("src/backends/cpu/kernels/a.cc:1:")

    def test_functions_of_every_shape(self):
        for head in HEADS:
            length = head.count("\n") + 1
            fits = f"namespace a {{\n{head}\n{body(59 - length)}\n}}\n}}\n"
            long = f"namespace a {{\n{head}\n{body(60 - length)}\n}}\n}}\n"
            self.write("app/a.cc", fits)
            self.assertEqual(check_sizes.check(self.root), [], head)
            self.write("app/a.cc", long)
            self.assert_one("app/a.cc:2: function ")

    def test_methods_count_and_classes_do_not(self):
        methods = "\n".join(f"  void f{i}() {{\n    x();\n  }}" for i in range(40))
        for head in ["class A {", "class A final : public B<int(float)> {", "struct alignas(64) A {", "enum class A {",
                     'extern "C" {', "const int table[] = {", "namespace {"]:
            self.write("src/kv/a.h", f"{head}\n{methods if 'enum' not in head and 'table' not in head else body(80)}\n}};\n")
            self.assertEqual(check_sizes.check(self.root), [], head)
        self.write("src/kv/a.h", f"class A {{\n public:\n  void f() {{\n{body(59)}\n  }}\n}};\n")
        self.assert_one("src/kv/a.h:3: function f has 61")

    def test_braces_in_strings_and_directives_do_not_count(self):
        self.write("src/kv/a.cc", 'void f() {\n  g("{", \'{\', R"(}}})", 1\'000);\n}\n#define X {\\\n  {\nvoid g() {\n}\n')
        self.assertEqual([(n, l) for n, _, l in check_sizes.functions((self.root / "src/kv/a.cc").read_text())],
                         [("f", 3), ("g", 2)])

    def test_readmes_and_public_headers(self):
        self.write("src/kv/README.md", "a\n" * 61)
        self.assert_one("src/kv/README.md:1: 61 lines")
        self.write("src/kv/README.md", "a\n" * 60)
        self.write("include/vernier/a.h", "// a\n" * 300)
        self.write("include/vernier/b.h", "// a\n" * 300)
        self.write("include/vernier/vernier.h", "/* a */\n" * 300)
        self.assert_one("include/vernier:1: 600 lines")
        self.write("include/vernier/b.h", "// a\n" * 299)
        self.assertEqual(check_sizes.check(self.root), [])

    def test_exceptions_need_a_reason_and_a_use(self):
        self.write("src/kv/a.cc", "int a;\n" * 500)
        entry = '[[file]]\npath = "src/kv/a.cc"\nlines = 500\nreason = "{}"\n'
        self.write("tools/sizes_allow.toml", entry.format("a generated table of classes"))
        self.assertEqual(check_sizes.check(self.root), [])
        self.write("tools/sizes_allow.toml", entry.format(""))
        self.assert_one("tools/sizes_allow.toml: src/kv/a.cc: an exception needs a reason")
        self.write("tools/sizes_allow.toml", entry.format("a generated table of classes"))
        self.write("src/kv/a.cc", "int a;\n")
        self.assert_one("tools/sizes_allow.toml: the exception for src/kv/a.cc")


if __name__ == "__main__":
    unittest.main()
