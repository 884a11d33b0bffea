"""Proves that every test that cases.md names exists, and that no message of the program names an address (case K07)."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TESTS = pathlib.Path(__file__).resolve().parents[2]
CASE = re.compile(r"^(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)", re.M)


ADDRESS = re.compile(r"https?://(?=[\w\[])(?!HOST\b|www\.w3\.org/2000/svg|127\.0\.0\.1|localhost|\[::1\]|[\w.]*\bexample\b)|(?<!//)www\.")


class Cases(unittest.TestCase):
    def test_every_test_that_the_table_names_exists(self):
        table = (TESTS / "cases.md").read_text()
        found = {f"{suite}.{case}" for path in TESTS.rglob("*_test.cc") for suite, case in CASE.findall(path.read_text())}
        named = set(re.findall(r"`([A-Z]\w+\.\w+)`", table)) - {"Cases.MessagesNameNoAddress"}
        self.assertGreater(len(named), 30)
        self.assertEqual(sorted(named - found), [])

    def test_every_case_is_there_once(self):
        rows = re.findall(r"^\| ([A-Z]\d\d) \|", (TESTS / "cases.md").read_text(), re.M)
        self.assertEqual(sorted(rows), sorted(set(rows)))
        self.assertGreaterEqual(len(rows), 60)

    def test_messages_name_no_address(self):
        """But for one's own machine, the example domain, a placeholder, and the name of SVG."""
        for folder in ("src", "app"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix in (".cc", ".h"):
                    self.assertNotRegex(path.read_text(), ADDRESS, path)


if __name__ == "__main__":
    unittest.main()
