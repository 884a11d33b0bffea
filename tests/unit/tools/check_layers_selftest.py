"""Proves that tools/check_layers.py sees each kind of breach, at its line, and lets the allowed pass."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import check_layers  # noqa: E402


class CheckLayers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "layers.toml").write_text((ROOT / "layers.toml").read_text())

    def tearDown(self):
        self.folder.cleanup()

    def breaches(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        try:
            return check_layers.check(self.root)
        finally:
            file.unlink()

    def assert_breach(self, path, text, line):
        found = self.breaches(path, text)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(f"{path}:{line}:"), found)

    def test_arrows_are_inherited(self):
        for path, include in [("src/tensor/a.cc", "base/result.h"), ("src/checkpoint/a.cc", "tensor/qtensor.h"), ("src/ops/a.cc", "tune/choice.h"),
                              ("src/engine/a.cc", "kv/pool.h"), ("src/engine/a.cc", "base/result.h"),
                              ("src/backends/cpu/a.cc", "tune/problem.h"), ("src/backends/cpu/kernels/a.cc", "base/log.h"),
                              ("src/backends/cpu/a.cc", "backends/cpu/b.h"), ("src/api/a.cc", "backends/cpu/b.h"),
                              ("app/a.cc", "text/tokenizer.h"), ("app/a.cc", "vernier/engine.h"),
                              ("src/kv/a.cc", "nlohmann/json.hpp"), ("src/models/a.cc", "ops/ops.h")]:
            self.assertEqual(self.breaches(path, f'#include "{include}"\n'), [], f"{path} includes {include}")

    def test_an_arrow_never_turns_back(self):
        for path, include in [("src/base/a.cc", "tensor/shape.h"), ("src/kv/a.cc", "tensor/shape.h"),
                              ("src/sched/a.h", "ops/ops.h"), ("src/models/a.cc", "tensor/shape.h"),
                              ("src/text/a.cc", "engine/engine.h"), ("src/ops/a.cc", "kv/pool.h"),
                              ("src/engine/a.cc", "backends/cpu/cpu_ops.h"), ("app/a.cc", "backends/cpu/cpu_ops.h"),
                              ("src/backends/cpu/a.cc", "backends/cuda/b.h"), ("src/client/a.cc", "engine/engine.h"),
                              ("include/vernier/a.h", "base/result.h"), ("src/tune/a.cc", "ops/ops.h")]:
            self.assert_breach(path, f'\n// a line before\n  #  include "{include}"\n', 3)

    def test_a_precompiled_library_is_included_by_name(self):
        uses = "\nvoid f(const nlohmann::json& value);\n// fmt::format in a comment\n"
        self.assert_breach("src/kv/a.cc", uses, 2)
        self.assert_breach("app/a.cc", '#include "kv/none.h"\n#include <fmt/format.h>' + uses, 3)
        self.assertEqual(self.breaches("src/kv/a.cc", "#include <nlohmann/json_fwd.hpp>" + uses), [])
        header = self.root / "src/kv/pool.h"
        header.write_text('#include "kv/pool.h"\n#include <nlohmann/json.hpp>\n')
        self.assertEqual(self.breaches("src/kv/a.cc", '#include "kv/pool.h"' + uses), [])

    def test_two_types_of_one_name(self):
        first = self.root / "src/kv/a.h"
        first.parent.mkdir(parents=True)
        first.write_text("struct Admission;\nstruct Admission {\n  struct Inner {};\n};\nenum class Kind { kA };\n")
        self.assert_breach("src/server/b.h", "class Other;\n\nclass Admission final : public Other {\n};\n", 3)
        self.assert_breach("src/server/b.h", "enum class Kind : int {\n};\n", 1)
        self.assertEqual(self.breaches("src/server/b.h", "struct Admission;\nstruct Inner {\n};\n"), [])
        self.assertEqual(self.breaches("src/backends/cpu/kernels/b.h", "struct Admission {\n};\n"), [])

    # CUDA-7: codes cross to a kernel with their scales or not at all.
    def test_no_bare_bytes_cross_to_a_gpu_kernel(self):
        for pointer in ["const std::byte* codes", "uint8_t *codes", "void const* codes", "const unsigned char* codes"]:
            self.assert_breach("src/backends/cuda/kernels/launch.h", f"#pragma once\nint launch({pointer});\n", 2)
            for path in ["src/backends/cuda/kernels/views.h", "src/backends/cuda/a.h", "src/backends/cpu/kernels/b.h"]:
                self.assertEqual(self.breaches(path, f"struct View {{ {pointer}; }};\n"), [])
        self.assertEqual(self.breaches("src/backends/cuda/kernels/launch.h", "int launch(const float* x);\n"), [])

    def test_a_commented_include_is_none(self):
        self.assertEqual(self.breaches("src/base/a.cc", '// #include "tensor/a.h"\n/*\n#include "ops/a.h"\n*/\n'), [])

    def test_machine_conditions_live_under_backends(self):
        for condition in ["#if defined(__AVX2__)", "#ifdef VERNIER_CUDA", "# ifndef __aarch64__", "#elif __x86_64__"]:
            self.assert_breach("src/ops/a.cc", f"int a;\n{condition}\n", 2)
            self.assertEqual(self.breaches("src/backends/cpu/a.cc", f"{condition}\n"), [])
        self.assertEqual(self.breaches("src/ops/a.cc", "#ifdef NDEBUG\n#endif\n"), [])

    def test_the_environment_is_read_in_app(self):
        self.assert_breach("src/api/a.cc", 'auto x = std::getenv("HOME");\n', 1)
        self.assert_breach("src/base/a.cc", "int a;\nextern char** environ;\n", 2)
        self.assertEqual(self.breaches("app/a.cc", 'auto x = std::getenv("HOME");\n'), [])
        self.assertEqual(self.breaches("src/api/a.cc", 'auto x = "getenv(";  // not getenv(x)\n'), [])

    def test_links_follow_the_arrows(self):
        readme = self.root / "src/kv/README.md"
        readme.parent.mkdir(parents=True)
        readme.write_text("kv\n")
        self.assertEqual(self.breaches("src/kv/CMakeLists.txt", "vernier_room(kv DEPENDS base LIBRARIES fmt::fmt)\n"), [])
        self.assert_breach("src/kv/CMakeLists.txt", "\nvernier_room(kv DEPENDS base ops)\n", 2)

    def test_a_room_has_a_readme_and_a_place(self):
        found = self.breaches("src/kv/CMakeLists.txt", "vernier_room(kv DEPENDS base)\n")
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].startswith("src/kv:1: a room needs a README.md"), found)
        self.assert_breach("src/attic/a.cc", "int a;\n", 1)


if __name__ == "__main__":
    unittest.main()
