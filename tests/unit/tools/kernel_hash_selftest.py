"""Proves that the hash of a kernel follows its sources and flags, and nothing else (cmake/KernelHash.cmake)."""

import pathlib
import re
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[3] / "cmake" / "KernelHash.cmake"


class KernelHash(unittest.TestCase):
    def hashes(self, root, flags="-O3 -mavx2"):
        """name: hash, of two kernels that share a header."""
        table = f"avx2|{flags}|{root}/a.cc;{root}/shared.h\nbaseline|-O3|{root}/b.cc;{root}/shared.h\n"
        (root / "input.txt").write_text(table)
        subprocess.run(["cmake", f"-DINPUT={root}/input.txt", f"-DOUTPUT={root}/out.inc", "-P", str(SCRIPT)], check=True)
        found = re.findall(r'\{"(\w+)", "([0-9a-f]{64})"\},\n', (root / "out.inc").read_text())
        self.assertEqual([name for name, _ in found], ["avx2", "baseline"])
        return dict(found)

    def setUp(self):
        self.temp = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.temp.name)
        self.fill(self.root)
        self.first = self.hashes(self.root)

    def tearDown(self):
        self.temp.cleanup()

    @staticmethod
    def fill(root):
        root.mkdir(exist_ok=True)
        (root / "a.cc").write_text("int a;\n")
        (root / "b.cc").write_text("int b; // [x]; y | z\n")
        (root / "shared.h").write_text("#pragma once\n")

    def test_a_source_changes_its_kernel_alone(self):
        (self.root / "a.cc").write_text("int a2;\n")
        now = self.hashes(self.root)
        self.assertNotEqual(now["avx2"], self.first["avx2"])
        self.assertEqual(now["baseline"], self.first["baseline"])

    def test_a_shared_header_changes_both(self):
        (self.root / "shared.h").write_text("#pragma once\nint c;\n")
        now = self.hashes(self.root)
        self.assertTrue(all(now[name] != self.first[name] for name in now))

    def test_a_flag_changes_its_kernel(self):
        now = self.hashes(self.root, flags="-O2 -mavx2")
        self.assertNotEqual(now["avx2"], self.first["avx2"])
        self.assertEqual(now["baseline"], self.first["baseline"])

    def test_the_folder_changes_nothing(self):
        other = self.root / "elsewhere"
        self.fill(other)
        self.assertEqual(self.hashes(other), self.first)


if __name__ == "__main__":
    unittest.main()
