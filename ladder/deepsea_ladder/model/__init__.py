"""The types that are exchanged between the store, workers and front ends.

Invariants: plain values, compared by content; nothing here knows a database, so unpickling one in
a worker loads no SQLAlchemy; times are the database's, in milliseconds since 1970.
"""

from __future__ import annotations

from deepsea_ladder.model.analyses import (
    Analysis,
    AnalysisLease,
    AnalysisPlan,
    AnalysisState,
    GameAnalyses,
)
from deepsea_ladder.model.bots import BotConduct, BotState, BotVersion, LadderBot, RatedVersion
from deepsea_ladder.model.games import (
    GameFilter,
    Receipt,
    ReceiptStatus,
    SeatLog,
    StoredGame,
    StoredSeat,
)
from deepsea_ladder.model.jobs import (
    AttemptEnd,
    Job,
    JobInfo,
    JobStatus,
    LostAttempt,
    PairingQueue,
    QueueCounts,
    QueuedJob,
    Rotation,
    Seating,
    VoidReceipt,
)
from deepsea_ladder.model.people import (
    AuditEntry,
    AuditKind,
    Credential,
    StoredAuthor,
    StoredCode,
    StoredSession,
    StoredToken,
)
from deepsea_ladder.model.seasons import ClosedSeason, StoredSeason
from deepsea_ladder.model.submissions import (
    NewSubmission,
    Submission,
    SubmissionLease,
    SubmissionRefusal,
    SubmissionState,
)

__all__ = [
    "Analysis",
    "AnalysisLease",
    "AnalysisPlan",
    "AnalysisState",
    "AttemptEnd",
    "AuditEntry",
    "AuditKind",
    "BotConduct",
    "BotState",
    "BotVersion",
    "ClosedSeason",
    "Credential",
    "GameAnalyses",
    "GameFilter",
    "Job",
    "JobInfo",
    "JobStatus",
    "LadderBot",
    "LostAttempt",
    "NewSubmission",
    "PairingQueue",
    "QueueCounts",
    "QueuedJob",
    "RatedVersion",
    "Receipt",
    "ReceiptStatus",
    "Rotation",
    "SeatLog",
    "Seating",
    "StoredAuthor",
    "StoredCode",
    "StoredGame",
    "StoredSeason",
    "StoredSeat",
    "StoredSession",
    "StoredToken",
    "Submission",
    "SubmissionLease",
    "SubmissionRefusal",
    "SubmissionState",
    "VoidReceipt",
]
