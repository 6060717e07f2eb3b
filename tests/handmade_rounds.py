"""Rounds of every kind, written by hand, and a race made of them: for tests only."""

from dataclasses import replace

from spork_demo.settings import Settings
from spork_demo.trace import ForkScore, Node, Race, Round, Token, Trace

HOSTILE = (
    "<img src=x onerror=alert(1)>", "${1+1}", "{{x}}", "<b>bold</b>", "&amp;", '"quoted"', "\t",
    "  ", "\n", "</script><script>alert(1)</script>", "`tick`", "\\u0041", "%{x}", "水的化学式",
    "a very long token that goes on and on", "\u202eevil", "", "$x^2$",
)  # fmt: skip


def make_round(
    index: int, nodes: tuple[Node, ...], committed: tuple[Token, ...], **fields
) -> Round:
    """A round with plausible seconds and counts; `fields` replaces any of them."""
    values = {
        "scheduled": sum(node.fate != "cut" for node in nodes),
        "accepted": sum(token.fate == "accepted" for token in committed),
        "target_calls": 1,
        "draft_calls": 0,
        "cache_rows": 40 + index,
        "seconds": 0.055,
        "draft_seconds": 0.006,
        "judge_seconds": 0.043,
        "commit_seconds": 0.002,
    }
    return Round(index=index, nodes=nodes, committed=committed, **{**values, **fields})


def chain(texts: list[str], accepted: int, **fields) -> tuple[Node, ...]:
    """Drafted tokens one after another, the first `accepted` of them kept."""
    return tuple(
        Node(
            200 + place, text, place - 1, "accepted" if place < accepted else "rejected",
            0.9 - 0.1 * place, 0.95 - 0.12 * place, source="draft_model", **fields,
        )
        for place, text in enumerate(texts)
    )  # fmt: skip


def taken(nodes: tuple[Node, ...], own: str = "", fate: str = "bonus") -> tuple[Token, ...]:
    """The committed tokens of accepted nodes, and the target's own where `own` is given."""
    tokens = tuple(
        Token(n.token, n.text, "accepted", n.target_probability, n.draft_probability, n.confidence)
        for n in nodes
        if n.fate == "accepted"
    )
    return (*tokens, Token(7, own, fate, 0.61, margin=1.4)) if own else tokens


def tree_round(index: int = 0) -> Round:
    """Twelve nodes, three forks from the anchor, one branch of three kept, a correction."""
    rows = (
        (" fox", -1, "accepted", 0.71, 0.88), (" dog", -1, "rejected", 0.14, 0.04),
        (" cat", -1, "rejected", 0.08, 0.01), (" jumps", 0, "accepted", 0.66, 0.79),
        (" runs", 0, "rejected", 0.2, 0.12), (" barks", 1, "rejected", 0.5, 0.3),
        (" over", 3, "accepted", 0.8, 0.97), (" across", 3, "rejected", 0.1, 0.02),
        (" away", 4, "rejected", 0.4, 0.2), (" a", 6, "rejected", 0.5, 0.11),
        (" its", 6, "rejected", 0.2, 0.003), (" him", 6, "cut", 0.05, None),
    )  # fmt: skip
    nodes = tuple(
        Node(300 + i, text, parent, fate, q, p, source="ngram")
        for i, (text, parent, fate, q, p) in enumerate(rows)
    )
    return make_round(index, nodes, taken(nodes, " the", "correction"))


def mixed_round(index: int = 0) -> Round:
    """The same tree, its tokens from several drafters."""
    sources = ("table", "context", "recycled", "table", "dspark", "context") * 2
    tree = tree_round(index)
    nodes = [replace(n, source=s) for n, s in zip(tree.nodes, sources, strict=True)]
    nodes[-2] = replace(nodes[-2], source="recycled")
    return replace(tree, nodes=tuple(nodes))


def fork_nodes(kept: int | None, width: int = 3, depth: int = 4) -> tuple[Node, ...]:
    """`width` forks of `depth` tokens in the article's shape; fork `kept` was committed."""
    words = (
        " plan",
        " is",
        " simple",
        ":",
        " idea",
        " was",
        " good",
        ",",
        " way",
        " to",
        " do",
        " it",
    )
    nodes = []
    for fork in range(width):
        for level in range(depth):
            nodes.append(
                Node(
                    400 + fork * depth + level, words[(fork * depth + level) % len(words)],
                    len(nodes) - 1 if level else -1, "accepted" if fork == kept else "rejected",
                    0.6 / (fork + 1), source="target",
                )
            )  # fmt: skip
    return tuple(nodes)


def scored_round(index: int, kept: int | None, scores: tuple[float, ...]) -> Round:
    """A round a score judged, against τ 0.7."""
    nodes = fork_nodes(kept, len(scores))
    own = "" if kept is not None else " the"
    return make_round(
        index, nodes, taken(nodes, own, "fallback"), target_calls=4, seconds=0.19,
        draft_seconds=0.16, judge_seconds=0.024, commit_seconds=0.004, accept_threshold=0.7,
        scores=tuple(ForkScore(4 * fork + 3, score) for fork, score in enumerate(scores)),
    )  # fmt: skip


def threshold_round(index: int, accepted: int, drafted: int = 4) -> Round:
    """Article DSpark: every drafted token against a threshold of its own."""
    words = (" water", " is", " a", " molecule", " of")
    nodes = tuple(
        Node(
            500 + k, words[k], k - 1, "accepted" if k < accepted else "rejected", 0.9 - 0.15 * k,
            0.8 - 0.1 * k if k < accepted else 0.12, 0.9 - 0.15 * k, 0.14 + 0.06 * k, "draft_model",
        )
        for k in range(drafted)
    )  # fmt: skip
    fate = "bonus" if accepted == drafted else "correction"
    return make_round(index, nodes, taken(nodes, " made", fate), draft_calls=drafted)


def greedy_lane(tokens: int = 40) -> Trace:
    words = (" the", " quick", " brown", " fox", ",", "\n")
    rounds = tuple(
        make_round(
            i, (), (Token(10 + i, words[i % 6], "plain", 0.8, margin=2.0),), seconds=0.04,
            draft_seconds=0.0, judge_seconds=0.038, commit_seconds=0.001,
        )
        for i in range(tokens)
    )  # fmt: skip
    return Trace(Settings(), "Tell me about foxes.", "Greedy", 12, 0.2, rounds, "length")


def tree_lane() -> Trace:
    settings = Settings("spork", drafter="ngram", judge="target")
    texts = ([" quick", " brown"], 2), ([" lazy", " old", " red"], 1), ([" hen"], 0)
    rounds = [tree_round(0)]
    for index in range(1, 24):
        words, kept = texts[index % 3]
        nodes = chain(words, kept)
        fate = "bonus" if kept == len(words) else "correction"
        rounds.append(make_round(index, nodes, taken(nodes, " and", fate)))
    rounds[5] = make_round(5, (), taken((), " alone", "bonus"))
    return Trace(
        settings, "Tell me about foxes.", "SPORK, n-gram forks", 12, 0.2, tuple(rounds), "eos"
    )


def scored_lane() -> Trace:
    settings = Settings("spork", "article", drafter="target", judge="early_layers")
    rounds = tuple(
        scored_round(i, 0, (0.82, 0.5, 0.31)) if i % 3 else scored_round(i, None, (0.55, 0.41, 0.1))
        for i in range(12)
    )
    return Trace(
        settings, "Tell me about foxes.", "SPORK as in the article", 12, 0.2, rounds, "length"
    )


def threshold_lane(temperature: float = 1.0) -> Trace:
    settings = Settings("dspark", "article", drafter="draft_model", temperature=temperature)
    rounds = tuple(threshold_round(i, (4, 1, 0, 2)[i % 4]) for i in range(21))
    return Trace(
        settings, "Tell me about foxes.", "DSpark as in the article", 12, 0.2, rounds, "length"
    )


def wide_round(nodes: int = 128) -> Round:
    """As many nodes as a round may hold, most of them leaves."""
    made = [Node(600, " root", -1, "accepted", 0.9, 0.9, source="ngram")]
    for index in range(1, nodes):
        made.append(Node(600 + index, f" w{index}", (index - 1) // 3, "rejected", 0.3, 0.1))
    return make_round(0, tuple(made), taken(tuple(made), " end", "correction"))


def hostile_round() -> Round:
    """Every hostile text as a fork of its own."""
    nodes = tuple(
        Node(700 + i, text, -1, "accepted" if i == 0 else "rejected", 0.3, 0.1, source="ngram")
        for i, text in enumerate(HOSTILE)
    )
    return make_round(0, nodes, taken(nodes, "<i>own</i>&lt;", "correction"))


def hostile_lane() -> Trace:
    settings = Settings("spork", drafter="ngram", judge="target")
    rounds = (hostile_round(), replace(tree_round(1), index=1))
    return Trace(
        settings, "<img src=x onerror=alert(1)>", "<b>&amp;${1+1}</b>", 12, 0.2, rounds, "eos"
    )


def handmade_race() -> Race:
    lanes = (greedy_lane(), tree_lane(), scored_lane(), threshold_lane())
    return Race("Foxes", lanes, recorded=True)


def hostile_race() -> Race:
    wide = replace(tree_lane(), rounds=(wide_round(),), label="128 nodes")
    return Race("<script>", (greedy_lane(6), hostile_lane(), wide), recorded=True)
