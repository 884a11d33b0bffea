#!/usr/bin/env python3
"""Compares `vernier render` with jinja2 on random templates; prints where they differ.

    env/bin/python tools/fuzz_jinja.py VERNIER [--count N] [--seed S]
"""

import argparse
import copy
import json
import random
import re
import subprocess
import warnings

import jinja2
from make_template_goldens import environment

CONTEXT = {
    "s": "Hello, wörld <b>&amp;</b>\n  two\tThree 4", "e": "", "u": "ÀßſıΣΑΣ 中文 👩‍🚀", "n": 7, "z": 0, "neg": -3, "f": 2.5, "t": True,
    "no": False, "nil": None, "l": [3, 1, 2], "ls": ["b", "A", "a", "", "B c"], "mix": [1, "x", None, 2.0, True, [1], {"k": 1}],
    "d": {"b": 1, "A": 3, "c": 2}, "deep": {"items": [1, 2], "x": {"y": [{"z": "q"}]}, "get": 5},
    "p": [{"name": "Ida", "age": 31, "tags": ["x", "y"]}, {"name": "bo", "age": 7, "tags": []}, {"name": "Cy", "age": 31}],
}  # fmt: skip
FILTERS = [
    "abs", "attr('upper')", "batch(2)", "batch(2, 'f')", "capitalize", "center(12)", "count", "default('d')", "d('e', true)",
    "dictsort", "dictsort(true)", "dictsort(false, 'value')", "escape", "e", "filesizeformat", "filesizeformat(true)", "first",
    "float", "float(1.5)", "forceescape", "format(1)", "format('a', 2)", "groupby('age')", "groupby('name')", "indent",
    "indent(2, true)", "indent(1, blank=true)", "int", "int(5)", "int(0, 16)", "items", "join", "join(', ')", "join('-', attribute='name')",
    "last", "length", "list", "lower", "map('upper')", "map(attribute='name')", "map(attribute='age', default=0)", "map('length')",
    "max", "min", "max(attribute='age')", "pprint", "reject", "reject('odd')", "rejectattr('age')", "replace('l', 'L')",
    "replace('', '.')", "replace('a', 'b', 1)", "reverse", "round", "round(1)", "round(-1)", "round(1, 'floor')", "round(0, 'ceil')",
    "safe", "select", "select('string')", "select('gt', 1)", "selectattr('age')", "selectattr('age', 'eq', 31)", "slice(2)",
    "slice(3, 'f')", "sort", "sort(true)", "sort(attribute='name')", "sort(case_sensitive=true)", "string", "striptags", "sum",
    "sum(attribute='age')", "sum(start=1.5)", "title", "tojson", "tojson(indent=2)", "tojson(ensure_ascii=true)",
    "tojson(sort_keys=true, separators=(',', ':'))", "trim", "trim('Ho4')", "truncate(8)", "truncate(8, true)", "truncate(5, false, '', 0)",
    "unique", "unique(true)", "upper", "urlencode", "wordcount", "wordwrap(6)", "wordwrap(4, false)", "xmlattr", "nosuch",
]  # fmt: skip
TESTS = [
    "boolean", "callable", "defined", "divisibleby 3", "eq 1", "escaped", "even", "false", "filter", "float", "ge 2", "gt 2", "in [1, 'x']",
    "integer", "iterable", "le 2", "lower", "lt 2", "mapping", "ne 1", "none", "number", "odd", "sameas true", "sequence", "string", "test",
    "true", "undefined", "upper", "equalto 'x'", "not none", "not defined",
]  # fmt: skip
METHODS = [
    "capitalize()", "casefold()", "center(9, '*')", "count('l')", "count('')", "endswith('4')", "expandtabs(4)", "find('l')", "find('o', 5)",
    "format(1, 2)", "index('w')", "isalnum()", "isalpha()", "isdigit()", "islower()", "isspace()", "istitle()", "isupper()",
    "isascii()", "isidentifier()", "isprintable()", "join(['a', 'b'])", "join(ls)", "ljust(8, '.')", "lower()", "lstrip()", "lstrip('He')",
    "partition(' ')", "removeprefix('He')", "removesuffix('4')", "replace('o', '0')", "replace('', '-', 3)", "rfind('l')", "rindex('l')",
    "rjust(9)", "rpartition(' ')", "rsplit()", "rsplit(' ', 1)", "rsplit(none, 1)", "rstrip('4 ')", "split()", "split(' ')", "split('l', 1)",
    "split(none, 2)", "split(sep=',')", "splitlines()", "splitlines(true)", "startswith('He')", "startswith(('x', 'H'))", "strip()",
    "strip('H4')", "swapcase()", "title()", "translate({72: 'J', 101: none})", "upper()", "zfill(8)", "items()", "keys()", "values()",
    "get('b')", "get('zz', 1)", "copy()", "index(1)", "append(1)", "update({})", "pop()", "bit_length()", "is_integer()", "nope()",
]  # fmt: skip
ATTRIBUTES = ["name", "x", "items", "b", "real", "_x", "__class__", "0", "y", "grouper", "append", "upper", "start"]
FORMATS = ["%s", "%r", "%5s|", "%-6s|", "%d", "%05d", "%+d", "%x", "%#o", "%.2f", "%e", "%g", "%5.1f%%", "%c", "%.3s", "%i %s", "%(b)s", "% d", "%G"]
BRACES = [
    "{}", "{0}{0}", "{:>8}", "{:^9}|", "{:*<6}", "{!r}", "{!s:>7}", "{:d}", "{:05d}", "{:+}", "{:x}", "{:#b}", "{:,}", "{:.2f}", "{:e}", "{:g}",
    "{:%}", "{:.1%}", "{:10.3}", "{0[0]}", "{0.real}", "{:{}}", "{{}}", "{:_}", "{a}", "{:n}", "{:c}", "{:.3}", "{:08.2f}", "{:,.1f}",
]  # fmt: skip
VALUES = ["1234567", "-5", "0", "3.14159", "1e20", "-0.0", "1e-7", "'abc'", "'é中'", "true", "none", "[1]", "255", "12345678901234567890"]


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def pick(self, options):
        return self.r.choice(options)

    def atom(self):
        r = self.r.random()
        if r < 0.55:
            return self.pick([*CONTEXT, "missing"])
        return self.pick(
            ["1", "0", "-2", "3", "10", "2.5", "0.1", "1e3", "'a'", "'x y'", "''", "'%s'", "\"it's\"", "true", "false", "none", "[1, 2, 3]",
             "[]", "{}", "{'a': 1, 2: 'b'}", "(1, 'b')", "()", "range(4)", "range(5, 0, -2)", "[[1, 2], [3]]", "namespace(a=1)", "'\\n'",
             "' pad '", "1_000", "0x1f", "'caf\\u00e9'", "9007199254740993", "1.5e300", "'12'", "' 7.5 '", "'0x1A'"]  # fmt: skip
        )

    def expression(self, depth):
        if depth <= 0:
            return self.atom()
        sub = lambda: self.expression(depth - 1)  # noqa: E731
        kind = self.r.randrange(16)
        if kind == 0:
            return f"({sub()} {self.pick(['+', '-', '*', '/', '//', '%', '**', '~'])} {sub()})"
        if kind == 1:
            return f"({sub()} {self.pick(['==', '!=', '<', '<=', '>', '>=', 'in', 'not in'])} {sub()})"
        if kind == 2:
            return f"({sub()} {self.pick(['and', 'or'])} {sub()})"
        if kind == 3:
            return f"({self.pick(['not', '-', '+'])} {sub()})"
        if kind == 4:
            return f"({sub()} if {sub()} else {sub()})" if self.r.random() < 0.8 else f"({sub()} if {sub()})"
        if kind in (5, 6, 7):
            return f"({sub()} | {self.pick(FILTERS)})"
        if kind == 8:
            return f"({sub()} is {self.pick(TESTS)})"
        if kind in (9, 10):
            return f"{sub()}.{self.pick(METHODS)}"
        if kind == 11:
            return f"{sub()}.{self.pick(ATTRIBUTES)}"
        if kind == 12:
            part = lambda: self.pick(["", "", "1", "-1", "0", "2", "-2", "9"])  # noqa: E731
            if self.r.random() < 0.5:
                return f"{sub()}[{self.pick(['0', '1', '-1', '5', repr(self.pick(ATTRIBUTES)), 'n', sub()])}]"
            return f"{sub()}[{part()}:{part()}{self.pick(['', '', ':' + self.pick(['', '2', '-1', '-2'])])}]"
        if kind == 13:
            return f"[{sub()}, {sub()}]" if self.r.random() < 0.6 else f"{{'k': {sub()}, {self.atom()}: 1}}"
        if kind == 14:
            return f"('{self.pick(FORMATS)}' % {self.pick([sub(), self.pick(VALUES), '(' + sub() + ', ' + sub() + ')'])})"
        return f"'{self.pick(BRACES)}'.format({self.pick([sub(), self.pick(VALUES)])}, {self.pick(VALUES)})"

    def text(self):
        return self.pick(["a", " ", "\n", "  \n", "\t", "\n\n", "x y", "\n  ", "é", "{", "}", "%", "{ {"])

    def block(self, depth):
        open_ = lambda: self.pick(["{%", "{%-", "{%", "{%+"])  # noqa: E731
        close = lambda: self.pick(["%}", "-%}", "%}", "+%}"])  # noqa: E731
        tag = lambda body: f"{open_()} {body} {close()}"  # noqa: E731
        inner = lambda: "".join(self.piece(depth - 1) for _ in range(self.r.randrange(1, 4)))  # noqa: E731
        small = lambda: self.expression(1)  # noqa: E731
        name = lambda: self.pick(["a", "b", "x", "n"])  # noqa: E731
        kind = self.r.randrange(14)
        if kind <= 1:
            middle = tag("else") + inner() if self.r.random() < 0.4 else ""
            return tag(f"if {small()}") + inner() + middle + tag("endif")
        if kind <= 4:
            loop = self.pick(["", "{{ loop.index }}{{ loop.last }}", "{{ loop.length }}{{ loop.previtem }}", "{{ loop.changed(x) }}"])
            jump = self.pick(["", "", "{% if loop.index > 2 %}{% break %}{% endif %}", "{% if x == 1 %}{% continue %}{% endif %}"])
            test = self.pick(["", "", f" if {small()}", " if x"])
            return tag(f"for x in {small()}{test}") + loop + jump + inner() + tag("endfor")
        if kind == 5:
            return tag(f"for k, v in {self.pick(['d.items()', 'd | dictsort', 'deep | items', small()])}") + "{{ k }}{{ v }}" + tag("endfor")
        if kind == 6:
            return tag(f"set {name()} = {small()}")
        if kind == 7:
            return tag(f"set {name()}" + self.pick(["", " | upper", " | trim"])) + inner() + tag("endset")
        if kind == 8:
            return tag("macro m(a, b=2)") + inner() + "{{ a }}{{ b }}" + tag("endmacro") + "{{ m(" + small() + ") }}"
        if kind == 9:
            return tag("filter " + self.pick(["upper", "trim", "replace('a', 'b')", "indent"])) + inner() + tag("endfilter")
        if kind == 10:
            return tag(f"with {name()} = {small()}") + inner() + tag("endwith")
        if kind == 11:
            return tag("set ns = namespace(v=0)") + tag("for x in l") + tag("set ns.v = ns.v + x") + tag("endfor") + "{{ ns.v }}"
        if kind == 12:
            return self.pick(["{# c #}", "{#- c -#}", "{#c#}\n", "{% raw %}{{ x }}{% endraw %}", "{%- raw -%} y {%- endraw -%}"])
        return tag("macro w(a)") + "<{{ caller(a) }}>" + tag("endmacro") + tag(f"call(q) w({small()})") + inner() + "{{ q }}" + tag("endcall")

    def piece(self, depth):
        r = self.r.random()
        if r < 0.35:
            return self.text()
        if r < 0.65 or depth <= 0:
            return self.pick(["{{ ", "{{- "]) + self.expression(self.r.randrange(0, 3)) + self.pick([" }}", " -}}"])
        return self.block(depth)

    def template(self):
        if self.r.random() < 0.6:
            return "{{ " + self.expression(self.r.randrange(1, 4)) + " }}"
        return "".join(self.piece(3) for _ in range(self.r.randrange(1, 7)))


def expected(env, template):
    try:
        return {"text": env.from_string(template).render(**copy.deepcopy(CONTEXT))}
    except jinja2.exceptions.TemplateError as error:
        if type(error) is jinja2.exceptions.TemplateError:
            return {"raised": str(error)}
        return {"error": f"{type(error).__name__}: {error}"}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("vernier")
    parser.add_argument("--count", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    maker = Maker(arguments.seed)
    templates = [maker.template() for _ in range(arguments.count)]
    lines = "".join(json.dumps({"template": t, "context": CONTEXT}) + "\n" for t in templates)
    command = [arguments.vernier, "render", "--jsonl", "--now", "2025-07-09T14:05:06"]
    output = subprocess.run(command, input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.decode()
    results = [json.loads(line) for line in output.rstrip("\n").split("\n")]
    env = environment()
    differ = compared = 0
    warnings.simplefilter("ignore")
    for template, got in zip(templates, results, strict=True):
        want = expected(env, template)
        # Addresses of objects differ from run to run, and integers beyond 127 bits are refused here.
        if re.search(r" at 0x|object>|bound method", str(want) + str(got), re.IGNORECASE) or "127 bits" in str(got):
            continue
        # jinja2 folds constants when it compiles, and then takes a slice of what has none for undefined.
        if "not subscriptable" in str(got) or "'slice'" in str(got):
            continue
        compared += 1
        if ("error" in want) != ("error" in got) or ("error" not in want and want != got):
            differ += 1
            print(f"{template!r}\n  jinja2  {want}\n  vernier {got}")
    print(f"{compared} compared, {differ} differ")


if __name__ == "__main__":
    main()
