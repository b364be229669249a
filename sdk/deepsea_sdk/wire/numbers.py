"""The numbers of the wire's enums and their names here.

A number that a newer peer has added is read as "unknown": what a bot does not understand must not
end its game.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeVar, cast

from deepsea_rules.events import EndReason
from deepsea_rules.faults import Fault
from deepsea_rules.position import Phase
from deepsea_sdk._pb import play_pb2 as pb

UNKNOWN: Final = "unknown"

PHASES: Final[dict[Phase, pb.Phase.ValueType]] = {
    "declare": pb.PHASE_DECLARE,
    "roll": pb.PHASE_ROLL,
    "search": pb.PHASE_SEARCH,
    "order": pb.PHASE_ORDER,
    "over": pb.PHASE_OVER,
}
KINDS: Final[dict[Phase | None, pb.DecisionKind.ValueType]] = {
    "declare": pb.DECISION_KIND_DECLARE,
    "search": pb.DECISION_KIND_SEARCH,
    "order": pb.DECISION_KIND_ORDER,
}
END_REASONS: Final[dict[EndReason, pb.EndReason.ValueType]] = {
    "home": pb.END_REASON_HOME,
    "air": pb.END_REASON_AIR,
    "stall": pb.END_REASON_STALL,
}
FAULTS: Final = {fault: pb.Fault.Value(f"FAULT_{fault.name}") for fault in Fault}

PHASE_NAMES: Final = {number: name for name, number in PHASES.items()}
END_REASON_NAMES: Final = {number: name for name, number in END_REASONS.items()}
FAULT_NAMES: Final = {number: fault for fault, number in FAULTS.items()}

_Number = TypeVar("_Number", bound=int)
_T = TypeVar("_T")


def name_of(names: Mapping[_Number, _T], number: _Number) -> _T:
    """The name of a number, or "unknown", which the types do not show."""
    return names.get(number, cast(_T, UNKNOWN))
