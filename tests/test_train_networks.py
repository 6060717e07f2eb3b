"""Training: batches and losses against naive sums, masks against real inference, artefacts read
back as they were written.
"""

import contextlib
import dataclasses
import math

import numpy as np
import pytest
import torch

from spork_demo.decoding.calibration import fit_temperatures
from spork_demo.models.cached_model import CachedModel
from spork_demo.models.dspark_context import Context
from spork_demo.models.pair import ModelUnavailable, load_pair
from spork_demo.models.student import build_student, is_student
from spork_demo.spacefile import ModelRef, PairSpec
from spork_demo.train import dspark, student
from spork_demo.train.artefacts import save_checkpoint
from spork_demo.train.batches import batches, collate, draft_vocabulary, overlap, rows_of
from spork_demo.train.calibrate import Observed, fit_confidence, mixed_logits, survival_error
from spork_demo.train.data import Answer, Lesson
from spork_demo.train.drafters import train_dspark, train_student
from spork_demo.train.loop import Course, train
from tests.tiny_checkpoints import saved, tiny_llama
from tests.toys import VOCABULARY, tiny_dspark, tiny_pair
from tests.toys import tiny_llama as target_of_toys

ENTRIES = 6


def lesson(seed: int, prompt: int, answer: int, width: int = 8) -> Lesson:
    random = np.random.default_rng(seed)
    ids = random.integers(0, VOCABULARY, prompt + answer).tolist()
    likeliest = np.stack([random.permutation(VOCABULARY)[:ENTRIES] for _ in range(answer)])
    likeliest[:, 0] = ids[prompt:]
    chances = np.sort(random.dirichlet(np.ones(ENTRIES), answer))[:, ::-1] * 0.9
    features = torch.randn(prompt + answer - 1, width, generator=torch.manual_seed(seed))
    return Lesson(
        Answer(f"p{seed}", tuple(ids[:prompt]), tuple(ids[prompt:]), False),
        features.bfloat16().view(torch.uint16).numpy(),
        likeliest.astype(np.uint16),
        chances.astype(np.float16),
    )


LESSONS = [lesson(seed, 3 + seed % 4, 5 + 3 * seed) for seed in range(7)]


def test_a_batch_holds_each_lesson_where_it_belongs():
    batch = collate(LESSONS[:3], features=True)
    assert batch.tokens.shape == (3, 32)
    for n, one in enumerate(LESSONS[:3]):
        start, end = int(batch.starts[n]), int(batch.ends[n])
        assert batch.tokens[n, start:end].tolist() == list(one.answer.ids)
        # row t speaks of token t + 1
        assert batch.likeliest[n, start - 1 : end - 1, 0].tolist() == list(one.answer.ids)
        assert float(batch.chances[n].sum()) == pytest.approx(float(one.chances.sum()), rel=1e-3)
        assert batch.chances[n, end - 1 :].sum() == 0
        plain = batch.features[n, : end - 1].view(torch.uint16)
        assert torch.equal(plain, torch.from_numpy(one.features.copy()))


def test_every_epoch_holds_every_lesson_once_and_is_reproducible():
    def epoch(seed):
        stream = batches(LESSONS, 3, seed, features=False)
        return [next(stream) for _ in range(3)]

    firsts = [tuple(row[:3].tolist()) for batch in epoch(1) for row in batch.tokens]
    assert sorted(firsts) == sorted(one.answer.prompt_ids[:3] for one in LESSONS)
    again = [tuple(row[:3].tolist()) for batch in epoch(1) for row in batch.tokens]
    assert firsts == again


def test_overlap_is_the_chance_of_passing_verification():
    generator = torch.Generator().manual_seed(4)
    logits = torch.randn(4, 10, generator=generator)
    ids = torch.tensor([3, 5, 8, 9, 20, 21, 30, 31, 40, 41])
    rows = rows_of(ids, VOCABULARY)
    p = torch.zeros(4, VOCABULARY)
    others = torch.tensor([token for token in range(VOCABULARY) if token != 8])
    drawn = [others[torch.randperm(len(others), generator=generator)] for _ in range(4)]
    likeliest = torch.stack(drawn)[:, :ENTRIES]
    likeliest[:, 0] = 8  # one that can be drafted, and once only
    p.scatter_(1, likeliest, torch.rand(4, ENTRIES, generator=generator) / ENTRIES)
    q = torch.zeros(4, VOCABULARY)
    q[:, ids] = logits.softmax(-1)
    got = overlap(logits, rows[likeliest], p.gather(1, likeliest))
    assert torch.allclose(got, torch.minimum(p, q).sum(-1), atol=1e-6)


def test_a_draft_vocabulary_keeps_the_frequent_and_the_stops():
    answers = [Answer("", (), (5, 5, 5, 9, 9, 2), False)]
    assert draft_vocabulary(answers, 3, [60]).tolist() == [5, 9, 60]
    assert len(draft_vocabulary(answers, 10, [60])) == 10


def drafting(**changes):
    ids = torch.arange(0, VOCABULARY, 2)
    network = tiny_dspark(3, draft_rows=len(ids), **changes)
    network.draft_ids.copy_(ids)
    return network.float()


def test_training_sees_exactly_what_a_block_sees_when_it_drafts():
    """Masks, positions and context of a batch give the hidden states of real blocks."""
    network = drafting()
    width = len(network.config.feature_layers) * network.config.hidden_size
    some = [lesson(seed, 4, 9 + seed, width) for seed in range(3)]
    batch = collate(some, features=True)
    blocks = dspark.cut_blocks(batch, 5, 4, network.config.mask_token, torch.manual_seed(0))
    context = network.context_keys_values(
        batch.features.float(), torch.arange(batch.tokens.shape[1])
    )
    hidden = network(blocks.tokens, blocks.positions, context, blocks.mask)
    checked = 0
    for n in range(3):
        for place in range(0, blocks.tokens.shape[1], 4):
            if blocks.weights[n, place] == 0:
                continue
            anchor = int(blocks.positions[n, place])
            assert batch.starts[n] <= anchor < batch.ends[n] - 1
            alone = Context(network)
            alone.append(batch.features[n, :anchor].float())
            wanted, _ = alone.block(int(batch.tokens[n, anchor]))
            assert torch.allclose(hidden[n, place : place + 4], wanted, atol=1e-4)
            for slot in range(4):
                after = anchor + slot + 1
                weight = math.exp(-slot / 4) if after < batch.ends[n] else 0.0
                assert float(blocks.weights[n, place + slot]) == pytest.approx(weight)
                if weight:
                    assert blocks.labels[n, place + slot] == batch.tokens[n, after]
                    assert blocks.previous[n, place + slot] == batch.tokens[n, after - 1]
            checked += 1
    assert checked > 10


def test_the_losses_are_the_papers_by_naive_sums():
    network = drafting()
    width = len(network.config.feature_layers) * network.config.hidden_size
    batch = collate([lesson(seed, 4, 12, width) for seed in range(2)], features=True)
    loss = dspark.DSparkLoss(network, 4, 10, 7)
    value, figures = loss(batch, 0)
    blocks = dspark.cut_blocks(
        batch, 4, 4, network.config.mask_token, torch.Generator().manual_seed(7 * 1_000_003)
    )
    with torch.autocast("cpu", torch.bfloat16):
        context = network.context_keys_values(batch.features, torch.arange(32))
        hidden = network(blocks.tokens, blocks.positions, context, blocks.mask).float()
    total = weights = 0.0
    for n in range(2):
        for row in range(16):
            weight = float(blocks.weights[n, row])
            if not weight:
                continue
            logits, _ = network.corrected(
                hidden[n, row], network.base_logits(hidden[n, row]),
                blocks.previous[n, row], network.first_state(),
            )  # fmt: skip
            q = torch.zeros(VOCABULARY)
            q[network.draft_ids] = logits.softmax(-1)
            at = int(blocks.positions[n, row])
            p = torch.zeros(VOCABULARY)
            p[batch.likeliest[n, at]] = batch.chances[n, at]
            agreed = float(torch.minimum(p, q).sum())
            label = int(blocks.labels[n, row])
            entropy = -math.log(float(q[label])) if label % 2 == 0 else 0.0
            z = float(network.confidence_logit(hidden[n, row], blocks.previous[n, row]))
            c = 1 / (1 + math.exp(-z))
            confidence = -agreed * math.log(c) - (1 - agreed) * math.log(1 - c)
            total += weight * (entropy + confidence)  # all of the share is entropy at step 0
            weights += weight
    assert float(value) == pytest.approx(total / weights, rel=0.02)
    assert set(figures) == {"loss", *(f"accept@{k}" for k in range(1, 5))}


def test_the_markov_head_starts_as_what_follows_what():
    network = drafting(markov_rank=16)
    sure = lesson(0, 1, 40)
    tokens = np.array([2 * (n % 8) for n in range(41)])
    answer = Answer("", (int(tokens[0]),), tuple(tokens[1:].tolist()), False)
    likeliest = np.tile(np.arange(ENTRIES) * 2 + 20, (40, 1))
    likeliest[:, 0] = tokens[1:]
    chances = np.tile(np.array([0.95] + [0.01] * 5), (40, 1))
    one = dataclasses.replace(sure, answer=answer, likeliest=likeliest, chances=chances)
    dspark.start_markov(network, [one] * 4, seed=1)
    head = network.markov_head
    for token in range(0, 14, 2):
        bias = head.markov_w2.weight @ head.markov_w1.weight[token]
        assert int(network.draft_ids[bias.argmax()]) == token + 2


def test_students_learn_and_the_loss_is_cross_entropy_at_first():
    target = target_of_toys(0).float()
    ids = torch.arange(0, VOCABULARY, 2)
    network = build_student(target, 1, ids).float()
    student.copy_layers(network, target, [0])
    batch = collate(LESSONS[:4], features=False)
    loss = student.StudentLoss(network, 100)
    value, _ = loss(batch, 0)
    total = count = 0.0
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = network(input_ids=batch.tokens).logits.float()
    for n, one in enumerate(LESSONS[:4]):
        start = len(one.answer.prompt_ids)
        for j in range(len(one.answer.ids)):
            q = logits[n, start - 1 + j].log_softmax(-1)
            pairs = zip(one.likeliest[j].tolist(), one.chances[j].tolist(), strict=True)
            total -= sum(p * float(q[token]) for token, p in pairs if token % 2 == 0)
            count += 1
    assert float(value) == pytest.approx(total / count, rel=0.02)


def steps(path, count, lessons=LESSONS):
    target = target_of_toys(0).float()
    network = build_student(target, 1, torch.arange(0, VOCABULARY, 2)).float()
    student.copy_layers(network, target, [1])
    course = Course(6, 1e-2)
    stream = batches(lessons, 3, 0, features=False)

    def loss(batch, step):
        if step == count:
            raise KeyboardInterrupt
        return student.StudentLoss(network, 6)(batch, step)

    said = []
    with contextlib.suppress(KeyboardInterrupt):
        train(network, stream, loss, course, path, said.append)
    return network, said


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path, monkeypatch):
    monkeypatch.setattr("spork_demo.train.loop.EVERY", 2)
    whole, _ = steps(tmp_path / "whole.pt", 99)
    steps(tmp_path / "parts.pt", 4)
    parts, said = steps(tmp_path / "parts.pt", 99)
    assert said[0].startswith("step 6 of 6")
    for one, other in zip(whole.parameters(), parts.parameters(), strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_files_stay_small_and_a_tensor_too_large_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("spork_demo.train.artefacts.LARGEST_FILE", 1000)
    tensors = {f"t{n}": torch.randn(10, 30) for n in range(3)}
    save_checkpoint(tmp_path / "out", {"a": "é"}, tensors)
    files = sorted(path.name for path in (tmp_path / "out").glob("*.safetensors"))
    assert files == [f"model-0000{n}-of-00003.safetensors" for n in (1, 2, 3)]
    with pytest.raises(ValueError, match="too large"):
        save_checkpoint(tmp_path / "out", {}, {"t": torch.randn(40, 30)})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A tiny target on disk, and the student and drafter that `train` writes for it."""
    folder = tmp_path_factory.mktemp("trained")
    sizes = {"num_hidden_layers": 6, "max_position_embeddings": 256, "head_dim": 8}
    target = saved(folder / "target", tiny_llama(**sizes))
    pair = load_pair(PairSpec("tiny", target), device="cpu", kernels="stock")
    some = [lesson(seed, 4, 12, 3 * 16) for seed in range(5)]
    for make, name in ((train_student, "student"), (train_dspark, "dspark")):
        course = Course(3, 1e-3)
        import spork_demo.train.drafters as drafters

        rows, drafters.DRAFT_ROWS = drafters.DRAFT_ROWS, 24
        try:
            make(pair, some, course, folder / "work", folder / name, lambda line: None)
        finally:
            drafters.DRAFT_ROWS = rows
    return target, *(ModelRef("folder", str(folder / name)) for name in ("student", "dspark"))


@pytest.mark.parametrize("kernels", ["stock", "packed"])
def test_trained_drafters_are_loaded_beside_their_target_and_stay_exact(trained, kernels):
    from spork_demo.engine import Engine
    from spork_demo.settings import Settings

    target, draft, drafter = trained
    pair = load_pair(PairSpec("tiny", target, draft, drafter), device="cpu", kernels=kernels)
    engine = Engine(pair)
    prompt = [5, 6, 7, 5, 6]
    runs = []
    for settings in (
        Settings(max_new_tokens=12),
        Settings(method="speculative", drafter="draft_model", max_new_tokens=12),
        Settings(method="speculative", drafter="draft_model", temperature=0.9, max_new_tokens=12),
        Settings(method="dspark", drafter="dspark", schedule="full", max_new_tokens=12),
        Settings(method="spork", drafter="merged", max_new_tokens=12),
        Settings(method="spork", rules="article", judge="draft_model", max_new_tokens=12),
    ):
        events = list(engine.lane(engine.resolve(settings), prompt).events())
        runs.append([token.token for round_ in events[1:-1] for token in round_.committed])
    assert runs[0] == runs[1] == runs[3] == runs[4]
    assert all(len(run) == 12 for run in runs)
    spoken = set(pair.draft.lm_head.ids.tolist())
    cached = CachedModel(pair.draft, pair.vocab_size)
    logits = cached.forward(prompt).logits
    assert logits.shape == (5, pair.vocab_size)
    assert {n for n in range(pair.vocab_size) if logits[0, n] > -torch.inf} == spoken
    assert len(spoken) == 24


def test_a_student_of_another_target_is_refused(trained, tmp_path):
    _, draft, _ = trained
    assert is_student(tmp_path.joinpath(draft.id))
    other = saved(tmp_path / "wide", tiny_llama(hidden_size=32))
    with pytest.raises(ModelUnavailable, match="student of another target"):
        load_pair(PairSpec("tiny", other, draft), device="cpu")


def test_a_damaged_student_is_one_sentence(trained, tmp_path):
    import shutil

    target, draft, _ = trained
    for damage in ("weights", "config"):
        folder = tmp_path / damage
        shutil.copytree(draft.id, folder)
        if damage == "weights":
            (folder / "model.safetensors").write_bytes(b"no")
        else:
            text = (folder / "config.json").read_text()
            (folder / "config.json").write_text(text.replace('"num_hidden_layers": 2', '"x": 2'))
        with pytest.raises(ModelUnavailable, match=r"missing or damaged\.$"):
            load_pair(PairSpec("tiny", target, ModelRef("folder", str(folder))), device="cpu")


def observed(rounds: int, weights: tuple[float, float, float]) -> Observed:
    """Rounds whose acceptance follows a logistic law exactly."""
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(rounds, 3, generator=generator) * 1.5
    surest = torch.randn(rounds, 3, generator=generator) * 1.5
    chance = (weights[0] + weights[1] * logits + weights[2] * surest).sigmoid()
    accepted = (torch.rand(rounds, 3, generator=generator) < chance).float()
    return Observed(logits, surest, accepted.cumprod(dim=-1), 2.0)


def test_the_confidence_of_a_mixture_is_recovered_and_calibrated():
    wanted = (-0.5, 0.8, 0.4)
    seen = observed(20_000, wanted)
    found = fit_confidence(seen)
    assert found == pytest.approx(wanted, abs=0.08)
    logits = mixed_logits(seen, found)
    temperatures = fit_temperatures(logits, seen.survived)
    assert survival_error(logits, seen.survived, temperatures) < 0.02
    off = mixed_logits(seen, (1.0, 2.0, 1.0))
    assert survival_error(off, seen.survived, ()) > 0.1


def test_a_pair_without_a_drafter_cannot_be_calibrated(tmp_path):
    from spork_demo.engine import Engine
    from spork_demo.train.calibrate import calibrate

    class Bare(Engine):
        def __init__(self, pair):
            self.pair = pair

    with pytest.raises(ValueError, match=r"^There is no DSpark drafter.*\.$"):
        calibrate(Bare(tiny_pair()), tmp_path, ["1 2 3"], lambda line: None)
