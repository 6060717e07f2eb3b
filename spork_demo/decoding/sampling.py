"""From logits to the distribution a token is drawn from. Temperature 0 is its one-point case."""

import torch
from torch import Tensor

from spork_demo.models.top import best_tokens
from spork_demo.settings import Settings

TINY_MASS = 1e-8
"""A residual lighter than this is rounding noise: p and q were equal."""


def distribution(logits: Tensor, settings: Settings) -> Tensor:
    """Probabilities [rows, vocabulary] float32 after temperature, top-k and top-p, in that order.

    The order is that of Hugging Face's generate, so that every lane has the same support.
    """
    logits = logits.float()
    if settings.greedy:
        best = logits.argmax(dim=-1, keepdim=True)
        return torch.zeros_like(logits).scatter_(-1, best, 1.0)
    logits = logits / settings.temperature
    if 0 < settings.top_k < logits.shape[-1]:
        smallest = logits.topk(settings.top_k, dim=-1).values[..., -1:]
        logits = logits.masked_fill(logits < smallest, -torch.inf)
    if settings.top_p < 1.0:
        logits = _keep_nucleus(logits, settings.top_p)
    return logits.softmax(dim=-1)


def _keep_nucleus(logits: Tensor, top_p: float) -> Tensor:
    """Mask everything outside the smallest set whose probability reaches `top_p`."""
    ordered, order = logits.sort(dim=-1, descending=True)
    before = ordered.softmax(dim=-1).cumsum(dim=-1) - ordered.softmax(dim=-1)
    outside = before >= top_p
    outside[..., 0] = False
    return logits.masked_fill(outside.scatter(-1, order, outside), -torch.inf)


def draw(p: Tensor, generator: torch.Generator) -> int:
    """One token from a distribution [vocabulary]; a one-point one needs no random number.

    One uniform number is looked up in the cumulative sum. `torch.multinomial` takes a random
    number for every token of the vocabulary instead, which costs more than a drafter's layer.
    """
    best = int(p.argmax())
    if p[best] >= 1.0:
        return best
    summed = p.double().cumsum(dim=-1)
    point = summed[-1] * torch.rand((), generator=generator, device=p.device, dtype=torch.float64)
    place = int(torch.searchsorted(summed, point, right=True))
    return place if place < len(p) else best  # rounding may take the point up to the sum itself


def next_token(logits: Tensor, settings: Settings, generator: torch.Generator) -> int:
    """What the target says itself after one row of logits [vocabulary]."""
    if settings.greedy:
        return best_tokens(logits[None])[0]
    return draw(distribution(logits[None], settings)[0], generator)


def uniform(p: Tensor, generator: torch.Generator) -> float:
    """One number in [0, 1) from the run's generator, on the device of `p`."""
    return float(torch.rand((), generator=generator, device=p.device))


def residual(p: Tensor, q: Tensor) -> Tensor:
    """The normalised max(0, p - q), or `p` itself when nothing but rounding is left."""
    rest = (p - q).clamp_min(0.0)
    mass = rest.sum()
    return rest / mass if mass > TINY_MASS else p


def without(p: Tensor, token: int) -> Tensor:
    """The residual of `p` against a point mass on `token`, without building the point mass."""
    rest = p.clone()
    rest[token] = 0.0
    mass = rest.sum()
    return rest / mass if mass > TINY_MASS else p
