"""Every method on the real embedded model in float32: the ids it is known to give."""

import hashlib
import json

import pytest
import torch
from transformers import AutoModelForCausalLM

from spork_demo.engine import Engine, empty_race, run_lanes
from spork_demo.metrics import measure
from spork_demo.models.native import kernels
from spork_demo.models.pair import load_pair
from spork_demo.settings import Settings
from spork_demo.spacefile import ModelRef, PairSpec
from spork_demo.trace import Trace, advance, fold
from tests.missing import missing

KNOWN = {
    "french": (
        "Réponds en français: quelle est la capitale de la France ?",
        64,
        11,
        "eos",
        "841f700454e3a8ba",
    ),
    "repeat": (
        "Repeat this sentence five times: The quick brown fox jumps over the lazy dog.",
        96,
        10,
        "eos",
        "3a5b4d581cbe2a4c",
    ),
    "count": (
        "Count from 1 to 30, separated by commas.",
        96,
        96,
        "length",
        "70ae1eb0b9ee7599",
    ),
    "chinese": ("用中文回答：水的化学式是什么？", 48, 48, "length", "45c8ff8d2b3cb09b"),
}
CHAINS = [
    {"method": method, "rules": rules, "draft_length": gamma}
    for method, rules in (
        ("speculative", "exact"),
        ("speculative", "article"),
        ("dspark", "article"),
    )
    for gamma in (1, 3, 8)
]
FORKS = [{"method": "spork", "fork_width": k, "fork_depth": m} for k, m in ((1, 1), (2, 3), (4, 4))]


@pytest.fixture(autouse=True)
def two_threads():
    """The real model is large enough to share."""
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(1)


def digest(ids) -> str:
    return hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()[:16]


def decode(engine: Engine, prompt: str, **values) -> Trace:
    settings = engine.resolve(Settings(**values))
    events = engine.lane(settings, engine.encode(prompt, 2000)).events()
    return fold(Trace(settings, prompt), events)


def label(values: dict) -> str:
    return "-".join(str(value) for value in values.values())


@pytest.mark.parametrize("values", [{"method": "greedy"}, *CHAINS, *FORKS], ids=label)
def test_temperature_zero_gives_the_known_ids(engine, values):
    """Short prompts for every setting; the long ones follow for one setting of each method."""
    for name in ("french", "repeat"):
        prompt, budget, count, reason, sha = KNOWN[name]
        trace = decode(engine, prompt, max_new_tokens=budget, **values)
        assert (len(trace.ids), trace.stop_reason, digest(trace.ids)) == (count, reason, sha)


@pytest.mark.parametrize(
    "values",
    [{"method": "greedy"}, CHAINS[1], CHAINS[2], CHAINS[5], CHAINS[7], FORKS[1], FORKS[2]],
    ids=label,
)
def test_long_answers_agree_and_something_was_drafted_accepted_and_rejected(engine, values):
    drafted = accepted = scheduled = 0
    for name in ("count", "chinese"):
        prompt, budget, count, reason, sha = KNOWN[name]
        trace = decode(engine, prompt, max_new_tokens=budget, **values)
        assert (len(trace.ids), trace.stop_reason, digest(trace.ids)) == (count, reason, sha)
        figures = measure(trace)
        drafted += figures.drafted
        accepted += figures.accepted
        scheduled += figures.scheduled
    if values["method"] != "greedy":
        assert drafted > 0
        assert accepted > 0
        assert scheduled > accepted


@pytest.mark.parametrize(
    "values",
    [
        {"method": "speculative", "drafter": "early_exit", "verifier_layers": 28},
        {"method": "speculative", "drafter": "target", "draft_length": 3},
        {"method": "spork", "drafter": "early_exit", "verifier_layers": 29},
        {"method": "spork", "drafter": "target", "fork_shape": "forks"},
        {"method": "dspark", "rules": "article", "drafter": "early_exit"},
    ],
    ids=label,
)
def test_the_other_drafters_agree_too(engine, values):
    prompt, _, _, _, _ = KNOWN["count"]
    wanted = decode(engine, prompt, max_new_tokens=16)
    trace = decode(engine, prompt, max_new_tokens=16, **values)
    assert trace.ids == wanted.ids
    assert measure(trace).drafted > 0


@pytest.mark.parametrize("method", ["greedy", "speculative", "spork"])
@pytest.mark.parametrize(("budget", "ids"), [(1, (19556,)), (2, (19556, 17))])
def test_tiny_budgets(engine, method, budget, ids):
    assert decode(engine, "Hello", method=method, max_new_tokens=budget).ids == ids


def test_the_cache_holds_fork_rows_only_while_they_are_judged(engine):
    trace = decode(engine, KNOWN["count"][0], method="spork", max_new_tokens=24)
    committed = trace.prompt_tokens
    for round_ in trace.rounds:
        assert round_.cache_rows == committed + len(round_.nodes)
        committed += len(round_.committed)


def test_same_seed_same_ids_and_another_seed_others(engine):
    def sampled(seed):
        trace = decode(
            engine,
            "Tell me a story.",
            method="spork",
            temperature=0.8,
            seed=seed,
            max_new_tokens=16,
        )
        return trace.ids, [token.fate for token in trace.tokens]

    assert sampled(0) == sampled(0)
    assert sampled(1)[0] != sampled(0)[0]


def test_chinese_text_streams_whole_characters(engine):
    trace = decode(engine, KNOWN["chinese"][0], method="spork", max_new_tokens=48)
    assert all("\ufffd" not in token.text for token in trace.tokens)
    assert trace.text == engine.codec.decode(trace.ids)


def test_the_article_scored_by_early_layers_commits_whole_forks_or_falls_back(engine):
    trace = decode(
        engine,
        KNOWN["count"][0],
        method="spork",
        rules="article",
        fork_shape="forks",
        fork_depth=3,
        accept_threshold=0.5,
        max_new_tokens=20,
    )
    assert len(trace.ids) == 20
    for round_ in trace.rounds[:-1]:
        best = max(score.score for score in round_.scores)
        fates = {token.fate for token in round_.committed}
        assert fates == ({"accepted"} if best >= 0.5 else {"fallback"})
        assert len(round_.committed) == (4 if best >= 0.5 else 1)


@pytest.mark.parametrize("drafter", ["target", "early_exit", "ngram"])
def test_with_nothing_accepted_article_spork_is_greedy(engine, drafter):
    prompt = KNOWN["count"][0]
    trace = decode(
        engine,
        prompt,
        method="spork",
        rules="article",
        drafter=drafter,
        fork_shape="forks",
        fork_width=2,
        fork_depth=1,
        accept_threshold=1.0,
        max_new_tokens=12,
    )
    assert trace.ids == decode(engine, prompt, max_new_tokens=12).ids
    assert {token.fate for token in trace.tokens} == {"fallback"}


def test_perplexity_is_that_of_a_plain_forward_pass(engine, embedded_folder):
    stock = AutoModelForCausalLM.from_pretrained(embedded_folder, dtype=torch.float32).eval()
    ids = engine.encode("Hello", 100)
    wanted = [19556, 17]
    with torch.inference_mode():
        logits = stock(torch.tensor([[*ids, *wanted]])).logits[0].double()
    rows = logits[len(ids) - 1 : -1].log_softmax(-1)
    loss = -sum(float(rows[n, token]) for n, token in enumerate(wanted)) / 2
    assert engine.perplexity(ids, wanted) == pytest.approx(float(torch.tensor(loss).exp()), 1e-4)
    assert engine.perplexity(ids, []) is None


def test_a_race_compares_every_lane_with_greedy(engine):
    lanes = [
        engine.resolve(Settings(max_new_tokens=12)),
        engine.resolve(Settings(method="spork", max_new_tokens=12)),
    ]
    prompt = KNOWN["count"][0]
    race = empty_race(engine, prompt, lanes, ["Greedy", "SPORK"])
    for news in run_lanes(engine, race, engine.encode(prompt, 2000)):
        race = advance(race, news)
    assert race.lanes[0].ids == race.lanes[1].ids
    assert race.lanes[1].fidelity.first_difference is None
    assert race.lanes[1].fidelity.equal_tokens == 1
    assert race.lanes[1].provenance.dtype == "float32"


def test_a_logit_does_not_move_with_the_rows_beside_it(engine):
    """On our kernels identity with greedy is promised bit for bit; the trace says so."""
    if kernels() is None:
        missing("no C++ compiler")
    assert engine.pair.kernels == "compiled"
    assert engine.noise == 0.0
    assert engine.provenance().noise == 0.0


def test_what_rounding_does_elsewhere_is_measured(embedded_folder):
    spec = PairSpec("embedded", ModelRef("folder", str(embedded_folder)))
    packed = Engine(load_pair(spec, dtype="bfloat16", kernels="packed"))
    assert 0.0 < packed.noise < 3.0


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_other_dtypes_are_exact_too_and_near_the_float32_model(embedded_folder, engine, dtype):
    spec = PairSpec("embedded", ModelRef("folder", str(embedded_folder)))
    if kernels() is None:
        missing("no C++ compiler")
    other = Engine(load_pair(spec, dtype=dtype))
    prompt = KNOWN["count"][0]
    greedy = decode(other, prompt, max_new_tokens=40)
    for settings in ({"method": "spork"}, {"method": "speculative", "drafter": "early_exit"}):
        assert decode(other, prompt, max_new_tokens=40, **settings).ids == greedy.ids
    ids = other.encode(prompt, 100)
    text = decode(engine, prompt, max_new_tokens=40).ids
    near, exact = other.perplexity(ids, text), engine.perplexity(ids, text)
    assert near == pytest.approx(exact, rel=0.1)
    assert other.pair.dtype == dtype
