"""Train a student: the target's tables, a few layers, and the target's distributions to match."""

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM

from spork_demo.models.layers import decoder_layers, final_norm
from spork_demo.train.batches import Batch, overlap, rows_of

ENTROPY_AT_FIRST, ENTROPY_AT_LAST = 1.0, 0.3
"""Share of the cross-entropy in the loss, falling over the run; the rest is total variation."""


class StudentLoss:
    """Cross-entropy to the target's distribution and their total variation, over the answer.

    What of p lies outside the draft vocabulary cannot be learned and is left out of both.
    """

    def __init__(self, student: LlamaForCausalLM, steps: int) -> None:
        self._student = student
        self._steps = steps
        self._rows = rows_of(student.lm_head.ids, student.lm_head.vocab_size)

    def __call__(self, batch: Batch, step: int) -> tuple[Tensor, dict[str, float]]:
        places = torch.arange(batch.tokens.shape[1])
        kept = (places >= batch.starts[:, None] - 1) & (places < batch.ends[:, None] - 1)
        with torch.autocast("cpu", torch.bfloat16):
            hidden = self._student.model(input_ids=batch.tokens, use_cache=False).last_hidden_state
            logits = self._student.lm_head.linear(hidden[kept])
        logits = logits.float()
        rows, chances = self._rows[batch.likeliest[kept]], batch.chances[kept]
        agreed = overlap(logits, rows, chances)
        known = chances.masked_fill(rows < 0, 0.0)
        spoken = logits.gather(-1, rows.clamp_min(0)) - logits.logsumexp(dim=-1, keepdim=True)
        entropy = -(known * spoken).sum(dim=-1)
        done = step / self._steps
        share = ENTROPY_AT_FIRST + (ENTROPY_AT_LAST - ENTROPY_AT_FIRST) * done
        loss = (share * entropy + (1 - share) * 2 * (1 - agreed)).mean()
        best = (rows[:, 0] == logits.argmax(dim=-1)).float().mean()
        figures = {"loss": loss.detach(), "accept": agreed.detach().mean(), "top1": best}
        return loss, {name: float(figure) for name, figure in figures.items()}


def copy_layers(student: LlamaForCausalLM, target: nn.Module, layers: list[int]) -> None:
    """Start the student's layers and norm as the target's."""
    theirs = decoder_layers(target)
    for ours, source in zip(decoder_layers(student), layers, strict=True):
        ours.load_state_dict(theirs[source].state_dict())
    final_norm(student).load_state_dict(final_norm(target).state_dict())
