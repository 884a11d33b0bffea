#!/usr/bin/env python3
"""Renders chat templates with jinja2 itself, set up as transformers sets it up, and writes what the tests compare with.

    python3 -m venv env && env/bin/pip install jinja2==3.1.6
    env/bin/python tools/make_template_goldens.py own            # tests/data/templates/own.jsonl
    env/bin/python tools/make_template_goldens.py digests DIR    # tests/data/templates/render_digests.json

`own` renders the templates of tests/data/templates/own over tests/data/templates/conversations.jsonl. `digests` does so
with the *.jinja files of DIR, official templates that are not kept here, and keeps a 64-bit digest of each outcome.
The clock stands at NOW.
"""

import copy
import datetime
import functools
import json
import sys
from pathlib import Path

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox
import jinja2.utils

DATA = Path(__file__).resolve().parent.parent / "tests/data/templates"
NOW = datetime.datetime(2025, 7, 9, 14, 5, 6)
TAG = "CONTINUE_FINAL_MESSAGE_TAG "
REASONING = ("reasoning_content", "thinking", "reasoning")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    def __init__(*args, **kwargs):
        attributes = dict(*args[1:], **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(args[0], attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"underscore-prefixed name {name!r}")


class Dict:
    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@functools.lru_cache
def compiled(source):
    return environment().from_string(source)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    made.globals["dict"] = Dict()
    made.globals["namespace"] = Namespace
    return made


def prepared(case):
    """The messages without null keys, the reasoning under both of its names."""
    messages = []
    for message in copy.deepcopy(case["messages"]):
        message = {key: value for key, value in message.items() if value is not None}
        reasoning = next((message[key] for key in REASONING if message.get(key) is not None), None)
        if reasoning is not None:
            message = {"thinking": reasoning, **message, "reasoning_content": reasoning}
        messages.append(message)
    return messages


def tagged(message, field, source):
    """Marks where the final message ends; returns its text."""
    text = message.get(field)
    if text is None:
        raise ValueError("nothing to continue")
    copies = [name for name in REASONING if message.get(name) == text] if field in REASONING else [field]
    if not any(name in source for name in copies):
        raise ValueError("the template does not read the field")
    if isinstance(text, list):
        block = next(block for block in reversed(text) if "text" in block)
        text, block["text"] = block["text"], block["text"] + TAG
    else:
        for name in copies:
            message[name] += TAG
    return text


def cut(rendered, text):
    if text.strip() not in rendered or TAG.strip() not in rendered:
        raise ValueError("the final message is not in the text")
    at = rendered.rindex(TAG.strip())
    return rendered[:at] if rendered[at : at + len(TAG)] == TAG else rendered[:at].rstrip()


def render(source, case):
    goes_on = case.get("continue_final_message")
    if not case["messages"] or (goes_on and case.get("add_generation_prompt")):
        raise ValueError("not a conversation to render")
    messages = prepared(case)
    text = tagged(messages[-1], goes_on if isinstance(goes_on, str) else "content", source) if goes_on else None
    variables = {**case.get("special", {}), **case.get("kwargs", {})}
    rendered = compiled(source).render(
        messages=messages,
        tools=case.get("tools"),
        documents=case.get("documents"),
        add_generation_prompt=case.get("add_generation_prompt", False),
        **variables,
    )
    return cut(rendered, text) if goes_on else rendered


def outcome(source, case):
    try:
        return {"text": render(source, case)}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"raised": str(error)}
        return {"error": type(error).__name__}
    except Exception as error:
        return {"error": type(error).__name__}


def conversations():
    with open(DATA / "conversations.jsonl", encoding="utf-8", newline="\n") as lines:
        return [json.loads(line) for line in lines]


def own():
    lines = []
    for path in sorted((DATA / "own").glob("*.jinja")):
        source = path.read_bytes().decode("utf-8")
        for case in conversations():
            line = {"template": path.stem, "conversation": case["conversation"], **outcome(source, case)}
            lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
    (DATA / "own.jsonl").write_text("".join(lines), encoding="utf-8")
    print(f"{len(lines)} renderings")


def fnv(data):
    """FNV-1a of 64 bits, in hexadecimal."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def digest(result):
    """ "e" for an error, else the kind and a digest of the text."""
    ((kind, text),) = result.items()
    return "e" if kind == "error" else kind[0] + fnv(text.encode("utf-8"))


def digests(folder):
    made = {}
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_bytes().decode("utf-8")
        made[path.stem] = {
            "fnv": fnv(path.read_bytes()),
            "outcomes": [digest(outcome(source, case)) for case in conversations()],
        }
    lines = [f"{json.dumps(name)}: {json.dumps(entry, separators=(',', ':'))}" for name, entry in made.items()]
    (DATA / "render_digests.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(made)} templates")


def main():
    if sys.argv[1:2] == ["own"]:
        own()
    elif sys.argv[1:2] == ["digests"] and len(sys.argv) == 3:
        digests(Path(sys.argv[2]))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
