"""Proves on a made-up machine that tools/setup installs what is missing, nothing else and nothing twice."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
STUBS = {
    # A package is installed if the file packages/NAME exists.
    "dpkg-query": '#!/bin/sh\nfor last; do :; done\n[ -e "$MACHINE/packages/$last" ] && echo installed || exit 1\n',
    "apt-get": """#!/bin/sh
echo "$@" >>"$MACHINE/apt.log"
[ -e "$MACHINE/offline" ] && { echo "cannot reach the package source" >&2; exit 100; }
[ "$1" = update ] && exit 0
for name; do case "$name" in -*|install) ;; *) touch "$MACHINE/packages/$name" ;; esac; done
""",
    "id": '#!/bin/sh\ncat "$MACHINE/uid"\n',
    "sudo": '#!/bin/sh\necho "$@" >>"$MACHINE/sudo.log"\nexec "$@"\n',
}


class Setup(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.machine = pathlib.Path(self.folder.name)
        (self.machine / "packages").mkdir()
        (self.machine / "bin").mkdir()
        (self.machine / "uid").write_text("0")
        for name, text in STUBS.items():
            stub = self.machine / "bin" / name
            stub.write_text(text)
            stub.chmod(0o755)

    def tearDown(self):
        self.folder.cleanup()

    def run_setup(self, *arguments):
        environment = dict(os.environ, MACHINE=str(self.machine), PATH=f"{self.machine}/bin:{os.environ['PATH']}")
        return subprocess.run(["bash", str(ROOT / "tools/setup"), *arguments], env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)

    def log(self, name="apt.log"):
        path = self.machine / name
        return path.read_text() if path.exists() else ""

    def install_all_but(self, *missing):
        self.run_setup()
        for name in missing:
            (self.machine / "packages" / name).unlink()
        (self.machine / "apt.log").unlink()

    def test_installs_all_on_a_bare_machine_and_then_nothing(self):
        first = self.run_setup()
        self.assertEqual(first.returncode, 0, first.stdout)
        self.assertIn("ninja-build", self.log())
        before = self.log()
        second = self.run_setup()
        self.assertEqual(second.returncode, 0)
        self.assertIn("packages are there", second.stdout)
        self.assertEqual(self.log(), before, "apt-get was called although nothing was missing")

    def test_installs_only_what_is_missing_and_names_it(self):
        self.install_all_but("ccache", "libfmt-dev")
        result = self.run_setup()
        self.assertEqual(result.returncode, 0)
        self.assertIn("installing 2 of", result.stdout)
        installs = [line for line in self.log().splitlines() if line.startswith("install")]
        self.assertEqual([word for word in installs[-1].split() if not word.startswith("-")],
                         ["install", "ccache", "libfmt-dev"])

    def test_needs_no_network_if_all_is_there(self):
        self.run_setup()
        (self.machine / "offline").touch()
        self.assertEqual(self.run_setup().returncode, 0)

    def test_says_what_is_missing_where_nothing_can_be_reached(self):
        self.install_all_but("ccache")
        (self.machine / "offline").touch()
        result = self.run_setup()
        self.assertEqual(result.returncode, 1)
        self.assertIn("could not install: ccache", result.stdout)

    def test_installs_a_browser_only_where_asked(self):
        self.run_setup()
        self.assertNotIn("chromium", self.log())
        self.assertEqual(self.run_setup("--browser").returncode, 0)
        self.assertIn("chromium", self.log())
        self.assertEqual(self.run_setup("--browsers").returncode, 2)

    def test_uses_sudo_for_a_user_and_only_looks_with_check(self):
        self.install_all_but("ccache")
        (self.machine / "uid").write_text("1000")
        looked = self.run_setup("--check")
        self.assertEqual((looked.returncode, self.log()), (1, ""))
        self.assertIn("missing: ccache", looked.stdout)
        self.assertEqual(self.run_setup().returncode, 0)
        self.assertIn("apt-get install", self.log("sudo.log"))


if __name__ == "__main__":
    unittest.main()
