"""Read the Perl of the recordings: text to a tree.

The recordings write out every call and every setup in Perl.  This reads as
much of the language as they use, and raises `Unreadable` on anything else.  A
node is a tuple of its kind and its parts; `meaning` says what each comes to.
"""

from __future__ import annotations

import re
from typing import Any

Node = tuple[Any, ...]


class Unreadable(Exception):
    """The Perl cannot be said in Python: the message names what."""


_TOKEN = re.compile(
    r"""
    \s+
    | (?P<number> \d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)
    | (?P<words> qw\([^)]*\))
    | (?P<single> '(?:[^'\\]|\\.)*')
    | (?P<double> "(?:[^"\\]|\\.)*")
    | (?P<variable> [$@](?:\w+(?:::\w+)*) | %[A-Za-z]\w*)
    | (?P<deref> [$@%](?=[{$]))
    | (?P<word> [A-Za-z_]\w*(?:::\w+)*)
    | (?P<sign> =>|->|\*\*|\.\.|&&|\|\||==|!=|[-+*/%.=!\\<>?:,;(){}\[\]])
    """,
    re.VERBOSE,
)

# How tightly an operator holds; a right-hand one leaves its own level to the right.
_BINARY = {
    "=": 2, "?": 3, "..": 4, "||": 5, "&&": 6, "==": 7, "!=": 7, "eq": 7, "ne": 7,
    "<": 8, ">": 8, "+": 9, "-": 9, ".": 9, "*": 10, "/": 10, "%": 10, "x": 10, "**": 12,
}  # fmt: skip
_RIGHT = {"=", "?", "**"}
_UNARY = {"!": "not", "\\": "ref", "-": "negate"}
_UNARY_LEVEL = 11
_NAMED_UNARY = {"scalar", "lc", "uc", "keys", "chr", "defined", "ref"}
_LIST_OPERATORS = {"join", "sort", "select", "bless", "reverse"}
_BLOCKS = {"map", "do", "eval", "sub"}


def tokens_of(text: str) -> list[tuple[str, str]]:
    """Cut Perl into tokens: kind and text."""
    found, at = [], 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise Unreadable(f"what stands at {text[at:at + 20]!r}")
        at = match.end()
        if match.lastgroup:
            found.append((match.lastgroup, match[0]))
    return found


def parse(text: str) -> Node:
    """Read a whole program: a ``block`` of statements."""
    parser = _Parser(text)
    block = parser.block(end=None)
    return block


class _Parser:
    def __init__(self, text: str) -> None:
        self.tokens = tokens_of(text)
        self.at = 0

    # What comes next.

    def peek(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self.tokens[at][1] if at < len(self.tokens) else ""

    def take(self, wanted: str | None = None) -> str:
        if self.at >= len(self.tokens) or wanted not in (None, self.peek()):
            raise Unreadable(f"{self.peek()!r} where {wanted!r} is due")
        self.at += 1
        return self.tokens[self.at - 1][1]

    def took(self, wanted: str) -> bool:
        if self.peek() != wanted:
            return False
        self.at += 1
        return True

    # Statements.

    def block(self, end: str | None) -> Node:
        statements = []
        while self.peek() != (end or ""):
            if not self.took(";"):
                statements.append(self.statement())
        if end:
            self.take(end)
        return ("block", statements)

    def braced(self) -> Node:
        self.take("{")
        return self.block("}")

    def statement(self) -> Node:
        if self.peek() == "for" and self.peek(1) == "(":
            self.take()
            self.take("(")
            values = self.commas(")")
            return ("for", values, self.braced())
        said = ("last",) if self.took("last") else self.commas(None)
        if self.took("for"):
            return ("for", self.commas(None), said)
        if self.took("if"):
            return ("if", self.commas(None), said)
        if self.took("unless"):
            return ("if", ("not", self.commas(None)), said)
        return said

    # Expressions.

    def commas(self, end: str | None) -> Node:
        """Read a list up to its closing bracket, which is taken off, or to where it ends."""
        parts = []
        comma = False
        while self.peek() != (end or ";") and (end or not self.ends()):
            parts.append(self.expression(2))
            comma = self.took(",") or self.took("=>")
            if not comma:
                break
        if end:
            self.take(end)
        return parts[0] if len(parts) == 1 and not comma and not end else ("list", parts)

    def ends(self) -> bool:
        return self.peek() in ("", ";", ")", "]", "}", "for", "if", "unless")

    def expression(self, least: int) -> Node:
        left = self.unary()
        while (level := _BINARY.get(self.peek(), 0)) >= least:
            sign = self.take()
            right = self.expression(level + (sign not in _RIGHT))
            if sign == "?":
                self.take(":")
                left = ("?", left, right, self.expression(level))
            else:
                left = (sign, left, right)
        return left

    def unary(self) -> Node:
        sign = self.peek()
        if sign in _UNARY:
            self.take()
            if sign == "\\" and self.took("*"):
                return ("glob", self.take())
            return (_UNARY[sign], self.expression(_UNARY_LEVEL))
        return self.postfix(self.term())

    def postfix(self, node: Node) -> Node:
        while True:
            if self.took("->"):
                if self.peek() in ("{", "["):
                    node = self.subscript(node)
                else:
                    name = self.take()
                    given = self.commas(")") if self.took("(") else ("list", [])
                    node = ("method", node, name, given)
            elif self.peek() in ("{", "[") and node[0] == "item":
                node = self.subscript(node)
            else:
                return node

    def subscript(self, node: Node) -> Node:
        if self.took("["):
            index = self.commas(None)
            self.take("]")
            return ("item", node, index)
        self.take("{")
        if self.peek(1) == "}" and self.tokens[self.at][0] == "word":
            key: Node = ("text", self.take())
        else:
            key = self.commas(None)
        self.take("}")
        return ("item", node, key)

    def term(self) -> Node:
        if self.at >= len(self.tokens):
            raise Unreadable("an end where a value is due")
        kind, text = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            plain = text.replace("_", "")
            return ("number", int(plain) if plain.isdigit() else float(plain))
        if kind == "words":
            return ("list", [("text", word) for word in text[3:-1].split()])
        if kind == "single":
            return ("text", re.sub(r"\\(['\\])", r"\1", text[1:-1]))
        if kind == "double":
            return ("join", _interpolated(text[1:-1]))
        if kind == "variable":
            return self.variable(text)
        if kind == "deref":
            inner = self.braced() if self.peek() == "{" else self.term()
            return ("deref", text, inner)
        if kind == "word":
            return self.word(text)
        if text == "(":
            return self.commas(")")
        if text == "[":
            return ("array", self.commas("]"))
        if text == "{":
            return ("hash", self.commas("}"))
        raise Unreadable(repr(text))

    def variable(self, text: str) -> Node:
        # $x{...} is an item of %x, $x[...] one of @x.
        if text[0] == "$" and self.peek() == "{":
            return self.subscript(("variable", "%" + text[1:]))
        if text[0] == "$" and self.peek() == "[":
            return self.subscript(("variable", "@" + text[1:]))
        return ("variable", text)

    def word(self, name: str) -> Node:
        if self.peek() == "=>":
            return ("text", name)
        if name in ("my", "our"):
            return ("my", self.term())
        if name == "undef":
            return ("undef",)
        if name in _BLOCKS:
            body = self.braced()
            return ("map", body, self.commas(None)) if name == "map" else (name, body)
        if name in _NAMED_UNARY:
            return ("call", name, self.expression(_UNARY_LEVEL))
        if name in _LIST_OPERATORS and self.peek() != "(":
            return ("call", name, self.commas(None))
        if self.peek() == "->":
            return ("text", name)  # a class
        given = self.commas(")") if self.took("(") else ("list", [])
        return ("call", name, given)


_ESCAPE = re.compile(r"\\x\{([0-9a-fA-F]+)\}|\\x([0-9a-fA-F]{2})|\\(.)|(\$\w+)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def _interpolated(text: str) -> list[Node]:
    """Cut a string in double quotes into its texts and variables."""
    parts: list[Node] = []
    at = 0
    for match in _ESCAPE.finditer(text):
        parts.append(("text", text[at : match.start()]))
        at = match.end()
        wide, narrow, letter, variable = match.groups()
        if variable:
            parts.append(("variable", variable))
        elif letter:
            parts.append(("text", _LETTERS.get(letter, letter)))
        else:
            parts.append(("text", chr(int(wide or narrow, 16))))
    parts.append(("text", text[at:]))
    return parts
