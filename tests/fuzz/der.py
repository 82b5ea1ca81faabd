"""DER as a tree of tags, lengths and contents, and mutations of it: what certificates and requests are made of."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

__all__ = ["Node", "mutate_der", "parse_der"]

#: Integer, bit string, null, OID, UTF-8, sequence, set, printable, two times, contexts 0 and 3, and noise.
TAGS = (0x02, 0x03, 0x04, 0x05, 0x06, 0x0C, 0x30, 0x31, 0x13, 0x17, 0x18, 0x1E, 0xA0, 0xA3, 0x01, 0x00, 0x1F, 0xFF)
CONTENTS = (
    b"",
    b"\0",
    b"\1",
    b"\x7f",
    b"\xff",
    b"\x80" * 9,
    b"\0" * 40,
    b"\xff" * 300,
    b"991231235959Z",
    b"000000000000Z",
    b"99991231235959Z",
    b"00000101000000Z",
    b"\x1b[31mpi-0",
    b"\xd8\x00",
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01",  # the OID of RSA keys
    b"\x2b\x81\x04\x00\x22",  # of P-384
    b"\x2b\x65\x70",  # of Ed25519
)


@dataclass
class Node:
    """One element; `children` if it is constructed, else `content`."""

    tag: int
    content: bytes = b""
    children: list[Node] = field(default_factory=list)
    length: bytes | None = None  # in place of the true one

    @property
    def body(self) -> bytes:
        return b"".join(child.encoded for child in self.children) if self.tag & 0x20 else self.content

    @property
    def encoded(self) -> bytes:
        body = self.body
        return bytes([self.tag]) + (_length(len(body)) if self.length is None else self.length) + body

    def walk(self) -> list[Node]:
        return [self, *(node for child in self.children for node in child.walk())]


def _length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def parse_der(data: bytes) -> Node:
    """The one element that `data` is."""
    nodes = _parse_all(data)
    assert len(nodes) == 1
    return nodes[0]


def _parse_all(data: bytes) -> list[Node]:
    nodes, at = [], 0
    while at < len(data):
        tag, size, at = data[at], data[at + 1], at + 2
        if size & 0x80:
            digits = size & 0x7F
            size, at = int.from_bytes(data[at : at + digits], "big"), at + digits
        content, at = data[at : at + size], at + size
        nodes.append(Node(tag, children=_parse_all(content)) if tag & 0x20 else Node(tag, content))
    return nodes


def mutate_der(rng: random.Random, root: Node) -> None:
    """Change one place of the tree; the version, if it has one, more often than others."""
    if rng.random() < 0.1 and root.children:
        first = root.children[0]
        (first.children or [first])[0].content = rng.choice([b"\0", b"\1", b"\3", b"\x7b", b"\xff", b"", b"\1" * 20])
        return
    node = rng.choice(root.walk())
    kind = rng.choice(["tag", "content", "content", "bytes", "length", "drop", "double", "wrap", "shuffle"])
    if kind == "tag":
        node.tag = rng.choice(TAGS)
        if node.tag & 0x20 == 0:
            node.content = node.content or b"".join(child.encoded for child in node.children)
    elif kind == "content":
        node.content = rng.choice(CONTENTS)
    elif kind == "bytes" and node.content:
        at = rng.randrange(len(node.content))
        node.content = node.content[:at] + bytes([rng.randrange(256)]) + node.content[at + 1 :]
    elif kind == "length":
        node.length = rng.choice([b"\0", b"\x7f", b"\x80", b"\x81\x05", b"\x84\xff\xff\xff\xff", b"\x88" + b"\xff" * 8])
    elif kind == "drop" and node.children:
        del node.children[rng.randrange(len(node.children))]
    elif kind == "double" and node.children:
        node.children.append(rng.choice(node.children))  # a second extension of its kind, a second name
    elif kind == "wrap":
        node.children = [Node(0x30, children=list(node.children))]
        for _ in range(rng.choice([1, 50])):
            node.children = [Node(0x30, children=node.children)]
    elif kind == "shuffle":
        rng.shuffle(node.children)
