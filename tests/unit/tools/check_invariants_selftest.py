"""Proves that tools/check_invariants.py finds an invariant without a test and a test without an invariant."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import check_invariants  # noqa: E402


class CheckInvariants(unittest.TestCase):
    def problems(self, readme, test):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "src/room").mkdir(parents=True)
            (root / "src/room/README.md").write_text(readme)
            (root / "tests/unit").mkdir(parents=True)
            (root / "tests/unit/room_test.cc").write_text(test)
            return check_invariants.check(root)[1]

    def test_a_quoted_one_passes(self):
        self.assertEqual(self.problems("- XROOM-1: it holds\n- XROOM-2 too\n", "// XROOM-1\nTEST(A, XROOM_2_Holds)"), [])

    def test_one_without_a_test_is_named(self):
        self.assertEqual(self.problems("- XROOM-1: it holds\n", "// XROOM-12, YXROOM-1"),
                         ["src/room/README.md: XROOM-1 is quoted by no test below tests/",
                          "tests/unit/room_test.cc quotes XROOM-12, which no README has"])

    def test_this_repository_holds(self):
        known, problems = check_invariants.check(ROOT)
        self.assertGreater(len(known), 60)
        self.assertEqual(problems, [])


if __name__ == "__main__":
    unittest.main()
