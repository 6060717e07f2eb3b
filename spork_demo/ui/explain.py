"""One round told in plain sentences, from the numbers its trace recorded and nothing else."""

from collections import Counter
from collections.abc import Sequence

from spork_demo.charts.figure import counted, milliseconds, number, phrase, probability, shortened
from spork_demo.charts.judged import fork_text
from spork_demo.charts.palette import source_name
from spork_demo.charts.rounds import greedy_seconds
from spork_demo.charts.tree_words import added, sources
from spork_demo.metrics import kept_path
from spork_demo.settings import Settings
from spork_demo.trace import Change, Node, Round, Token, Trace

QUOTE_CELLS = 44
NO_ROUND = "There is no such round in this lane."
PROPOSERS = {
    "target": "The target itself",
    "early_exit": "The target's first {layers} layers",
    "draft_model": "The draft model",
    "ngram": "The n-gram drafter",
    "recycle": "Token recycling",
    "dspark": "The DSpark drafter",
    "merged": "All drafters together",
    "table": "The table of text the target wrote earlier",
    "context": "The counts over this text",
    "recycled": "Token recycling",
}
CAUSES = {
    "misses": "Too many of the last rounds kept no draft",
    "streak": "The last rounds kept a fork whole",
    "memory": "Memory did not suffice, and the round was done again with less",
}
SCORERS = {
    "early_layers": "The target's first {layers} layers",
    "draft_model": "The draft model",
    "first_token": "The drafter's probability of the first token",
}


def verdict(trace: Trace, round_index: int, baseline: Trace | None = None) -> str:
    """What was proposed, how it was judged, what was kept and why, and what it cost."""
    if not 0 <= round_index < len(trace.rounds):
        return NO_ROUND
    round_ = trace.rounds[round_index]
    if not round_.nodes:
        sentences = [_nothing_drafted(trace, round_)]
    else:
        sentences = [_proposed(trace.settings, round_), _judged(trace, round_)]
    if round_.change:
        sentences.append(change_sentence(trace.settings, round_.change))
    return " ".join([*sentences, cost_sentence(trace, round_index, baseline)])


def cost_sentence(trace: Trace, round_index: int, baseline: Trace | None = None) -> str:
    """The round's seconds against the greedy lane's for as many tokens."""
    if not 0 <= round_index < len(trace.rounds):
        return NO_ROUND
    round_ = trace.rounds[round_index]
    count = len(round_.committed)
    text = (
        f"It committed {counted(count, 'token')} in {milliseconds(round_.seconds)} "
        f"with {counted(round_.target_calls, 'target call')}"
    )
    price = greedy_seconds(baseline)
    if not price or baseline is trace:
        return text + "."
    for_as_many = price * count
    if not round_.seconds or not for_as_many:
        return text + "."
    gain = for_as_many / round_.seconds
    told = f"{gain:.2f}× as fast" if gain >= 1 else f"slower, {gain:.2f}× its speed"
    return f"{text}; the greedy lane pays {milliseconds(for_as_many)} for as many: {told}."


def change_sentence(settings: Settings, change: Change) -> str:
    """Why rounds draft less, or more, from this one on."""
    what = f"at most {counted(change.depth, 'token')}" if change.depth else "nothing"
    if settings.method == "spork" and change.depth:
        what = f"at most {counted(change.width, 'fork')} of {counted(change.depth, 'token')}"
    return f"{CAUSES[change.cause]}: from here on rounds draft {what}."


def quoted(text: str, token: int | None = None) -> str:
    """A token's text between «», whitespace visible; its number where it has no text."""
    if not text and token is not None:
        return f"«#{token}»"
    return f"«{shortened(phrase(text), QUOTE_CELLS)}»"


def named(token: Node | Token) -> str:
    """A token's text as the page quotes it."""
    return quoted(token.text, token.token)


def _joined(tokens: Sequence[Node | Token]) -> str:
    return quoted("".join(token.text or f"#{token.token}" for token in tokens))


def _by_layers(names: dict[str, str], key: str, settings: Settings, other: str) -> str:
    return names.get(key, other).format(layers=settings.verifier_layers)


def _proposer(settings: Settings, round_: Round) -> str:
    """Who drafted: the drafter of the lane, else the source of what was drafted."""
    who = settings.drafter if settings.drafter in PROPOSERS else "".join(sources(round_)[:1])
    return _by_layers(PROPOSERS, who, settings, "The drafter")


def _origins(round_: Round) -> str:
    """How many tokens came from where, once there is more than one origin."""
    counts = Counter(node.source for node in round_.nodes if node.source)
    if len(counts) < 2:
        return ""
    return ": " + ", ".join(f"{n} from {source_name(source)}" for source, n in counts.most_common())


def _nothing_drafted(trace: Trace, round_: Round) -> str:
    settings, own = trace.settings, added(round_)
    stop = "the stop token " if _is_stop(trace, round_) else ""
    gave = f" gave {stop}{named(own[-1])}{with_probability(own[-1])}" if own else " gave nothing"
    if settings.method == "greedy":
        how = "" if settings.greedy else f", drawn at temperature {settings.temperature:g}"
        return f"One target call{gave}{how}; nothing was drafted."
    return f"{_proposer(settings, round_)} had nothing to propose, so one plain target call{gave}."


def with_probability(token: Node | Token) -> str:
    """The target's probability of a token in brackets, where it was asked."""
    p = token.target_probability
    return "" if p is None else f" (p {probability(p)})"


def _proposed(settings: Settings, round_: Round) -> str:
    nodes = round_.nodes
    who = _proposer(settings, round_)
    leaves = len(nodes) - len({node.parent for node in nodes} - {-1})
    if leaves == 1:
        what = f"a chain of {counted(len(nodes), 'token')}, {_joined(nodes)}"
    else:
        what = f"{leaves} forks, {len(nodes)} tokens in all"
    text = f"{who} proposed {what}{_origins(round_)}"
    if round_.scheduled < len(nodes):
        text += (
            f"; {round_.scheduled} were sent to be judged and {len(nodes) - round_.scheduled} cut"
        )
    return text + "."


def _judged(trace: Trace, round_: Round) -> str:
    if round_.scores:
        return _scored(trace.settings, round_)
    kept = [round_.nodes[index] for index in kept_path(round_.nodes)]
    settings = trace.settings
    checked = f"The target checked {'it' if len(round_.nodes) == 1 else 'them all'}"
    if round_.target_calls == 1:
        checked += " in one pass"
    text = f"{checked}{_rule(settings)} and kept {_amount(kept, round_)}"
    return text + _ending(trace, round_, kept) + "."


def _rule(settings: Settings) -> str:
    """How the target decided, in a few words."""
    if settings.greedy:
        return " against its own most probable tokens"
    if settings.method == "dspark" and not settings.exact:
        return " (a token needs p above its threshold and a random number below p)"
    if not settings.exact:
        return " (a token stays when a random number falls below p)"
    chain = settings.method == "speculative" and settings.drafter == "draft_model"
    if chain or settings.method == "dspark":
        return " (a token stays with probability min(1, p/q))"
    return " by drawing from its own distribution"


def _amount(kept: Sequence[Node], round_: Round) -> str:
    if not kept:
        return "none"
    if len(kept) == len(round_.nodes):
        return _joined(kept) + (", every drafted token" if len(kept) > 1 else "")
    first = "the first token" if len(kept) == 1 else f"the first {len(kept)} tokens"
    return f"{first}{' of a fork' if _forked(round_) else ''}, {_joined(kept)}"


def _forked(round_: Round) -> bool:
    parents = [node.parent for node in round_.nodes]
    return len(set(parents)) < len(parents)


def _ending(trace: Trace, round_: Round, kept: Sequence[Node]) -> str:
    """What the target wrote after the kept tokens, and what it wrote it instead of."""
    own = added(round_)
    if not own:
        return _stopped(trace, round_)
    token = own[-1]
    p = token.target_probability
    told = f"{token.fate}, p {probability(p)}" if p is not None else token.fate
    wrote = f"{'the stop token ' if _is_stop(trace, round_) else ''}{named(token)} ({told})"
    refused = refused_nodes(round_)
    if not refused:
        return f"{', then' if kept else ' and'} added {wrote}"
    names = " or ".join(named(node) for node in refused[:3])
    if len(refused) > 3:
        names += f" or {len(refused) - 3} more"
    why = refusal(trace.settings, refused[0]) if len(refused) == 1 else ""
    return f"; where {names} stood{why} it wrote {wrote}"


def _is_stop(trace: Trace, round_: Round) -> bool:
    """Whether the round's last token is the one that ended the text."""
    return trace.stop_reason == "eos" and round_ is trace.rounds[-1]


def _stopped(trace: Trace, round_: Round) -> str:
    last = round_.index == len(trace.rounds) - 1
    if last and trace.stop_reason == "eos":
        return "; a stop token inside the draft ended the run, so the target added none"
    if last and trace.stop_reason in ("length", "context"):
        return "; the run reached its limit inside the draft, so the target added none"
    return "; the target added none"


def refused_nodes(round_: Round) -> list[Node]:
    """Judged tokens that hung from the end of the kept path and were not kept."""
    end = (kept_path(round_.nodes)[-1:] or (-1,))[0]
    return [node for node in round_.nodes if node.parent == end and node.fate == "rejected"]


def recorded_is_judged(settings: Settings) -> bool:
    """Whether the recorded probabilities are the judged ones: temperature 1 and no filter."""
    return settings.temperature == 1 and settings.top_p == 1 and settings.top_k == 0


def refusal(settings: Settings, node: Node) -> str:
    """Why the target refused a token, in brackets, as far as the recorded numbers tell."""
    p = node.target_probability
    if p is None or settings.greedy:
        return "" if p is None else f" (p {probability(p)})"
    if node.threshold is None or not recorded_is_judged(settings):
        return f" (p {probability(p)})"
    if p <= node.threshold:
        return f" (p {probability(p)}, not above its threshold {number(node.threshold)})"
    return (
        f" (p {probability(p)} passed its threshold {number(node.threshold)}, but the draw did not)"
    )


def _scored(settings: Settings, round_: Round) -> str:
    best = max(round_.scores, key=lambda score: score.score)
    limit = round_.accept_threshold
    who = _by_layers(SCORERS, settings.judge, settings, "The judge")
    fork = quoted(fork_text(round_, best.leaf))
    alone = len(round_.scores) == 1
    text = (
        f"{who} scored {'it' if alone else 'every fork'}; {'it' if alone else f'the best, {fork},'}"
    )
    text += f" got {number(best.score)}"
    own = added(round_)
    if own:
        return (
            f"{text}, below τ {number(limit)}, so no fork was kept and the target's top-1 token "
            f"{named(own[-1])} was taken instead (fallback)."
        )
    return f"{text}, at least τ {number(limit)}, so it was kept whole; the target had no say."
