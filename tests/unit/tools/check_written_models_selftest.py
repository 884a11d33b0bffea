"""Proves that tools/check_written_models.py fails on numbers that differ or are none."""

import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import check_written_models as tool  # noqa: E402

NAN = float("nan")


class CheckWrittenModels(unittest.TestCase):
    def judged(self, differences):
        worst = tool.Worst()
        for place, apart in enumerate(differences):
            worst.add(apart, str(place))
        return worst

    def test_the_largest_counts(self):
        worst = self.judged([1e-3, 1e-1, 1e-2])
        self.assertEqual(worst.at, "1")
        self.assertTrue(worst.within(1e-1))
        self.assertFalse(worst.within(1e-2))

    def test_nan_is_beyond_every_bound(self):
        for differences in ([NAN], [NAN, 0.0], [0.0, NAN, 0.5]):
            worst = self.judged(differences)
            self.assertFalse(worst.within(1e9), differences)
            self.assertEqual(worst.at, str(differences.index(NAN)))

    def test_nothing_compared_is_no_success(self):
        self.assertFalse(self.judged([]).within(1))

    @unittest.skipIf(tool.np is None, "no numpy")
    def test_each_matrix_of_a_stack_has_its_own_scale(self):
        scaled = tool.with_global_scales(tool.np.ones((2, 3, 4)), tool.np.array([2.0, 5.0]))
        self.assertEqual(scaled.shape, (2, 3, 4))
        self.assertTrue((scaled[0] == 2).all() and (scaled[1] == 5).all())

    @unittest.skipIf(tool.np is None, "no numpy")
    def test_shapes_are_compared(self):
        self.assertRaises(ValueError, tool.difference, tool.np.ones((1, 4)), tool.np.ones((3, 4)))


if __name__ == "__main__":
    outcome = unittest.main(exit=False).result
    # What could not be tried is no pass: 77 tells ctest so.
    sys.exit(1 if not outcome.wasSuccessful() else 77 if outcome.skipped else 0)
