"""The table of methods: what can be called, and who may."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from deepsea_arena.service.accounts import ACCOUNTS
from deepsea_arena.service.administration import ADMINISTRATION
from deepsea_arena.service.analyses import ANALYSES
from deepsea_arena.service.own_bots import OWN_BOTS
from deepsea_arena.service.reads import READS
from deepsea_arena.service.server import SERVER
from deepsea_arena.service.submissions import SUBMISSIONS_METHODS
from deepsea_arena.service.table import Method

METHODS: Final[Mapping[str, Method]] = {
    method.name: method
    for method in (
        *SERVER,
        *ACCOUNTS,
        *SUBMISSIONS_METHODS,
        *OWN_BOTS,
        *READS,
        *ANALYSES,
        *ADMINISTRATION,
    )
}
"""By the name of the call in deepsea.ladder.v1.LadderService."""
