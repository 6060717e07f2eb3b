"""The reference pages of the lesson: troubleshooting, glossary, sources. Static HTML, escaped."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from spork_demo.language import LANGUAGES, current, later, say, speaking


@dataclass(frozen=True, slots=True)
class Trouble:
    """turn: what to do. knobs: the settings it is done with, by name."""

    symptom: str
    cause: str
    look: str
    turn: str
    knobs: tuple[str, ...]


TROUBLES = (
    Trouble(
        later("A lane is slower than greedy."),
        later("Drafting and judging cost more than the kept drafts save."),
        later("What a token costs, on the race page; step 5 with your acceptance."),
        later("Draft less, or with something cheaper."),
        ("draft_length", "node_budget", "lanes"),
    ),
    Trouble(
        later("Most rounds keep nothing."),
        later("The drafter rarely says what the target says: free prose, another language."),
        later("How far drafts are kept; the fork tree of a few rounds."),
        later("Another drafter, or more siblings."),
        ("lanes", "fork_width"),
    ),
    Trouble(
        later("First drafts are kept, later ones hardly ever."),
        later("Drafts reach further than the drafter can see."),
        later("How far drafts are kept."),
        later("Shorter drafts, or let the outcome of rounds choose."),
        ("draft_length", "fork_depth", "policy"),
    ),
    Trouble(
        later("SPORK by article rules falls back in nearly every round."),
        later("τ is above what the judge's scores reach."),
        later("Fork scores against τ, inside a round."),
        later("Lower τ, or let it move."),
        ("accept_threshold", "threshold_rule", "wanted_acceptance"),
    ),
    Trouble(
        later("Exact rules at temperature 0, and yet the text differs from greedy."),
        later("Calls of several rows round otherwise than calls of one; that tips a near-tie."),
        later("The verdict under the lane: the place, and the margin of the target there."),
        later("A model pair in float32."),
        ("pair",),
    ),
    Trouble(
        later("Exact rules above temperature 0, and the text differs from greedy."),
        later("Exact means the same odds, not the same draws."),
        later("Step 7: what comes out when rules are run many times."),
        later("Temperature 0 if the same tokens are wanted."),
        ("temperature",),
    ),
    Trouble(
        later("The text of an article lane is poorer than greedy's."),
        later("Its rules keep tokens the target would not have written, or bend the odds."),
        later("Perplexity and ROUGE-L under the lane; steps 6 and 7."),
        later("Exact rules, or a higher threshold."),
        ("lanes", "accept_threshold", "min_threshold", "max_threshold"),
    ),
    Trouble(
        later("DSpark sends only one or two drafts of its block."),
        later("Low confidences or dear calls: more drafts promise no gain."),
        later("Why so many were sent, inside a round."),
        later("Another schedule, to see what would have come of it."),
        ("schedule",),
    ),
    Trouble(
        later("DSpark sends drafts that are refused again and again."),
        later("Its confidences are too high for this text or this temperature."),
        later("Do the confidences come true, inside a round."),
        later("The threshold rule with a higher c."),
        ("schedule", "confidence_threshold"),
    ),
    Trouble(
        later("Every method gets slower as temperature rises."),
        later("The target is harder to foresee: p and q overlap less."),
        later("Accepted length under the lanes."),
        later("Lower temperature, or less of the tail."),
        ("temperature", "top_p"),
    ),
    Trouble(
        later("Speeds differ from run to run."),
        later("The run is short, or other programs use the machine."),
        later("The note under a lane that rests on few rounds."),
        later("More new tokens."),
        ("max_new_tokens",),
    ),
    Trouble(
        later("The first token comes late."),
        later("The prompt has to be read first; no draft can shorten that."),
        later("Time to first token under the lanes."),
        later("A shorter prompt."),
        ("prompt",),
    ),
)

TERMS = (
    (later("target"), later("the model whose output counts")),
    (later("draft model"), later("a smaller language model that proposes tokens")),
    (later("drafter"), later("anything that proposes tokens")),
    (later("proposal"), later("a tree of drafted tokens; a chain is a tree with one branch")),
    (later("fork"), later("one branch of a proposal from its root to its end: 1 + M tokens")),
    (later("round"), later("draft, judge, commit, once")),
    (later("anchor"), later("the last committed token, fed first in the next target call")),
    (later("scheduled"), later("drafted tokens that are sent to be judged")),
    (later("cut"), later("drafted tokens the scheduler leaves out")),
    (later("accepted"), later("drafted tokens kept in a round, the target's own not counted")),
    (later("bonus token"), later("the token the target adds after a prefix that was kept whole")),
    (later("correction"), later("the target's token in place of a refused draft")),
    (later("fallback token"), later("the one most probable token, taken when no fork reaches τ")),
    (later("accepted length"), later("tokens committed per round, the target's own included")),
    (later("prefix survival"), later("the chance that a draft and all before it are accepted")),
    (later("confidence"), later("the drafter's estimate that a draft is accepted")),
    (later("threshold τ"), later("the score a fork needs for a score judge to keep it whole")),
    (later("commit"), later("keep one branch in the cache and in the text")),
    (later("rollback"), later("forget the other branches")),
    (later("exact rules"), later("the output is the target's own: same tokens, or same odds")),
    (later("article rules"), later("the rules of the two articles, kept as they were printed")),
    (later("speedup"), later("tokens per second over those of the greedy lane of the same race")),
    (later("perplexity"), later("how surprised the target is by a text; lower is closer to it")),
    (later("calibration"), later("making confidences come true as often as they say")),
    (later("trace"), later("the recorded events of one run")),
)

SOURCES = (
    ("Leviathan, Kalman, Matias", "Fast Inference from Transformers via Speculative Decoding",
     "https://arxiv.org/abs/2211.17192",
     later("draft and verify, the exact rule, expected tokens a round")),
    ("Chen et al.", "Accelerating Large Language Model Decoding with Speculative Sampling",
     "https://arxiv.org/abs/2302.01318", later("the same rule, found independently")),
    ("Miao et al.", "SpecInfer", "https://arxiv.org/abs/2305.09781",
     later("trees of drafts in one call, siblings judged one after another")),
    ("Cai et al.", "Medusa", "https://arxiv.org/abs/2401.10774",
     later("several heads on the target draft a tree")),
    ("Li et al.", "EAGLE", "https://arxiv.org/abs/2401.15077",
     later("drafting from the target's own hidden states")),
    ("Elhoushi et al.", "LayerSkip", "https://arxiv.org/abs/2404.16710",
     later("early exit: the first layers draft, the whole model checks")),
    ("Saxena", "Prompt lookup decoding", "https://github.com/apoorvumang/prompt-lookup-decoding",
     later("drafts copied from the text so far")),
    ("Luo et al.", "Token Recycling", "https://arxiv.org/abs/2408.08696",
     later("drafts from what the target thought likely before")),
    ("DeepSeek-AI", "DSpark", "https://arxiv.org/abs/2607.05147",
     later("blocks drafted in one pass, confidences, scheduling by hardware cost")),
    ("Guo et al.", "On Calibration of Modern Neural Networks", "https://arxiv.org/abs/1706.04599",
     later("temperature scaling")),
)  # fmt: skip
"""Authors, title, address, and what is taken from it."""


def table(name: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose cells are HTML already; the first cell of a row is its heading."""
    top = "".join(f'<th scope="col">{escape(text)}</th>' for text in head)
    lines = "".join(
        f'<tr><th scope="row">{first}</th>'
        + "".join(
            f'<td data-name="{escape(title)}">{cell}</td>'
            for title, cell in zip(head[1:], rest, strict=True)
        )
        + "</tr>"
        for first, *rest in rows
    )
    caption = f'<caption class="sr-only">{escape(name)}</caption>'
    return (
        f'<table class="learn-table">{caption}<thead><tr>{top}</tr></thead>'
        f"<tbody>{lines}</tbody></table>"
    )


def trouble_table(names: dict[str, str]) -> str:
    """names: what each setting is called on the page."""
    head = [say("You see"), say("Likely cause"), say("Look at"), say("What to turn")]
    rows = [
        (*(escape(say(text)) for text in (t.symptom, t.cause, t.look)), _turn(t, names))
        for t in TROUBLES
    ]
    return table(say("Troubleshooting"), head, rows)


def _turn(trouble: Trouble, names: dict[str, str]) -> str:
    buttons = "".join(
        f'<button type="button" data-knob="{escape(knob)}">{escape(names[knob])}</button>'
        for knob in trouble.knobs
    )
    return f'{escape(say(trouble.turn))}<span class="learn-knobs">{buttons}</span>'


def glossary_table() -> str:
    """Every term in the language of the page, then in the others, and what it means."""
    others = [code for code in LANGUAGES if code != current()]
    head = [say("Term"), *(LANGUAGES[code] for code in others), say("Meaning")]
    rows = []
    for term, meaning in TERMS:
        foreign = []
        for code in others:
            with speaking(code):
                foreign.append(f'<span lang="{code}">{escape(say(term))}</span>')
        rows.append((escape(say(term)), *foreign, escape(say(meaning))))
    return table(say("Glossary"), head, rows)


def sources_table() -> str:
    """Every source with its link and what this project takes from it."""
    head = [say("Source"), say("Authors"), say("What is used here")]
    rows = [
        (
            f'<a href="{escape(address)}" target="_blank" rel="noopener">{escape(title)}</a>'
            f'<span class="learn-address">{escape(address.removeprefix("https://"))}</span>',
            escape(authors),
            escape(say(used)),
        )
        for authors, title, address, used in SOURCES
    ]
    return table(say("Sources"), head, rows)
