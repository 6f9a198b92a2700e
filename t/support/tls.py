"""Certificates made on the spot, by the ``openssl`` command."""

from __future__ import annotations

import subprocess
from pathlib import Path

import attrs


@attrs.frozen
class Certificates:
    """A certificate authority of our own, and what it signed; all are paths of files.

    Attributes:
        ca: the authority's certificate.
        cert, key: of a server that is 127.0.0.1 and localhost.
        stranger: a certificate of another authority.
        elsewhere, elsewhere_key: of a server with another name.
    """

    ca: str
    cert: str
    key: str
    stranger: str
    elsewhere: str
    elsewhere_key: str

    @classmethod
    def make(cls, folder: Path) -> Certificates:
        """Make all of them in a folder."""
        for name in ("ca", "stranger"):
            _run(folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                 "-keyout", f"{name}.key", "-out", f"{name}.crt", "-subj", f"/CN={name}",
                 "-addext", "basicConstraints=critical,CA:TRUE",
                 "-addext", "keyUsage=critical,keyCertSign")  # fmt: skip
        for name, alternatives in (
            ("server", "IP:127.0.0.1,DNS:localhost"),
            ("elsewhere", "DNS:elsewhere.invalid"),
        ):
            _run(folder, "req", "-newkey", "rsa:2048", "-nodes", "-keyout", f"{name}.key",
                 "-out", f"{name}.csr", "-subj", f"/CN={name}")  # fmt: skip
            Path(folder, f"{name}.ext").write_text(f"subjectAltName={alternatives}\n")
            _run(folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
                 "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext",
                 "-out", f"{name}.crt")  # fmt: skip
        names = ("ca.crt", "server.crt", "server.key", "stranger.crt", "elsewhere.crt",
                 "elsewhere.key")  # fmt: skip
        return cls(*(str(folder / name) for name in names))


def _run(folder: Path, *words: str) -> None:
    done = subprocess.run(["openssl", *words], cwd=folder, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
