"""The reliability diagram as the page shows it, with what it says in a sentence."""

from spork_demo.charts.figure import counted, lane_name, paragraph
from spork_demo.charts.reliability import reliability_alt, reliability_chart, reliable_lane
from spork_demo.language import say
from spork_demo.reliability import (
    CHART_BINS,
    FEW_DRAFTS,
    Prediction,
    calibration_error,
    outcomes,
    predictions,
)
from spork_demo.trace import Race, Trace
from spork_demo.ui import words
from spork_demo.ui.plotly_view import payload


def race_reliability(race: Race | None) -> str | None:
    """The diagram of the race's most telling lane; None where no lane has confidences."""
    lane = reliable_lane(race.lanes) if race is not None else None
    return lane_reliability(lane) if lane is not None else None


def lane_reliability(lane: Trace) -> str:
    """The diagram of one lane, so far."""
    found = predictions(lane.rounds)
    return payload(
        reliability_chart(found),
        reliability_alt(found),
        title=say(words.RELIABILITY_TITLE),
        caption=reliability_caption(lane, found),
    )


def reliability_caption(lane: Trace, found: tuple[Prediction, ...]) -> str:
    """Both errors, what they rest on, and whether that is enough."""
    name = lane_name(lane)
    if not found:
        return say(words.RELIABILITY_EMPTY, lane=name)
    before, after = (
        calibration_error(outcomes(found, scaled=scaled), CHART_BINS) for scaled in (False, True)
    )
    error = {"after": f"{after:.1%}"}
    if before is None:
        told = say(words.ERROR_ONE, **error)
    else:
        told = say(words.ERROR_BOTH, **error, before=f"{before:.1%}")
    text = say(
        words.RELIABILITY,
        lane=name,
        error=told,
        drafts=counted(len(found), "sent draft"),
        rounds=counted(len(lane.rounds), "round"),
        bins=CHART_BINS,
    )
    if len(found) < FEW_DRAFTS:
        drafts = counted(len(found), "draft")
        few = say(words.TOO_FEW_DRAFTS, drafts=drafts, enough=FEW_DRAFTS)
        return paragraph([text, few])
    return text
