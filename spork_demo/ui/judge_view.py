"""The chart of the numbers a round was judged by, as the page shows it."""

from spork_demo.charts import judged
from spork_demo.language import later, say
from spork_demo.trace import Round, Trace
from spork_demo.ui.plotly_view import payload

AT_TEMPERATURE_0 = later(
    "At temperature 0 the judged probability is 1 for the target's most probable token and 0 for "
    "any other, so thresholds below 1 decide nothing; the bars show the probability before that."
)


def judge_payload(trace: Trace, round_: Round) -> str | None:
    """Scores against τ or probabilities against thresholds; None where tokens were compared."""
    figure = judged.judge_chart(round_)
    if figure is None:
        return None
    title = (
        say("Fork scores against τ") if round_.scores else say("Each token against its threshold")
    )
    caption = say(AT_TEMPERATURE_0) if trace.settings.greedy and not round_.scores else ""
    return payload(figure, judged.judge_alt(round_), title=title, caption=caption)
