"""What a calibration looks like on the page: charts, a table of judges, and sentences."""

from html import escape
from typing import Any

from spork_demo.calibration import FEW_FORKS, Calibration, CalibrationProgress, Verdict, verdict
from spork_demo.charts import calibration as charts
from spork_demo.charts.figure import number, paragraph
from spork_demo.charts.reliability import reliability_alt, reliability_chart
from spork_demo.language import later, say
from spork_demo.reliability import BINS, Prediction, calibration_error, outcomes
from spork_demo.settings import Settings
from spork_demo.ui.plotly_view import payload

JUDGES = {
    "early_layers": later("early layers: mean probability after N layers"),
    "draft_model": later("draft model: mean probability under it"),
    "first_token": later("first token: the drafter's probability of it"),
}
SHORT_JUDGES = {
    "early_layers": later("early layers, N {layers}"),
    "draft_model": later("the draft model's mean"),
    "first_token": later("the first token's probability"),
}
DRAFTERS = {
    "target": later("the target itself, as in the article"),
    "ngram": later("counts of n-grams"),
    "draft_model": later("a draft model"),
    "early_exit": later("early exit at N layers"),
    "recycle": later("recycled candidates"),
}
SHAPES = {
    "tree": later("a tree of at most {nodes} drafted tokens, up to {width} children a token"),
    "forks": later("{width} forks of {depth} tokens"),
    "hierarchical": later("{width} forks of {depth} tokens, the better half going on half-way"),
}
HEAD = (
    later("judge"),
    later("AUC"),
    later("τ"),
    later("agreeing forks that pass"),
    later("other forks that pass"),
    later("positions where a fork is kept"),
    later("of these, not what greedy writes"),
)
VIEWS = 5
"""How many values `views` returns."""


def views(found: Calibration | None, judge: str, quantile: float) -> list[Any]:
    """Score chart, table of judges, head chart, survival chart, reliability chart."""
    if found is None:
        return [None, "", None, None, None]
    judge = judge if judge in found.judges else found.judges[0]
    return [*judged(found, judge, quantile), _head(found), *_blocks(found)]


def judged(found: Calibration, judge: str, quantile: float) -> list[Any]:
    """The part of `views` that another judge or quantile changes."""
    told = verdict(found, judge, quantile)
    chart = payload(
        charts.score_chart(found, told),
        charts.score_alt(found, told),
        title=say("Scores of the forks: {judge}", judge=judge_name(judge, found.settings)),
        caption=paragraph([cost_sentence(told), *_doubts(told)]),
    )
    return [chart, judge_table(found, judge, quantile)]


def judge_name(judge: str, settings: Settings) -> str:
    """A judge in a few words."""
    return say(SHORT_JUDGES[judge], layers=settings.verifier_layers)


def cost_sentence(told: Verdict) -> str:
    """What this τ lets pass, and what that would do to a text."""
    if told.passing_right is None or told.passing_wrong is None:
        return say(
            "{right} forks agree with greedy and {wrong} do not: τ needs some of both.",
            right=told.agreeing,
            wrong=told.disagreeing,
        )
    threshold = f"{told.threshold:.2f}"
    text = say(
        "At τ {threshold}, {right} of the {agreeing} forks that agree with greedy pass, and so do "
        "{wrong} of the {disagreeing} that do not.",
        threshold=threshold,
        right=f"{told.passing_right:.0%}",
        agreeing=told.agreeing,
        wrong=f"{told.passing_wrong:.0%}",
        disagreeing=told.disagreeing,
    )
    if told.wrong is None:
        return paragraph([text, say("No position keeps a fork.")])
    return paragraph(
        [
            text,
            say(
                "A lane would keep a fork at {kept} of the positions that have any; {wrong} of "
                "those forks are not what greedy writes.",
                kept=f"{told.kept:.0%}",
                wrong=f"{told.wrong:.0%}",
            ),
        ]
    )


def _doubts(told: Verdict) -> list[str]:
    doubts = []
    if told.threshold == 0 and told.agreeing:
        doubts.append(
            say(
                "The scores lie so low that τ 0.00 lets every fork pass: this judge decides "
                "nothing."
            )
        )
    if told.few:
        doubts.append(say("Below {enough} forks of either kind chance moves all of this.",
                          enough=FEW_FORKS))  # fmt: skip
    return doubts


def judge_table(found: Calibration, judge: str, quantile: float) -> str:
    """All judges on the same forks; the chosen one is marked."""
    head = "".join(f'<th scope="col">{escape(say(name))}</th>' for name in HEAD)
    rows = []
    for name in found.judges:
        told = verdict(found, name, quantile)
        cells = (
            number(told.auc, 3),
            f"{told.threshold:.2f}",
            *(_share(each) for each in (told.passing_right, told.passing_wrong)),
            *(_share(each) for each in (told.kept, told.wrong)),
        )
        chosen = name == judge
        mark = ' aria-current="true"' if chosen else ""
        label = ("▸ " if chosen else "") + judge_name(name, found.settings)
        line = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        rows.append(f'<tr{mark}><th scope="row">{escape(label)}</th>{line}</tr>')
    told = escape(say("All judges of this pair on the same forks, τ at the same quantile"))
    return (
        f'<div class="calibrate-table" tabindex="0" role="group" aria-label="{told}"><table>'
        f"<caption>{told}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
        f"<p>{escape(basis(found))}</p>"
    )


def basis(found: Calibration) -> str:
    """What the figures rest on."""
    settings = found.settings
    shape = say(
        SHAPES[settings.fork_shape],
        nodes=settings.node_budget,
        width=settings.fork_width,
        depth=1 + settings.fork_depth,
    )
    return say(
        "From {forks} forks at {places} positions of {prompts} prompts, on {pair}. Who drafted "
        "them: {drafter}; their shape: {shape}. AUC is the chance that a fork that agrees scores "
        "above one that does not; 0.5 is guessing.",
        forks=len(found.forks),
        places=found.places,
        prompts=found.prompts,
        drafter=say(DRAFTERS.get(settings.drafter, settings.drafter)),
        shape=shape,
        pair=found.pair,
    )


def _head(found: Calibration) -> str | None:
    if found.head is None:
        return None
    head = found.head
    caption = say(
        "The article scores a fork by a linear layer on the state of its last token after {layers} "
        "layers, with the weights it was created with: that is guessing, AUC {low} to {high} over "
        "{count} random ones. Fitted on {fitted_on} forks of every second prompt and tried on "
        "{tried_on} forks of the others it reaches {fitted}; the mean probability of the fork's "
        "tokens reaches {mean} there.",
        layers=found.settings.verifier_layers,
        low=number(head.untrained[0]),
        high=number(head.untrained[-1]),
        count=len(head.untrained),
        fitted_on=head.fitted_on,
        tried_on=head.tried_on,
        fitted=number(head.fitted),
        mean=number(head.mean_probability),
    )
    return payload(
        charts.head_chart(head),
        charts.head_alt(head),
        title=say("The article's scoring head, fitted and as printed"),
        caption=caption,
    )


def _blocks(found: Calibration) -> list[str | None]:
    drafts = tuple(draft for round_ in found.drafts for draft in round_)
    if not drafts:
        return [None, None]
    return [
        payload(
            charts.survival_chart(found),
            charts.survival_alt(found),
            title=say("DSpark: survival, predicted and seen"),
            caption=say(
                "Whole blocks were sent, so nothing the scheduler would have cut is missing. What "
                "happened is the share of {rounds} blocks whose drafts up to that one were all "
                "accepted.",
                rounds=len(found.drafts),
            ),
        ),
        payload(
            reliability_chart(drafts),
            reliability_alt(drafts),
            title=say("DSpark: are its confidences true?"),
            caption=_error(drafts),
        ),
    ]


def _error(drafts: tuple[Prediction, ...]) -> str:
    before, after = (
        calibration_error(outcomes(drafts, scaled=scaled), BINS) for scaled in (False, True)
    )
    if before is None:
        return say(
            "Expected calibration error {after} over {drafts} drafts in {bins} bins; this drafter "
            "has no temperature scaling. On the dotted line a prediction comes true as often as it "
            "says.",
            after=f"{after:.1%}",
            drafts=len(drafts),
            bins=BINS,
        )
    told = say(
        "Expected calibration error {before} before temperature scaling and {after} after, over "
        "{drafts} drafts in {bins} bins. On the dotted line a prediction comes true as often as it "
        "says.",
        before=f"{before:.1%}",
        after=f"{after:.1%}",
        drafts=len(drafts),
        bins=BINS,
    )
    if after < before:
        return told
    return paragraph([told, say("Here scaling did not help: its temperatures fit other prompts.")])


def progress_view(step: CalibrationProgress) -> str:
    """A bar, the prompt that is read, and the time left at the pace so far."""
    left = step.seconds_left
    at = min(step.prompts_done + 1, step.prompts)
    text = say("Prompt {at} of {prompts}.", at=at, prompts=step.prompts)
    if left is not None and step.seconds > 2:
        text = say("Prompt {at} of {prompts}, about {left} s left.", at=at, prompts=step.prompts,
                   left=max(1, round(left)))  # fmt: skip
    label = escape(say("calibration"))
    return (
        f'<div class="sweep-progress"><progress max="1" value="{step.share:.4f}" '
        f'aria-label="{label}"></progress><span>{escape(text)}</span></div>'
    )


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.0%}"
