"""The files of deploy/ and the walk of docs/server.md, as programs read them."""

from __future__ import annotations

import re
from configparser import RawConfigParser, SectionProxy
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PAGE = (ROOT / "docs/server.md").read_text(encoding="utf-8")
CONTAINERFILE = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
PROGRAM = "/opt/deepsea/bin/deepsea-referee"


DOCTOR = f"""
cd /etc/systemd/system
sed -e 's|^ExecStart=.*|ExecStart={PROGRAM} doctor\\nType=oneshot|' \\
    -e 's|^Restart=.*|StandardOutput=file:/root/doctor.txt|' \\
    ladder-runner.service > doctor.service
systemctl daemon-reload
systemctl start doctor || true
cat /root/doctor.txt
"""
"""Commands of a shell that run `doctor` in a service like the runner's, and print what it says."""


def service(path: Path) -> SectionProxy:
    """What a unit starts, and how; of a setting that stands twice, the last."""
    parser = RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(path, encoding="utf-8")
    return parser["Service"]


def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, each with its argument."""
    text = re.sub(r"^#.*\n", "", CONTAINERFILE, flags=re.M).replace("\\\n", "")
    lines = [line.partition(" ") for line in text.splitlines() if line]
    return [(name, rest) for name, _, rest in lines]


def walk() -> list[str]:
    """The blocks of the way from a fresh Debian to a served ladder, in docs/server.md."""
    return re.findall(r"^```sh\n(.*?)^```", PAGE, re.M | re.S)
