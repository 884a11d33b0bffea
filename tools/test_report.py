#!/usr/bin/env python3
"""Adds up the results of a test run and prints one closing line, `N passed, N failed, N skipped`.

usage: test_report.py RESULTS

RESULTS holds one folder for each run (native, avx2, ...). A run's folder has `ctest.xml` (ctest --output-junit) and the
XML file of each GoogleTest program (GTEST_OUTPUT=xml:FOLDER/). Every GoogleTest case counts one; a ctest entry without
such a file (a script, a compile test, a program that crashed before it could write one) counts one. A program that
fails although each of its cases passed (a sanitizer's report at exit, say) counts one failure more.
RESULTS/checks.txt has one line for each check that is no test: `passed NAME`, `failed NAME` or
`skipped NAME: REASON`.
Exit code 1 if anything failed or if nothing ran.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


class Totals:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add_google_test(self, run, program, tree):
        """Counts each case of one program; returns how many failed."""
        failures = 0
        for case in tree.iter("testcase"):
            name = f"[{run}] {program} {case.get('classname')}.{case.get('name')}"
            skipped = case.find("skipped")
            if case.find("failure") is not None:
                self.failed.append(name)
                failures += 1
            elif skipped is not None or case.get("result") == "skipped":
                message = (skipped.get("message") or "") if skipped is not None else ""
                reason = [line for line in message.strip().splitlines() if line.strip()]
                self.skipped.append(f"{name}: {reason[-1].strip() if reason else 'no reason given'}")
            elif case.get("status") == "notrun" or case.get("result") == "suppressed":
                self.skipped.append(f"{name}: disabled")
            else:
                self.passed += 1
        # A failure outside any case (a suite's or the environment's set-up) stands beside the cases.
        for suite in tree.iter("testsuite"):
            direct = suite.findall("failure")
            if direct:
                self.failed.append(f"[{run}] {program} {suite.get('name')} (outside its cases)")
                failures += 1
        return failures

    def add_run(self, folder):
        listing = folder / "ctest.xml"
        if not listing.exists():
            self.failed.append(f"[{folder.name}] ctest wrote no result")
            return
        for entry in ElementTree.parse(listing).iter("testcase"):
            self.add_entry(folder, entry)

    def add_entry(self, folder, entry):
        name, status = entry.get("name"), entry.get("status")
        label = f"[{folder.name}] {name}"
        failed = status == "fail" or entry.find("failure") is not None
        file = folder / f"{name}.xml"
        if file.exists():
            try:
                failures = self.add_google_test(folder.name, name, ElementTree.parse(file).getroot())
            except ElementTree.ParseError:
                self.failed.append(f"{label}: its result file is broken")
                return
            if failed and failures == 0:
                self.failed.append(f"{label}: the program failed, none of its cases did")
        elif failed:
            self.failed.append(f"{label}: failed without a result of its cases" if status == "fail" else label)
        elif status == "run":
            self.passed += 1
        elif status == "disabled":
            self.skipped.append(f"{label}: disabled")
        else:
            skipped = entry.find("skipped")
            message = skipped.get("message") if skipped is not None else None
            if message and message.startswith("SKIP_"):
                self.skipped.append(f"{label}: {reason_of(entry)}")
            else:
                self.failed.append(f"{label}: not run ({message or status})")

    def add_checks(self, path):
        for line in path.read_text().splitlines():
            verdict, name = line.split(" ", 1)
            if verdict == "passed":
                self.passed += 1
            elif verdict == "skipped":
                self.skipped.append(name)
            else:
                self.failed.append(name)


def reason_of(entry):
    """The last line a skipped script printed."""
    output = entry.findtext("system-out") or ""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1] if lines else "no reason given"


def main():
    results = pathlib.Path(sys.argv[1])
    totals = Totals()
    for folder in sorted(path for path in results.iterdir() if path.is_dir()):
        totals.add_run(folder)
    if (results / "checks.txt").exists():
        totals.add_checks(results / "checks.txt")
    for line in totals.skipped:
        print(f"skipped: {line}")
    for line in totals.failed:
        print(f"failed: {line}")
    print(f"{totals.passed} passed, {len(totals.failed)} failed, {len(totals.skipped)} skipped")
    return 1 if totals.failed or totals.passed == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
