"""The worth of a decision, and the luck of each step of a game, by roll-outs.

`judge` tries out every legal action from what the seat could know. `luck_of_many` measures how far
dice and hidden values moved each seat's expected placement score.

Invariants of judgements: a judgement comes from a view, so hidden information changes nothing; and
it does not depend on the decisions that are judged with it. A decision is marked only if it surely
lost something. Options are compared by paired differences, trial by trial; an option that is
dropped has the first trials of the others. Scores of trials are whole numbers, so that results are
the same on every machine.

Invariants of luck: the mean luck of a roll is 0 over its sums; values are revealed when any bot can
see them. The steps of a finished game are every choice, every roll and every reveal of values, in
order. Their positions come from the engine alone, moved by the recorded choices and dice, and each
step begins where the one before it ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import sqrt
from typing import Literal, NamedTuple, TypeAlias

from deepsea_rules.actions import Kind
from deepsea_rules.events import DiveBegan
from deepsea_rules.game import Game
from deepsea_rules.randomness import source
from deepsea_rules.ruleset import FACES
from deepsea_rules.state import GameState
from deepsea_rules.view import View, known_values, view_for

from .roll_outs import ONE, LuckSource, Scores, Trials, one_by_one

Mark = Literal["", "?!", "?", "??"]
MARKS: tuple[tuple[float, Mark], ...] = ((0.0475, "?!"), (0.10, "?"), (0.20, "??"))
"""Thresholds of the marks in placement score: an inaccuracy, a mistake, a blunder.

The first is below 0.05, so that nine of ten decisions that cost 0.05 are marked: docs/dev/field.md.
"""


@dataclass(frozen=True, slots=True)
class Option:
    """An action with the placement score that it leads to."""

    action: str
    score: Estimate
    rollouts: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """A decision with the worth of its options, in placement score."""

    kind: Kind
    dive: int
    played: str
    best: str
    """The option with the highest score; of equal options the first."""
    options: tuple[Option, ...]
    """The legal actions. An order that is not listed as legal comes last if it was played."""
    regret: Estimate
    """Distance of the action that was played from the best one, in placement score."""
    loss: Estimate
    """Regret without the bias of picking the best of noisy scores.

    It is meant for sums, and it may be negative.
    """

    @property
    def mark(self) -> Mark:
        """The mark for what the decision lost."""
        return mark_of(self.regret)

    @property
    def is_level(self) -> bool:
        """True if another option seems better, but the interval does not show it."""
        return self.played != self.best and self.regret.low <= 0


def mark_of(regret: Estimate) -> Mark:
    """Return the highest mark whose threshold the regret passes; "" if nothing may be lost."""
    reached = [name for threshold, name in MARKS if regret.mean > threshold]
    return reached[-1] if reached and regret.low > 0 else ""


class PlayedDecision(NamedTuple):
    """A decision to be judged.

    view    view of the seat that moved
    action  its action; an order need not be listed as legal
    stream  source of the luck of the trials
    """

    view: View
    action: str
    stream: LuckSource

    @property
    def options(self) -> Sequence[str]:
        """The legal actions, and the one that was played if it is an order that is not listed."""
        legal = self.view.legal
        return legal if self.action in legal else (*legal, self.action)


def judge(decision: PlayedDecision, effort: Effort) -> Judgement:
    """Judge a decision by trials of every option, in which all seats play by one policy."""
    return judge_many([decision], effort)[0]


def judge_many(decisions: Iterable[PlayedDecision], effort: Effort) -> list[Judgement]:
    """Return a judgement of each decision; all are with the same rules and number of seats.

    Trials go in rounds. Each round tries out, as one batch, the next trials of all decisions that
    need more: that takes less time than to judge one after another.
    """
    judgements = [_OpenJudgement(decision) for decision in decisions]
    unsettled = judgements
    while True:
        unsettled = [judgement for judgement in unsettled if judgement.race.next_trials(effort)]
        if not unsettled:
            return [judgement.result() for judgement in judgements]
        requests = [judgement.trials(judgement.race.next_trials(effort)) for judgement in unsettled]
        for judgement, scores_by_option in zip(unsettled, try_out(requests), strict=True):
            # Only the scores of the seat that decided count.
            mover = judgement.decision.view.to_move
            judgement.race.add([by_seat[mover] for by_seat in scores_by_option], effort)


def try_out(requests: Sequence[Trials]) -> list[Scores]:
    """Return the scores of each request's trials, in batches if numpy is installed.

    All requests have the same rules and number of seats.
    """
    try:
        from .batched_roll_outs import scores
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        return [one_by_one(trials) for trials in requests]
    return scores(requests)


class _OpenJudgement:
    """A decision that is being judged: the positions after its options, and their race."""

    def __init__(self, decision: PlayedDecision) -> None:
        self.decision = decision
        view, actions = decision.view, decision.options
        dealt = view.sample(decision.stream.luck(0))
        self.after = [dealt.clone() for _ in actions]
        for state, action in zip(self.after, actions, strict=True):
            state.unchecked_apply(action)
        self.race = Race(
            count=len(actions),
            scale=(view.players - 1) * ONE,
            chosen=actions.index(decision.action),
            thresholds=[threshold for threshold, _ in MARKS],
        )

    def trials(self, numbers: range) -> Trials:
        """Return the trials with these numbers, for the options that are still in the race."""
        decision = self.decision
        states = [self.after[option] for option in self.race.running]
        return Trials(decision.view, decision.stream, numbers, states, decision.view.dive)

    def result(self) -> Judgement:
        """Return the finished judgement; the race of the options has to be over."""
        race, actions = self.race, self.decision.options
        kind = self.decision.view.kind
        assert kind is not None  # there is a choice
        return Judgement(
            kind=kind,
            dive=self.decision.view.dive,
            played=self.decision.action,
            best=actions[race.best],
            options=tuple(
                Option(action, race.score(option), len(race.scores[option]))
                for option, action in enumerate(actions)
            ),
            regret=race.regret,
            loss=race.loss(),
        )


# A race of options

SURE = 1.96
"""Standard errors on each side of a 95 % interval."""
BEHIND = 3.0
"""Standard errors by which an option is behind when it is dropped."""
FEWEST = 50
"""Trials of each option before anything is decided."""
PRECISION = 0.03
"""Precision of an analysis by default."""


class Estimate(NamedTuple):
    """An estimate with a 95 % interval: mean - error to mean + error."""

    mean: float
    error: float

    @property
    def low(self) -> float:
        return self.mean - self.error

    @property
    def high(self) -> float:
        return self.mean + self.error


@dataclass(frozen=True, slots=True)
class Effort:
    """The limits of a race; numbers are in units of the score.

    precision  half the width of an interval of a difference that is exact enough; half of this near
               a mark's threshold
    most       most trials of an option
    fewest     trials of each option before anything is decided
    """

    precision: float
    most: int
    fewest: int = FEWEST

    @classmethod
    def to(cls, precision: float = PRECISION) -> Effort:
        """Return the effort for a precision: 1600 trials at most for the default one.

        The trials that an interval needs grow with the square of its precision.
        """
        return cls(precision, max(FEWEST, round(1600 * (PRECISION / precision) ** 2)))

    @classmethod
    def of(cls, trials: int) -> Effort:
        """Return an effort of so many trials for each option, whatever they show."""
        return cls(0.0, trials, trials)


@dataclass(slots=True)
class Race:
    """A race of options: trials go on until it is clear how far the chosen one is behind the best.

    count       the number of options
    scale       the number of a trial that stands for a score of 1
    chosen      the option whose distance from the best one is measured
    thresholds  distances near which that distance is measured more exactly
    """

    count: int
    scale: int
    chosen: int
    thresholds: Sequence[float] = ()
    scores: list[list[int]] = field(init=False)
    """The scores of the trials of each option."""
    running: list[int] = field(init=False)
    """The options that have not been dropped."""
    settled: bool = False
    """True when the differences are known well enough."""

    def __post_init__(self) -> None:
        self.scores = [[] for _ in range(self.count)]
        self.running = list(range(self.count))

    @property
    def done(self) -> int:
        """The number of trials of the options that have not been dropped."""
        return len(self.scores[self.running[0]])

    def next_trials(self, effort: Effort) -> range:
        """Return the numbers of the next trials of all options in the race; none if it is over.

        The number of trials doubles in each round, so that a race has few rounds and does not go on
        for long after it could have been settled.
        """
        if self.settled or len(self.running) < 2:
            return range(0)
        done_after_round = min(max(effort.fewest, 2 * self.done), effort.most)
        return range(self.done, done_after_round)

    def add(self, by_option: Sequence[Sequence[int]], effort: Effort) -> None:
        """Add the scores of the next trials of each option in the race, and settle what can be.

        by_option  the scores of each option in `running`
        """
        for option, new_scores in zip(self.running, by_option, strict=True):
            self.scores[option].extend(new_scores)
        if self.done < effort.most:
            self._settle(effort.precision)

    def _settle(self, precision: float) -> None:
        """Drop the options that are clearly behind the best one, and set `settled`.

        The race is settled if the distance of each other option from the best one is known with
        this precision. That of the chosen option must be known twice as well if it may be on either
        side of the threshold of a mark, such as "?".
        """
        best = self.best
        self.settled = True
        rivals = [option for option in self.running if option != best]
        for option in rivals:
            gap = self.gap(best, option)
            # More than BEHIND standard errors; `gap.error` is SURE of them.
            is_clearly_behind = gap.mean * SURE > BEHIND * gap.error
            may_pass_threshold = any(
                abs(gap.mean - threshold) < gap.error for threshold in self.thresholds
            )
            if option == self.chosen and may_pass_threshold and gap.error > precision / 2:
                self.settled = False
            elif is_clearly_behind:
                self.running.remove(option)
            elif gap.error > precision:
                self.settled = False

    @property
    def best(self) -> int:
        """The option with the highest mean in the race; of equal options the first.

        All options in the race have the same number of trials, so sums are compared.
        """
        return max(self.running, key=lambda option: sum(self.scores[option]))

    def score(self, option: int) -> Estimate:
        """Return the mean score of an option."""
        return interval(self.scores[option], self.scale)

    def gap(self, better: int, option: int) -> Estimate:
        """Return how far an option is behind a better one, by the trials that both have."""
        pairs = zip(self.scores[better], self.scores[option], strict=False)
        return interval([high - low for high, low in pairs], self.scale)

    @property
    def regret(self) -> Estimate:
        """Distance of the chosen option from the best one."""
        best = self.best
        return self.gap(best, self.chosen) if best != self.chosen else Estimate(0.0, 0.0)

    def loss(self) -> Estimate:
        """Return how much score the chosen option lost against the best one, without bias.

        The best of several noisy means is on average too high. Therefore one half of the trials
        picks the best option, and the other half measures how far the chosen option is behind it;
        then the halves change places. Where options are nearly equal a loss is a little too low,
        because a half may pick a wrong one.
        """
        rivals = sorted({*self.running, self.chosen})
        # Options that have been dropped have fewer trials: compare those that all rivals have.
        common_trials = min(len(self.scores[option]) for option in rivals)
        if len(rivals) < 2 or common_trials < 2:
            return Estimate(0.0, 0.0)
        even_trials = {option: self.scores[option][0:common_trials:2] for option in rivals}
        odd_trials = {option: self.scores[option][1:common_trials:2] for option in rivals}
        first = self._measured_loss(even_trials, odd_trials)
        second = self._measured_loss(odd_trials, even_trials)
        error = sqrt(first.error * first.error + second.error * second.error) / 2
        return Estimate((first.mean + second.mean) / 2, error)

    def _measured_loss(
        self, picking: Mapping[int, Sequence[int]], measuring: Mapping[int, Sequence[int]]
    ) -> Estimate:
        """Return how far the chosen option is behind the best one.

        picking    scores by option that say which option is the best; of equal ones the first
        measuring  scores of other trials, by which the distance is measured
        """
        best = max(picking, key=lambda option: sum(picking[option]))
        pairs = zip(measuring[best], measuring[self.chosen], strict=True)
        differences = [best_score - chosen_score for best_score, chosen_score in pairs]
        return interval(differences, self.scale, doubt=0)


def interval(numbers: Sequence[int], scale: int, *, doubt: float = 0.5) -> Estimate:
    """Return the mean score of some trials with its 95 % interval.

    numbers  the result of each trial, in units of which `scale` are a score of 1
    doubt    added to the sum of squared scores, so that a few trials that agree do not make the
             mean certain: 0.5 is as two more trials, half a score above the mean and below it
    """
    count = len(numbers)
    total = sum(numbers)
    squares = sum([number * number for number in numbers])
    # `count` times the sum of the squared distances from the mean. It is a whole number, so that it
    # is the same on every machine.
    scaled_square_sum = squares * count - total * total
    square_sum = scaled_square_sum / count + doubt * scale * scale
    standard_error = sqrt(square_sum / count / count)
    return Estimate(total / count / scale, SURE * standard_error / scale)


# ----- Luck of the steps of a game

WAYS = {2: 1, 3: 2, 4: 3, 5: 2, 6: 1}
"""The number of the nine rolls of two dice that give a sum, by the sum."""


class Outlook(NamedTuple):
    """A position and the values that any seat knows, which is all that the bots know together."""

    state: GameState
    """The position; it is not changed."""
    known: Mapping[int, int]
    """Known values by chip id."""

    def view(self) -> View:
        """Return the position as a view that knows these values, to sample hidden ones from."""
        view = view_for(self.state, None)
        view.known = self.known
        return view


class Step(NamedTuple):
    """A step of the game.

    kind      "decision" of a seat that had a choice; "forced" if it had none: a single action, none
              to declare, or it had forfeited; "roll"; "reveal" of values
    dive      the dive in which it happened; a reveal at a dive's end belongs to that dive
    seat      the seat that chose or rolled; None for a reveal
    decision  the index of the decision among the game's
    """

    kind: Literal["decision", "forced", "roll", "reveal"]
    dive: int
    seat: int | None
    before: Outlook
    after: Outlook
    decision: int | None = None
    action: str | None = None
    dice: tuple[int, int] | None = None


def game_steps(game: Game) -> Iterator[Step]:
    """Yield the steps of a finished game: its decisions, forced actions, rolls and reveals."""
    opening = game.events[0]
    assert isinstance(opening, DiveBegan)
    state = GameState.opening(game.rules, game.state.values, game.players, opening.starter)
    forfeited = {forfeit.seat: forfeit.decision for forfeit in game.forfeits}
    dice = source(game.seed).dice
    turns: dict[tuple[int, int], int] = {}
    decision_count = 0
    now = Outlook(state, known_to_any(state))
    while state.phase != "over":
        state = state.clone()
        dive, seat = state.dive, state.to_move
        if state.phase == "roll":
            turn = turns[dive, seat] = turns.get((dive, seat), 0) + 1
            rolled = dice(dive, seat, turn)
            state.unchecked_move(*rolled)
            step = Step("roll", dive, seat, now, Outlook(state, now.known), dice=rolled)
        # The decision with which a seat forfeits is the last one that it was asked for.
        elif len(state.legal) > 1 and decision_count <= forfeited.get(seat, decision_count):
            action = game.decisions[decision_count].action
            state.unchecked_apply(action)
            step = Step(
                "decision", dive, seat, now, Outlook(state, now.known), decision_count, action
            )
            decision_count += 1
        else:
            if state.legal:
                state.unchecked_apply(state.legal[0])
            else:
                state.unchecked_declare(None)
            step = Step("forced", dive, seat, now, Outlook(state, now.known))
        yield step
        now = step.after
        known = known_to_any(state)
        if known != now.known:
            revealed = Outlook(state, known)
            yield Step("reveal", dive, None, now, revealed)
            now = revealed


def known_to_any(state: GameState) -> dict[int, int]:
    """Return the values that at least one seat knows, by chip id."""
    known: dict[int, int] = {}
    for seat in range(state.players):
        known |= known_values(state, seat)
    return known


def rolls(before: Outlook) -> Iterator[tuple[int, int, Outlook]]:
    """Yield each sum of two dice, how many of the nine rolls have it, and the outlook after it.

    before  an outlook in phase "roll"
    """
    for total, ways in WAYS.items():
        state = before.state.clone()
        # Only the sum moves a diver, so any two faces with this sum do.
        first_face = min(FACES[-1], total - FACES[0])
        state.unchecked_move(first_face, total - first_face)
        yield total, ways, Outlook(state, before.known)


# By roll-outs

Number: TypeAlias = float | Fraction
Evaluation: TypeAlias = Callable[[Sequence[Outlook]], Sequence[Sequence[Number]]]
"""Function that returns the expected scores of the seats in each of some outlooks.

All of them are evaluated on common luck.
"""

_NINE = 9


def luck_of_many(chances: Sequence[tuple[Step, LuckSource]], trials: int) -> list[list[Estimate]]:
    """Return for each of these rolls and reveals the luck that it was for each seat.

    Luck is the score after the step, less the score that was expected before it. Both are measured
    by roll-outs.

    chances  the steps, each with the source of the luck of its trials
    trials   the number of roll-outs of each outlook
    """
    outlooks_of_steps = [_weighted_outlooks(step) for step, _ in chances]
    # The outlooks of all steps are tried out together, with one request for each.
    requests = []
    for (step, stream), weighted_outlooks in zip(chances, outlooks_of_steps, strict=True):
        for _, outlook in weighted_outlooks:
            request = Trials(outlook.view(), stream, range(trials), [outlook.state], step.dive)
            requests.append(request)
    scores_of_requests = iter(try_out(requests))
    luck = []
    for (step, _), weighted_outlooks in zip(chances, outlooks_of_steps, strict=True):
        weighted_scores = []
        for weight, _ in weighted_outlooks:
            (scores,) = next(scores_of_requests)  # those of the request's single state
            weighted_scores.append((weight, scores))
        luck.append(_luck_of_step(step, weighted_scores))
    return luck


def _luck_of_step(
    step: Step, weighted_scores: Sequence[tuple[int, Sequence[Sequence[int]]]]
) -> list[Estimate]:
    """Return the luck of each seat in a step: the weighted sum of the scores of its outcomes.

    Without outcomes, because all sums of the dice lead to the same position, the luck is 0.

    weighted_scores  for each outcome its weight, and its scores by seat and trial
    """
    players = step.after.state.players
    if not weighted_scores:
        return [Estimate(0.0, 0.0)] * players
    # A score of 1 is `ONE` for each other seat; the weights of a roll are ninths.
    scale = (players - 1) * ONE * (_NINE if step.kind == "roll" else 1)
    luck = []
    for seat in range(players):
        # By outcome and trial, then summed over the outcomes for each trial
        weighted = [
            [weight * score for score in by_seat[seat]] for weight, by_seat in weighted_scores
        ]
        by_trial = [sum(scores_of_trial) for scores_of_trial in zip(*weighted, strict=True)]
        luck.append(interval(by_trial, scale, doubt=0))
    return luck


def _weighted_outlooks(step: Step) -> list[tuple[int, Outlook]]:
    """Return outlooks with weights: the luck of a step is the weighted sum of their scores."""
    if step.kind == "roll":
        return _weighted_rolls(step)
    # What was expected before values are revealed is the score of the position before.
    return [(-1, step.before), (1, step.after)]


def _weighted_rolls(step: Step) -> list[tuple[int, Outlook]]:
    """Return the different outlooks after a roll, each with its weight in ninths.

    The luck of a roll is the score after it, less the mean score after each of the nine rolls. In
    ninths, the sum of the dice that came has the weight 9, less 1 for each roll with this sum; any
    other sum has -1 for each roll with it. If all sums lead to the same position, no outlook is
    returned.
    """
    assert step.dice is not None
    rolled_sum = sum(step.dice)
    outcomes: list[tuple[int, Outlook]] = []
    for total, ways, after in rolls(step.before):
        weight = (_NINE if total == rolled_sum else 0) - ways
        # Sums that lead to the same position are one outcome, with the sum of their weights.
        for index, (other_weight, other) in enumerate(outcomes):
            if other.state == after.state:
                outcomes[index] = (other_weight + weight, other)
                break
        else:
            outcomes.append((weight, after))
    return outcomes if len(outcomes) > 1 else []
