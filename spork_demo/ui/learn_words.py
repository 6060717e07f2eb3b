"""What the lesson says, step by step: one idea each, short enough to be read out."""

from dataclasses import dataclass

from spork_demo.language import later


@dataclass(frozen=True, slots=True)
class Step:
    """A page of the lesson. `key` names it in a link; texts are marked for `say`."""

    key: str
    title: str
    paragraphs: tuple[str, ...]


STEPS = (
    Step(
        "slow",
        later("Why decoding is slow"),
        (
            later(
                "To write one token a model reads all of its weights once. The arithmetic for one "
                "row is small; fetching the weights is what takes the time."
            ),
            later(
                "Once they are there, further rows cost little more. So one call that looks at "
                "several tokens is far cheaper than as many calls that look at one each."
            ),
            later("If somebody guessed the next tokens, one call could check them all."),
        ),
    ),
    Step(
        "verify",
        later("Draft and verify"),
        (
            later(
                "Something cheap writes a few tokens ahead: the draft. The target then looks at "
                "all of them in one call and so learns what it would have written after each."
            ),
            later(
                "Drafts are kept up to the first one the target would not have written. There it "
                "puts its own token. A round thus brings at least one token, and the text is the "
                "target's own."
            ),
        ),
    ),
    Step(
        "forks",
        later("Forks"),
        (
            later(
                "A single guess is lost when its first token is wrong. A tree holds several "
                "guesses at once: siblings are different tokens for the same place."
            ),
            later(
                "Forks that begin alike share their beginning, which is fed once. All of them go "
                "through the target in one call, in which a token sees only those above it."
            ),
        ),
    ),
    Step(
        "confidence",
        later("Confidence"),
        (
            later(
                "A drafter can also say how sure it is. DSpark gives each draft a confidence c: "
                "its chance to be accepted if all drafts before it are."
            ),
            later(
                "Draft j survives only if drafts 1 to j are all accepted, so its chance is the "
                "product c₁ · c₂ ⋯ cⱼ, which can only fall."
            ),
            later(
                "Sending a draft takes time and brings as many tokens as its chance says. The "
                "scheduler sends drafts while the expected tokens per second rise, and cuts the "
                "rest."
            ),
        ),
    ),
    Step(
        "pays",
        later("When it pays"),
        (
            later(
                "Let every draft be accepted with probability a if those before it were. A round "
                "of γ drafts then brings 1 + a + a² + … + a^γ tokens on average."
            ),
            later(
                "It costs the drafting and one target call on γ + 1 rows. It pays if plain "
                "decoding would need longer for as many tokens."
            ),
            later("Move the sliders: a poor drafter wants short drafts, a good one long drafts."),
        ),
    ),
    Step(
        "article",
        later("Why article SPORK cannot win"),
        (
            later(
                "In the article the target proposes its own forks. It can propose a token only "
                "after it has seen the one before, so every level of the forks is a target call."
            ),
            later(
                "Forks of 1 + M tokens cost 1 + M calls before anybody judges them, and bring "
                "1 + M tokens at best. Plain decoding writes as many tokens with as many calls, "
                "and the best fork is the very text it writes."
            ),
            later("Forks pay only where they are cheaper than the target."),
        ),
    ),
    Step(
        "bias",
        later("What a biased rule does"),
        (
            later(
                "Above temperature 0 tokens are drawn at random: p is the target's distribution, q "
                "the drafter's. Speeding up must not change the odds."
            ),
            later(
                "Exact rule: keep a draft x with probability min(1, p(x)/q(x)), else draw from "
                "what p has more than q. Together that is p again."
            ),
            later(
                "Article rule: keep x with probability p(x), else draw from p. It keeps fewer "
                "drafts, and what comes out leans towards the drafter."
            ),
        ),
    ),
    Step(
        "hindsight",
        later("Deciding in hindsight"),
        (
            later(
                "How many drafts are sent may depend on all that was known before a draft was "
                "drawn, and on nothing that depends on the draft."
            ),
            later(
                "The confidence of draft 2 tells which token draft 1 is. A search over all lengths "
                "looks at it, sends the blocks it likes and drops the others: the odds shift, "
                "although every draft that is sent is judged by the exact rule."
            ),
            later(
                "DSpark's scheduler decides about draft 1 before it looks further, and stops at "
                "the first draft that does not pay."
            ),
        ),
    ),
    Step(
        "trouble",
        later("Troubleshooting"),
        (later("What you see, why, where to look, and what to turn: a press opens the setting."),),
    ),
    Step(
        "glossary",
        later("Glossary"),
        (later("One word for each idea, the same on every page."),),
    ),
    Step(
        "sources",
        later("Sources"),
        (
            later("Where the methods were first described; the exact rules here follow them."),
            later(
                "The article rules are those of the two articles this project grew from, SPORK's "
                "and DSpark's, kept as they were printed so that their cost can be shown."
            ),
        ),
    ),
)

LESSON_STEPS = 8
"""Steps before the reference pages."""

SEE_ROUND = later("See this round in the race")
SEE_RACE = later("See this race")
TOY_TOKENS = (later("blue"), later("clear"), later("grey"), later("green"))
"""What may follow "The sky is", in the lesson's small vocabulary."""

PRESETS = {
    "near": (later("a draft close to the target"), (0.5, 0.3, 0.15, 0.05), (0.4, 0.4, 0.1, 0.1)),
    "sure": (later("a draft too sure of itself"), (0.5, 0.3, 0.15, 0.05), (0.05, 0.85, 0.05, 0.05)),
    "unsure": (later("an undecided target"), (0.28, 0.26, 0.24, 0.22), (0.7, 0.1, 0.1, 0.1)),
    "cold": (later("temperature 0: one token has it all"), (1, 0, 0, 0), (0.4, 0.3, 0.2, 0.1)),
}
"""Name, the target's p and the drafter's q over the small vocabulary."""

DRAFTER_CHOICES = {
    "block": later("a DSpark block: one pass for all"),
    "chain": later("a draft model: token by token"),
    "free": later("free drafts: the most any drafter can bring"),
}
