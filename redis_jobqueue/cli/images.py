"""``storable``: Perl's Storable images for humans, both ways."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from redis_jobqueue.checks import Text
from redis_jobqueue.cli.base import (
    JOB_ID,
    Failure,
    NameType,
    command,
    local,
    readable,
    setup,
)
from redis_jobqueue.cli.output import shown
from redis_jobqueue.cli.values import from_json, text_of, to_json
from redis_jobqueue.errors import StorableError
from redis_jobqueue.keys import octets
from redis_jobqueue.operations.request import Command as Request
from redis_jobqueue.operations.request import Operation
from redis_jobqueue.queue import JobQueue
from redis_jobqueue.storable import STRINGS, nfreeze, thaw


@click.group("storable", cls=click.Group, help="Read and write images of Perl's Storable.")
def storable() -> None:
    """Group the two."""


def _read(name: str) -> bytes:
    try:
        return sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{name} cannot be read: {error.strerror}") from None


@command("dump", examples="""
    # an image in a file, or from another program
    storable dump image.bin
    storable dump - < image.bin
    # a field of a job, as it is on the server
    storable dump --job ID --field workload
    # as JSON, which `storable load` takes
    storable dump --json image.bin
""")  # fmt: skip
@readable
@click.argument("file", required=False, metavar="[FILE|-]")
@click.option("--job", "job_id", type=JOB_ID, help="A job on the server, instead of a file.")
@click.option("--field", type=NameType("a field"), default="workload", show_default=True,
              help="Which of its fields: workload, result, or one of its metadata.")
@click.option("--strings", type=click.Choice(STRINGS), default="auto", show_default=True,
              help="How octet strings are read.")
@click.option("--hex", "as_hex", is_flag=True, help="Print the octets of the image, too.")
def dump(file: str | None, job_id: Text | None, field: Text, strings: str,
         as_hex: bool) -> None:  # fmt: skip
    """Print an image for a human; nothing in it is ever executed."""
    if (file is None) == (job_id is None):
        raise click.UsageError("name a file, - for standard input, or --job")
    if job_id is not None:
        image = _field(setup().connect(), job_id, field)
    else:
        image = _read(str(file))
    try:
        value = thaw(image, strings=strings)
    except StorableError as error:
        raise Failure(f"{error}; it starts with {image[:16].hex(' ')}") from None
    if setup().as_json:
        click.echo(json.dumps(to_json(value), indent=2, ensure_ascii=False))
        return
    if as_hex:
        for first in range(0, len(image), 16):
            click.echo(f"{first:08x}  {image[first : first + 16].hex(' ')}")
    click.echo(text_of(value))


def _field(jq: JobQueue, job_id: Text, field: Text) -> bytes:
    def read() -> Operation[bytes | None]:
        key = jq._keys.job(octets(job_id, "id"))
        raw: bytes | None = yield Request((b"HGET", key, octets(field, "field")))
        return raw

    image = jq._run(read())
    if image is None:
        raise Failure(f"job {shown(job_id)} is not there, or has no field {shown(field)}")
    if image in (b"", b"0"):
        raise Failure(f"field {shown(field)} is {image.decode()!r}: no image, as Perl leaves it")
    return image


@command("load", examples="""
    # the image of a document, into a file
    storable load data.json --out image.bin
    echo '{"to": "ada"}' | redis-jobqueue storable load - | redis-jobqueue storable dump -
""")  # fmt: skip
@local
@click.argument("file", metavar="FILE|-")
@click.option("--out", type=click.Path(dir_okay=False), help="Where to; default: standard output.")
def load(file: str, out: str | None) -> None:
    """Make an image from JSON, as `nfreeze` of Perl makes it.

    What JSON has no form for: {"$bytes": base64}, {"$ref": value},
    {"$blessed": [class, value]}, {"$float": "nan"}, {"$hash": [[key, value], ...]}.
    """
    try:
        value = json.loads(_read(file))
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{file} is no JSON: {error}") from None
    image = nfreeze(from_json(value))
    if out is not None:
        Path(out).write_bytes(image)
    elif sys.stdout.isatty():
        raise click.UsageError("an image is not for a terminal: give --out, or a pipe")
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(image)
        sys.stdout.buffer.flush()


storable.add_command(dump)
storable.add_command(load)
COMMANDS: tuple[click.Command, ...] = (storable,)
