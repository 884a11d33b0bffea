#!/usr/bin/env python3
"""usage: check_schema_answers.py URL [--model NAME] [--answers 1000] [--seed 1] [--clients 8]

Asks a running server for answers under random JSON schemas, at temperature 1, and validates each with the jsonschema
package. An answer that the token limit cut is asked again with another seed and counted apart. Exit code 1 on an invalid
answer, or where more than one schema in five is refused."""

import argparse
import concurrent.futures
import json
import random
import time
import urllib.error
import urllib.request

import jsonschema

FORMATS = ["date", "date-time", "uuid", "ipv4", "email", "time"]
PATTERNS = ["^[a-c]{2,4}$", "^[A-Z]{3}-[0-9]{2,4}$", "^(ab?|c)+$", "^x|y$"]


class Drawer:
    """Draws schemas as pydantic, zod and hand-written clients send them; all of their answers end."""

    def __init__(self, rng):
        self.rng = rng

    def whole(self):
        schema = self.object(0)
        schema["$defs"] = {"node": {"type": "object", "additionalProperties": False, "required": ["value", "next"],
                                    "properties": {"value": self.scalar(),
                                                   "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}}},
                           "kind": {"enum": ["red", "green", "blue"], "title": "Kind", "type": "string"}}
        return schema

    def draw(self, depth):
        kinds = [self.scalar, self.scalar, self.scalar]
        if depth < 3:
            kinds += [lambda: self.object(depth + 1), lambda: self.array(depth + 1), lambda: self.choice(depth + 1),
                      lambda: self.joined(depth + 1), lambda: self.map(depth + 1), lambda: {"$ref": "#/$defs/node"}]
        return self.rng.choice(kinds)()

    def scalar(self):
        r = self.rng
        return r.choice([
            lambda: {"type": "string", "minLength": r.randint(0, 3), "maxLength": r.randint(3, 40)},
            lambda: {"type": "string", "format": r.choice(FORMATS)},
            lambda: {"type": "string", "pattern": r.choice(PATTERNS), "maxLength": 12},
            lambda: {"type": "integer", "minimum": r.randint(-500, 0), "maximum": r.randint(1, 5000)},
            lambda: {"type": "number", "exclusiveMinimum": r.randint(-9, 0) / 4, "maximum": r.randint(1, 400) / 8},
            lambda: {"type": ["boolean", "null"]},
            lambda: {"const": r.choice(["a", 3, None])},
            lambda: {"$ref": "#/$defs/kind", "description": "beside a reference"},
            lambda: {"type": "integer", "multipleOf": r.randint(2, 20)},
        ])()

    def object(self, depth):
        names = self.rng.sample(["name", "age", "é", "a b", "x\"y", "tags", "id"], self.rng.randint(1, 4))
        schema = {"type": "object", "properties": {name: self.draw(depth + 1) for name in names},
                  "required": [name for name in names if self.rng.random() < 0.6]}
        if self.rng.random() < 0.7:
            schema["additionalProperties"] = False
        return schema

    def array(self, depth):
        if self.rng.random() < 0.2:
            return {"type": "array", "items": {"$ref": "#/$defs/kind"}, "uniqueItems": True}
        if self.rng.random() < 0.2:
            return {"type": "array", "prefixItems": [self.draw(depth), self.draw(depth)], "items": False, "minItems": 1}
        least = self.rng.randint(0, 2)
        return {"type": "array", "items": self.draw(depth), "minItems": least, "maxItems": least + self.rng.randint(0, 3)}

    def choice(self, depth):
        if self.rng.random() < 0.5:
            return {"anyOf": [self.draw(depth), {"type": "null"}]}
        return {"oneOf": [{"type": "object", "required": ["kind"], "additionalProperties": False,
                           "properties": {"kind": {"const": kind}, "value": self.scalar()}} for kind in ("a", "b")]}

    def joined(self, depth):
        base = self.object(depth)
        base.pop("additionalProperties", None)  # else it forbids what the other requires
        return {"allOf": [base, {"type": "object", "properties": {"extra": self.scalar()},
                                               "required": ["extra"]}]}

    def map(self, depth):
        return self.rng.choice([
            lambda: {"type": "object", "propertyNames": {"enum": ["k1", "k2"]}, "additionalProperties": self.scalar(),
                     "required": ["k1"]},
            lambda: {"type": "object", "patternProperties": {"^n_[a-z]{1,5}$": {"type": "integer", "maximum": 9}},
                     "additionalProperties": False, "maxProperties": 3},
            lambda: {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,6}$"}, "maxProperties": 3,
                     "additionalProperties": self.draw(depth + 1)},
        ])()


def ask(arguments, schema, seed):
    body = {"model": arguments.model, "messages": [{"role": "user", "content": "Answer in JSON."}], "temperature": 1,
            "seed": seed, "max_tokens": 400,
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}}
    request = urllib.request.Request(arguments.url + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as reply:
        return json.load(reply)["choices"][0]


def check(arguments, seed):
    """valid, cut, refused, or what is wrong."""
    schema = Drawer(random.Random(seed)).whole()
    for again in range(5):
        try:
            choice = ask(arguments, schema, seed + 1_000_003 * again)
        except urllib.error.HTTPError as error:
            text = error.read().decode()
            return "refused" if error.code == 400 else f"{error.code}: {text}", text
        if choice["finish_reason"] != "stop":
            continue
        text = choice["message"]["content"]
        try:
            draft = jsonschema.Draft202012Validator  # whose formats are not those of draft 3
            checker = draft(schema, format_checker=draft.FORMAT_CHECKER)
            checker.validate(json.loads(text))
        except (ValueError, jsonschema.ValidationError) as error:
            return f"seed {seed}: {error}", text
        return "valid", text
    return "cut", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--model", default="smollm2-135m")
    parser.add_argument("--answers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=8)
    arguments = parser.parse_args()
    counts = {"valid": 0, "cut": 0, "refused": 0, "invalid": 0}
    told = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(arguments.clients) as pool:
        seeds = range(arguments.seed, arguments.seed + arguments.answers)
        for verdict, text in pool.map(lambda seed: check(arguments, seed), seeds):
            counts[verdict if verdict in counts else "invalid"] += 1
            if verdict not in ("valid", "cut"):
                print(verdict, text[:500], flush=True)
            if time.monotonic() - told > 10:
                told = time.monotonic()
                print(f"{sum(counts.values())} of {arguments.answers}: {counts}", flush=True)
    print(counts)
    return 1 if counts["invalid"] > 0 or counts["refused"] * 5 > arguments.answers else 0


if __name__ == "__main__":
    raise SystemExit(main())
