"""Tokens as sentences quote them: between quotation marks, whitespace visible."""

from collections.abc import Sequence

from spork_demo.charts.figure import phrase, probability, shortened
from spork_demo.charts.tree_words import added
from spork_demo.language import say
from spork_demo.trace import Node, Round, Token, Trace

QUOTE_CELLS = 44


def quoted(text: str, token: int | None = None) -> str:
    """A token's text between quotation marks, whitespace visible; its number without text."""
    shown = shortened(phrase(text), QUOTE_CELLS) if text or token is None else f"#{token}"
    return say("«{token}»", token=shown)


def named(token: Node | Token) -> str:
    """A token's text as the page quotes it."""
    return quoted(token.text, token.token)


def with_probability(token: Node | Token) -> str:
    """A quoted token and, in brackets, the target's probability of it where it was asked."""
    return probable(named(token), token)


def probable(name: str, token: Node | Token) -> str:
    """`name` of a token with the target's probability of it, as `with_probability`."""
    p = token.target_probability
    return name if p is None else say("{token} (p {p})", token=name, p=probability(p))


def joined(tokens: Sequence[Node | Token]) -> str:
    """Several tokens in a row as one quotation."""
    return quoted("".join(token.text or f"#{token.token}" for token in tokens))


def written(trace: Trace, round_: Round) -> str:
    """The last token the target wrote itself; the one that ended the text is called so."""
    name = named(added(round_)[-1])
    ended = trace.stop_reason == "eos" and round_ is trace.rounds[-1]
    return say("the stop token {token}", token=name) if ended else name
