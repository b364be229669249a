"""The numbers of the wire's enums and what they are called here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar

from deepsea_rules.actions import Kind
from deepsea_rules.faults import Fault
from deepsea_rules.state import Phase
from deepsea_sdk._pb import deepsea_pb2 as pb
from deepsea_sdk.errors import WireError

PROTOCOL_VERSION: Final = 1

PHASES: Final[dict[Phase, pb.Phase.ValueType]] = {
    "declare": pb.PHASE_TURN,
    "roll": pb.PHASE_ROLL,
    "search": pb.PHASE_SEARCH,
    "order": pb.PHASE_ORDER,
    "over": pb.PHASE_OVER,
}
PHASE_NAMES: Final = {number: name for name, number in PHASES.items()}
KINDS: Final[dict[Kind | None, pb.DecisionKind.ValueType]] = {
    "declare": pb.DECISION_KIND_DECLARE,
    "search": pb.DECISION_KIND_SEARCH,
    "order": pb.DECISION_KIND_ORDER,
}
FAULTS: Final = {fault: pb.Fault.Value(f"FAULT_{fault.name}") for fault in Fault}
FAULT_NAMES: Final = {number: fault for fault, number in FAULTS.items()}

_Number = TypeVar("_Number", bound=int)
_T = TypeVar("_T")


def known(names: Mapping[_Number, _T], number: _Number, what: str) -> _T:
    """What a number stands for; raises `WireError` if this version does not know."""
    try:
        return names[number]
    except KeyError:
        raise WireError(f"{what} {number} is not in protocol version {PROTOCOL_VERSION}") from None
