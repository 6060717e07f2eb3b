"""How close each lane's text is to the greedy lane's. Computed after the race, off every clock."""

from collections.abc import Callable, Iterator, Sequence

from rouge_score.rouge_scorer import RougeScorer
from rouge_score.tokenizers import Tokenizer
from sacrebleu.metrics import BLEU

from spork_demo.trace import Fidelity, LaneEvent, Race, Trace, finite

Perplexity = Callable[[Sequence[int]], float | None]
"""Perplexity of a continuation of the race's prompt under the target; None for an empty one."""


EXCERPT = 16
"""Characters shown of where two texts part."""

END = "(end)"


def compare(race: Race, perplexity: Perplexity) -> Iterator[LaneEvent]:
    """One Fidelity per lane that can be compared with the greedy lane of its race."""
    baseline = race.baseline
    greedy_perplexity = finite(perplexity(baseline.ids)) if baseline else None
    for index, lane in enumerate(race.lanes):
        if not lane.rounds:
            continue
        own = greedy_perplexity if lane is baseline else finite(perplexity(lane.ids))
        if baseline is None or not baseline.rounds or lane is baseline:
            yield LaneEvent(index, Fidelity(perplexity=own, greedy_perplexity=greedy_perplexity))
            continue
        yield LaneEvent(index, _against(lane, baseline, own, greedy_perplexity))


def _against(
    lane: Trace, baseline: Trace, own: float | None, greedy_perplexity: float | None
) -> Fidelity:
    ours, theirs = lane.tokens, baseline.tokens
    place = first_difference(lane.ids, baseline.ids)
    if place is not None and lane.stop_reason == "stopped" and place == len(ours):
        place = None  # the visitor stopped it there: nothing differs so far
    longest = max(len(ours), len(theirs))
    same = sum(a.token == b.token for a, b in zip(ours, theirs, strict=False))
    return Fidelity(
        first_difference=place,
        ours=_shown(ours, place),
        theirs=_shown(theirs, place),
        margin=theirs[place].margin if place is not None and place < len(theirs) else None,
        equal_tokens=same / longest if longest else None,
        perplexity=own,
        greedy_perplexity=greedy_perplexity,
        rouge_l=rouge_l(lane.ids, baseline.ids),
        bleu=bleu(lane.text, baseline.text),
    )


def compare_texts(race: Race) -> Iterator[LaneEvent]:
    """One Fidelity per served lane, whose text is all that can be compared with greedy's."""
    baseline = race.baseline
    for index, lane in enumerate(race.lanes):
        if lane.served is not None and lane.rounds and baseline is not None and baseline.rounds:
            yield LaneEvent(index, text_fidelity(lane.text, baseline.text))


def text_fidelity(ours: str, theirs: str) -> Fidelity:
    """How close one text is to another, place by place and by ROUGE-L and BLEU."""
    place = first_difference(ours, theirs)
    longest = max(len(ours), len(theirs))
    same = sum(a == b for a, b in zip(ours, theirs, strict=False))
    return Fidelity(
        first_difference=place,
        ours="" if place is None else ours[place : place + EXCERPT] or END,
        theirs="" if place is None else theirs[place : place + EXCERPT] or END,
        equal_characters=same / longest if longest else None,
        rouge_l=rouge_l(_units(ours), _units(theirs)),
        bleu=bleu(ours, theirs),
    )


def _units(text: str) -> list[str]:
    """What ROUGE-L counts where there are no tokens: Chinese characters, words elsewhere."""
    return list("".join(text.split())) if _is_chinese(text) else text.split()


def first_difference(ours: Sequence, theirs: Sequence) -> int | None:
    """The first place where two sequences differ, their ends included; None when equal."""
    for place, (a, b) in enumerate(zip(ours, theirs, strict=False)):
        if a != b:
            return place
    return None if len(ours) == len(theirs) else min(len(ours), len(theirs))


def rouge_l(ours: Sequence, theirs: Sequence) -> float | None:
    """ROUGE-L F1 over token ids, or over words, so that it means the same in every language."""
    if not ours or not theirs:
        return None
    scorer = RougeScorer(["rougeL"], tokenizer=_Ids())
    names = [" ".join(map(str, ids)) for ids in (theirs, ours)]
    return float(scorer.score(*names)["rougeL"].fmeasure)


def bleu(ours: str, theirs: str) -> float | None:
    """Sentence BLEU in [0, 1] of our text against the greedy text, split at characters of
    Chinese and at words elsewhere.
    """
    if not ours.strip() or not theirs.strip():
        return None
    metric = BLEU(tokenize="zh" if _is_chinese(theirs) else "13a", effective_order=True)
    return metric.sentence_score(ours, [theirs]).score / 100


class _Ids(Tokenizer):
    def tokenize(self, text: str) -> list[str]:
        return text.split()


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= character <= "\u9fff" for character in text)


def _shown(tokens: Sequence, place: int | None) -> str:
    if place is None:
        return ""
    return tokens[place].text if place < len(tokens) else END
