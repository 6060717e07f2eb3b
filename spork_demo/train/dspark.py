"""Train the DSpark drafter of a target on its own answers (arXiv 2607.05147, section 3).

Anchors, masks, labels and losses are the paper's. What differs, because there are hours of two
CPU cores here and not days of a cluster: the layers start as copies of the target's own, the
Markov head as a truncated SVD of what follows what, the cross-entropy leads at first, and the
drafter speaks a selection of the vocabulary.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.layers import decoder_layers, final_norm
from spork_demo.train.batches import Batch, overlap, rows_of
from spork_demo.train.data import Lesson

DECAY = 4.0
"""Slot k weighs exp(-k / DECAY)."""
ENTROPY_AT_FIRST, ENTROPY_AT_LAST = 1.0, 0.1
"""Share of the cross-entropy in the loss, falling over the run; the rest is total variation."""


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of one batch, [batch, anchors * slots] each; see `cut_blocks`."""

    tokens: Tensor
    positions: Tensor
    previous: Tensor
    labels: Tensor
    mask: Tensor
    weights: Tensor


def cut_blocks(
    batch: Batch, anchors: int, slots: int, mask_token: int, generator: torch.Generator
) -> Blocks:
    """Random anchors of each answer and the block behind each of them.

    tokens: the anchor, then masks. previous, labels: the true token before and at each slot's
    prediction. mask: [batch, 1, rows, length + rows], True where a row may look: context before
    its anchor, and its own block. weights: 0 where a slot is not supervised.
    """
    count, length = batch.tokens.shape
    places = torch.arange(length)
    may = (places >= batch.starts[:, None]) & (places < batch.ends[:, None] - 1)
    scores = torch.rand(count, length, generator=generator).masked_fill(~may, -1.0)
    chosen = scores.topk(min(anchors, length), dim=-1)
    anchor, real = chosen.indices.sort(dim=-1)
    real = chosen.values.gather(-1, real) >= 0
    slot = torch.arange(slots)
    positions = anchor[:, :, None] + slot
    after = positions + 1
    supervised = real[:, :, None] & (after < batch.ends[:, None, None])
    clipped = after.clamp(max=length - 1)
    take = batch.tokens[:, None, :].expand(-1, anchor.shape[1], -1)
    labels, before = take.gather(-1, clipped), take.gather(-1, positions.clamp(max=length - 1))
    tokens = torch.where(slot == 0, before, mask_token)
    rows = anchor.shape[1] * slots
    owner = torch.arange(anchor.shape[1]).repeat_interleave(slots)
    context = places < anchor.repeat_interleave(slots, dim=-1)[:, :, None]
    own = (owner[:, None] == owner).expand(count, rows, rows)
    return Blocks(
        tokens=tokens.flatten(1),
        positions=positions.flatten(1),
        previous=before.flatten(1),
        labels=labels.flatten(1),
        mask=torch.cat([context, own], dim=-1)[:, None],
        weights=(supervised * torch.exp(-slot / DECAY)).flatten(1),
    )


class DSparkLoss:
    """The three losses of the paper on a batch; a callable for `train.loop.train`."""

    def __init__(self, network: DSparkNetwork, anchors: int, steps: int, seed: int) -> None:
        self._network = network
        self._anchors = anchors
        self._steps = steps
        self._seed = seed
        self._rows = rows_of(network.draft_ids, network.config.vocab_rows)

    def __call__(self, batch: Batch, step: int) -> tuple[Tensor, dict[str, float]]:
        config = self._network.config
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + step)
        blocks = cut_blocks(batch, self._anchors, config.block_size, config.mask_token, generator)
        with torch.autocast("cpu", torch.bfloat16):
            context = self._network.context_keys_values(
                batch.features, torch.arange(batch.tokens.shape[1])
            )
            hidden = self._network(blocks.tokens, blocks.positions, context, blocks.mask)
        kept = blocks.weights.flatten() > 0
        hidden = hidden.flatten(0, 1)[kept].float()
        previous = blocks.previous.flatten()[kept]
        with torch.autocast("cpu", torch.bfloat16):
            base = self._network.lm_head(hidden)
            bias = self._network.markov_head.markov_w2(
                self._network.markov_head.markov_w1(previous)
            )
        return self._losses(batch, blocks, kept, (base + bias).float(), hidden, step)

    def _losses(
        self, batch: Batch, blocks: Blocks, kept: Tensor, logits: Tensor, hidden: Tensor, step: int
    ) -> tuple[Tensor, dict[str, float]]:
        count, length, entries = batch.likeliest.shape
        weights = blocks.weights.flatten()[kept]
        which = torch.arange(count)[:, None] * length + blocks.positions.clamp(max=length - 1)
        which = which.flatten()[kept]
        rows = self._rows[batch.likeliest.view(-1, entries)[which]]
        agreed = overlap(logits, rows, batch.chances.view(-1, entries)[which])
        label = self._rows[blocks.labels.flatten()[kept]]
        entropy = nn.functional.cross_entropy(
            logits, label.clamp_min(0), reduction="none"
        ).masked_fill(label < 0, 0.0)
        previous = blocks.previous.flatten()[kept]
        confidence = nn.functional.binary_cross_entropy_with_logits(
            self._network.confidence_logit(hidden, previous),
            agreed.detach().clamp(0, 1),
            reduction="none",
        )
        done = step / self._steps
        share = ENTROPY_AT_FIRST + (ENTROPY_AT_LAST - ENTROPY_AT_FIRST) * min(1.0, 1.5 * done)
        each = share * entropy + (1 - share) * 2 * (1 - agreed) + confidence
        loss = (weights * each).sum() / (weights.sum() + 1e-6)
        slot = torch.arange(blocks.weights.shape[1]).remainder(self._network.config.block_size)
        slot = slot.expand_as(blocks.weights).flatten()[kept]
        figures = {"loss": float(loss.detach())} | {
            f"accept@{k + 1}": float(agreed.detach()[slot == k].mean())
            for k in range(self._network.config.block_size)
        }
        return loss, figures


def copy_layers(network: DSparkNetwork, target: nn.Module, layers: Iterable[int]) -> None:
    """Start the drafter's layers and norm as the target's, and `fc` as its last tap."""
    theirs = decoder_layers(target)
    wanted = set(network.layers[0].state_dict())
    for ours, source in zip(network.layers, layers, strict=True):
        state = {name: each for name, each in theirs[source].state_dict().items() if name in wanted}
        ours.load_state_dict(state, strict=False)
    network.norm.load_state_dict(final_norm(target).state_dict())
    size, taps = network.config.hidden_size, len(network.config.feature_layers)
    with torch.no_grad():
        network.fc.weight.normal_(0.0, 0.002)
        network.fc.weight[:, size * (taps - 1) :] += torch.eye(size)


@torch.no_grad()
def start_markov(network: DSparkNetwork, lessons: Iterable[Lesson], seed: int) -> None:
    """Start the Markov head as the best low-rank form of log P(next | previous) / P(next), where
    that is positive, counted on the target's own distributions.
    """
    config = network.config
    rows = rows_of(network.draft_ids, config.vocab_rows)
    before, after, share = [], [], []
    for lesson in lessons:
        answer = lesson.answer
        previous = torch.tensor([answer.prompt_ids[-1], *answer.ids[:-1]])
        likeliest = rows[torch.from_numpy(lesson.likeliest.astype("int64"))]
        before.append(previous[:, None].expand_as(likeliest).flatten())
        after.append(likeliest.flatten())
        share.append(torch.from_numpy(lesson.chances.astype("float32")).flatten())
    pairs, weight = torch.stack([torch.cat(before), torch.cat(after)]), torch.cat(share)
    pairs, weight = pairs[:, pairs[1] >= 0], weight[pairs[1] >= 0]
    counts = torch.sparse_coo_tensor(pairs, weight, (config.vocab_rows, config.head_rows))
    counts = counts.coalesce()
    (one, two), joint = counts.indices(), counts.values()
    total = torch.sparse.sum(counts, dim=1).to_dense()
    prior = torch.sparse.sum(counts, dim=0).to_dense() / joint.sum()
    gain = (((joint + prior[two]) / (total[one] + 1.0)) / prior[two]).log().clamp_min(0.0)
    odds = torch.sparse_coo_tensor(counts.indices(), gain, counts.shape)
    with torch.random.fork_rng():  # svd_lowrank takes no generator of its own
        torch.random.default_generator.manual_seed(seed)
        rank = min(config.markov_rank, *odds.shape)
        left, scale, right = torch.svd_lowrank(odds, q=rank, niter=4)
    head = network.markov_head
    for table, side in ((head.markov_w1.weight, left), (head.markov_w2.weight, right)):
        table.zero_()[:, :rank] = side * scale.sqrt()
