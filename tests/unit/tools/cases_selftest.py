"""Proves that every test that cases.md names exists, and that no message of the program names an address (case K07)."""

import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
TESTS = pathlib.Path(__file__).resolve().parents[2]
CASE = re.compile(r"^(?:TEST|TEST_F|TEST_P|RC_GTEST_PROP|RC_GTEST_FIXTURE_PROP)\(\s*(\w+),\s*(\w+)", re.M)


# The only texts with an address that the sources may hold: how the client and the server write their own.
OWN_ADDRESSES = ("http://127.0.0.1:8080", "http://HOST:PORT", "http://HOST[:PORT][/PREFIX]", "https://app.example",
                 "http://server.example/path?query", "http://www.w3.org/2000/svg", 'starts_with("https://")', 'give the http:// address',
                 '"http://" +')


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
        for folder in ("src", "app"):
            for path in (ROOT / folder).rglob("*"):
                if path.suffix in (".cc", ".h"):
                    text = path.read_text()
                    for own in OWN_ADDRESSES:
                        text = text.replace(own, "")
                    self.assertNotRegex(text, r"https?://|www\.", path)


if __name__ == "__main__":
    unittest.main()
