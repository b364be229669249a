"""P26: a hello full of features and fields that no referee knows."""

from __future__ import annotations

from attacks.guard import insist
from attacks.raw import Bot, field, hello

insist()
features = b"".join(field(3, f"feature {number}") for number in range(3000))
unknown = field(1000, "unknown")
Bot(said=hello(more=features + unknown)).play()
