"""What the lesson shows of probabilities: closed forms, and both rules run beside them."""

from collections.abc import Iterator, Sequence
from typing import Any

from spork_demo.charts.figure import listed, number, paragraph
from spork_demo.charts.lesson_odds import RIGHT, TARGET, WRONG, Odds, odds_alt, odds_chart
from spork_demo.host import Host, RuleCounts
from spork_demo.language import say
from spork_demo.lesson import hindsight, rules
from spork_demo.ui.learn_values import bounded, told
from spork_demo.ui.learn_words import PRESETS, TOY_TOKENS
from spork_demo.ui.plotly_view import payload

DRAWS, BATCHES = 4000, 8
"""How often a press runs both rules, and in how many steps the page sees it."""


def vocabulary(preset: str | None, likeness: Any) -> tuple[rules.Distribution, rules.Distribution]:
    """p and q of a preset, q moved towards p by a share of `likeness`."""
    _, p, q = PRESETS[preset if preset in PRESETS else next(iter(PRESETS))]
    return tuple(map(float, p)), rules.mixed(q, p, bounded(likeness, 0.0, 1.0))


def bias_values(
    preset: str | None, likeness: Any, counts: RuleCounts | None = None
) -> tuple[str, str]:
    """Step 7: p, q and what comes out by either rule, in closed form and where run, counted."""
    p, q = vocabulary(preset, likeness)
    exact, article = rules.exact_output(p, q), rules.article_output(p, q)
    all_odds = [
        Odds(say("target p"), TARGET, p),
        Odds(say("exact rule"), RIGHT, exact, _shares(counts.exact) if counts else None),
        Odds(say("article rule"), WRONG, article, _shares(counts.article) if counts else None),
    ]
    tokens = [say(token) for token in TOY_TOKENS]
    caption = say("The drafter's q: {odds}.", odds=listed(
        f"{token} {number(value)}" for token, value in zip(tokens, q, strict=True)))  # fmt: skip
    chart = payload(
        odds_chart(tokens, all_odds),
        odds_alt(tokens, all_odds),
        title=say("The first token of a round"),
        caption=caption,
    )
    return chart, told(_bias_sentence(p, q, counts))


def _bias_sentence(p: Sequence[float], q: Sequence[float], counts: RuleCounts | None) -> str:
    exact, article = rules.exact_output(p, q), rules.article_output(p, q)
    sentences = [
        say(
            "Exact rule: keeps {kept} of the drafts, total variation distance from p {far}.",
            kept=_percent(rules.exact_acceptance(p, q)),
            far=number(rules.total_variation(exact, p), 3),
        ),
        say(
            "Article rule: keeps {kept}, distance {far}.",
            kept=_percent(rules.article_acceptance(p, q)),
            far=number(rules.total_variation(article, p), 3),
        ),
    ]
    if counts:
        sentences.append(
            say(
                "Run {draws} times with the code of the lanes: {exact} and {article}. Chance alone "
                "makes a distance of about {noise}.",
                draws=sum(counts.exact),
                exact=number(rules.total_variation(_shares(counts.exact), p), 3),
                article=number(rules.total_variation(_shares(counts.article), p), 3),
                noise=number(rules.chance_distance(p, sum(counts.exact)), 3),
            )
        )
    return paragraph(sentences)


def run_rules(
    host: Host, preset: str | None, likeness: Any, seed: int
) -> Iterator[tuple[str, str]]:
    """Step 7 again and again while both rules run, counts growing."""
    p, q = vocabulary(preset, likeness)
    exact, article = [0] * len(p), [0] * len(p)
    for batch in range(BATCHES):
        more = host.rule_counts(p, q, DRAWS // BATCHES, seed + batch)
        if more is None:
            chart, _ = bias_values(preset, likeness)
            yield chart, told(say("The engine is not there yet, so the rules cannot be run."))
            return
        exact = [a + b for a, b in zip(exact, more.exact, strict=True)]
        article = [a + b for a, b in zip(article, more.article, strict=True)]
        yield bias_values(preset, likeness, RuleCounts(tuple(exact), tuple(article)))


def hindsight_values(target: Any, draft: Any, behind_a: Any, behind_b: Any) -> tuple[str, str]:
    """Step 8: the first token's odds under both schedulers, and what each does in either case."""
    p, q = _pair(target), _pair(draft)
    toy = hindsight.Toy(p, q, (bounded(behind_a, 0.0, 1.0), bounded(behind_b, 0.0, 1.0)))
    choosers = (hindsight.causal, hindsight.hindsight)
    causal, seeing = (hindsight.output(toy, choose) for choose in choosers)
    all_odds = [
        Odds(say("target p"), TARGET, p),
        Odds(say("decided draft by draft"), RIGHT, causal),
        Odds(say("decided in hindsight"), WRONG, seeing),
    ]
    chart = payload(
        odds_chart(("A", "B"), all_odds),
        odds_alt(("A", "B"), all_odds),
        title=say("The first token of a round"),
    )
    cases = zip("AB", *(hindsight.cases(toy, choose) for choose in choosers), strict=True)
    sentences = [
        say(
            "Draft 1 is {token} ({chance}): Θ is {rates} for 0, 1, 2 drafts; draft by draft sends "
            "{causal}, hindsight {seeing}.",
            token=token,
            chance=_percent(ours.chance),
            rates=listed(number(rate) for rate in ours.throughputs),
            causal=ours.sent,
            seeing=theirs.sent,
        )
        for token, ours, theirs in cases
    ]
    sentences.append(
        say(
            "Distance from p: {causal} draft by draft, {seeing} in hindsight.",
            causal=number(rules.total_variation(causal, p), 3),
            seeing=number(rules.total_variation(seeing, p), 3),
        )
    )
    return chart, told(paragraph(sentences))


def _pair(first: Any) -> tuple[float, float]:
    share = bounded(first, 0.01, 0.99)
    return share, 1 - share


def _shares(counts: Sequence[int]) -> rules.Distribution:
    return tuple(count / max(1, sum(counts)) for count in counts)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
