"""A stand-in for the AWS provider's program: it answers terraform's questions about the schema, and accepts every configuration.

That is all that `terraform validate` and `terraform test` with `mock_provider` ask of a provider, and the real one cannot be had from any
package registry. Terraform is told of it by TF_REATTACH_PROVIDERS, the way a provider's developer attaches one that runs in a debugger, so
nothing is installed. What the real provider checks inside itself (the form of an ARN, combinations of arguments) is not checked here.

The messages are those of the plugin protocol, version 6. Only a few fields are used, so they are written as bytes here: field number and wire
type, then a length or a number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from tests.terraform.provider_schema import Block

ADDRESS = "registry.terraform.io/hashicorp/aws"
_NESTING = {"single": 1, "list": 2, "set": 3, "map": 4}
_ANSWERED = ("GetProviderSchema", "ValidateProviderConfig", "ValidateResourceConfig", "ValidateDataResourceConfig", "StopProvider")


@contextmanager
def running(blocks: dict[tuple[str, str], Block], socket: Path) -> Iterator[dict[str, str]]:
    """The provider at a Unix socket, as the environment variables that make terraform use it."""
    answers = dict.fromkeys(_ANSWERED, b"")
    answers["GetProviderSchema"] = _provider(blocks)
    server = grpc.server(ThreadPoolExecutor(4), handlers=(_Answers(answers),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    try:
        place = {"Network": "unix", "String": str(socket)}
        attached = {ADDRESS: {"Protocol": "grpc", "ProtocolVersion": 6, "Pid": os.getpid(), "Test": True, "Addr": place}}
        yield {"TF_REATTACH_PROVIDERS": json.dumps(attached)}
    finally:
        server.stop(None).wait()


class _Answers(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Fixed answers by the method's name; other methods do not exist, which terraform takes for an older provider."""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = answers

    def service(self, call: Any) -> Any:
        """grpc asks which function answers a call."""
        service, _, method = call.method.strip("/").partition("/")
        if service != "tfplugin6.Provider" or method not in self.answers:
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self.answers[method])


def _provider(blocks: dict[tuple[str, str], Block]) -> bytes:
    """GetProviderSchema.Response: 1 the provider's own configuration, 2 resources, 3 data sources."""
    tags = {"nesting": "list", "min": 0, "max": 1, "arguments": {"tags": [["map", "string"], "o"]}, "blocks": {}}
    own = {"arguments": {"region": ["string", "o"], "allowed_account_ids": [["set", "string"], "o"]}, "blocks": {"default_tags": tags}}
    parts = [_field(1, _schema(own))]
    for (kind, name), block in sorted(blocks.items()):
        parts.append(_field(2 if kind == "resource" else 3, _field(1, name.encode()) + _field(2, _schema(block))))
    return b"".join(parts)


def _schema(block: Block) -> bytes:
    """Schema: 2 its block."""
    return _field(2, _block(block))


def _block(block: Block) -> bytes:
    """Schema.Block: 2 attributes, 3 nested blocks."""
    arguments = (_field(2, _argument(name, *said)) for name, said in block["arguments"].items())
    return b"".join([*arguments, *(_field(3, _nested(name, inner)) for name, inner in block["blocks"].items())])


def _argument(name: str, kind: Any, flags: str) -> bytes:
    """Schema.Attribute: 1 name, 2 type in JSON, 4 required, 5 optional, 6 computed."""
    said = (_number(number, 1) for letter, number in (("r", 4), ("o", 5), ("c", 6)) if letter in flags)
    return b"".join([_field(1, name.encode()), _field(2, json.dumps(kind).encode()), *said])


def _nested(name: str, inner: Block) -> bytes:
    """Schema.NestedBlock: 1 name, 2 its block, 3 nesting, 4 and 5 how many."""
    bounds = _number(4, inner["min"]) + _number(5, inner["max"]) if inner["nesting"] in ("list", "set") else b""
    return _field(1, name.encode()) + _field(2, _block(inner)) + _number(3, _NESTING[inner["nesting"]]) + bounds


def _field(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the high bit says that more follow."""
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
