"""Proves that tools/test_report.py counts cases and that no failure can hide from it."""

import contextlib
import io
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools"))
import test_report  # noqa: E402

PASSED = '<testcase name="A" classname="S" status="run" result="completed"/>'
FAILED = '<testcase name="B" classname="S" status="run" result="completed"><failure message="x"/></testcase>'
SKIPPED = '<testcase name="C" classname="S" status="run" result="skipped"><skipped message="f.cc:3&#x0A;no model"/></testcase>'


class TestReport(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.root = pathlib.Path(self.folder.name)
        (self.root / "native").mkdir()

    def tearDown(self):
        self.folder.cleanup()

    def report(self, entries, programs=(), checks=""):
        (self.root / "native/ctest.xml").write_text(f"<testsuite>{entries}</testsuite>")
        for name, cases in programs:
            (self.root / f"native/{name}.xml").write_text(
                f'<testsuites><testsuite name="S">{cases}</testsuite></testsuites>')
        (self.root / "checks.txt").write_text(checks)
        output = io.StringIO()
        with mock.patch.object(sys, "argv", ["test_report.py", str(self.root)]), contextlib.redirect_stdout(output):
            code = test_report.main()
        return code, output.getvalue().splitlines()

    def test_each_case_counts(self):
        code, lines = self.report('<testcase name="p" status="run"/>', [("p", PASSED + SKIPPED)], "passed layers\n")
        self.assertEqual((code, lines), (0, ["skipped: [native] p S.C: no model", "2 passed, 0 failed, 1 skipped"]))

    def test_a_check_may_be_skipped_by_name(self):
        code, lines = self.report('<testcase name="p" status="run"/>', checks="skipped kernels: no compiler\n")
        self.assertEqual((code, lines), (0, ["skipped: kernels: no compiler", "1 passed, 0 failed, 1 skipped"]))

    def test_failures_fail(self):
        code, lines = self.report('<testcase name="p" status="fail"><failure/></testcase>', [("p", PASSED + FAILED)])
        self.assertEqual((code, lines[-1]), (1, "1 passed, 1 failed, 0 skipped"))

    def test_a_crash_and_a_failing_exit_fail(self):
        entry = '<testcase name="p" status="fail"><failure/></testcase>'
        self.assertEqual(self.report(entry)[1][-1], "0 passed, 1 failed, 0 skipped")
        self.assertEqual(self.report(entry, [("p", PASSED)])[1][-1], "1 passed, 1 failed, 0 skipped")

    def test_a_program_that_could_not_start_fails(self):
        entry = '<testcase name="p" status="notrun"><skipped message="Unable to find executable"/></testcase>'
        self.assertEqual(self.report(entry)[0], 1)

    def test_a_skipped_script_gives_its_reason(self):
        entry = ('<testcase name="p" status="run"/><testcase name="q" status="notrun">'
                 '<skipped message="SKIP_RETURN_CODE=77"/><system-out>no curl here</system-out></testcase>')
        self.assertEqual(self.report(entry)[1], ["skipped: [native] q: no curl here", "1 passed, 0 failed, 1 skipped"])

    def test_checks_and_emptiness_fail(self):
        self.assertEqual(self.report("", (), "failed layers\n")[1][-1], "0 passed, 1 failed, 0 skipped")
        self.assertEqual(self.report("")[0], 1)


if __name__ == "__main__":
    unittest.main()
