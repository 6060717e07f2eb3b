"""From raw confidence logits to probabilities: sequential temperature scaling and its error.

A scheduler multiplies confidences, so they must be chances and not only an order (arXiv
2607.05147, section 3.2.1). Arrays are [rounds, slots]; NaN marks slots that do not count, those
behind an accepted stop token.
"""

import torch
from torch import Tensor

BINS = 20
NEARLY = 1e-8
GRID = tuple(0.125 * 64 ** (step / 48) for step in range(49))
"""Temperatures tried: 49 from 1/8 to 8, evenly spaced in logarithm. The paper names none."""


def calibration_error(predicted: Tensor, happened: Tensor, bins: int = BINS) -> float:
    """Expected calibration error of predictions [rounds] against 0/1 outcomes.

    Equal bins on [0, 1]; each adds its share of the rounds times the distance between its mean
    prediction and its mean outcome. NaN entries do not count; without any other the error is 0.
    """
    counted = ~(predicted.isnan() | happened.isnan())
    p, y = predicted[counted].double().clamp(NEARLY, 1 - NEARLY), happened[counted].double()
    if not len(p):
        return 0.0
    place = (p * bins).long().clamp(max=bins - 1)
    off = torch.zeros(bins, dtype=torch.float64).index_add(0, place, p - y)
    return float(off.abs().sum() / len(p))


def fit_temperatures(logits: Tensor, labels: Tensor) -> tuple[float, ...]:
    """One temperature a slot, first slot first, each making the survival up to its slot true.

    labels: 1 where the drafts up to that slot were all accepted. Collect them on whole blocks and
    in the decoding mode they will be used in; several hundred rounds, or late slots get worse.
    """
    survival = torch.ones(logits.shape[0], dtype=torch.float64)
    temperatures = []
    for slot in range(logits.shape[1]):
        z, y = logits[:, slot].double(), labels[:, slot]
        best = min(GRID, key=lambda t: calibration_error(survival * (z / t).sigmoid(), y))
        survival = survival * (z / best).sigmoid()
        temperatures.append(best)
    return tuple(temperatures)


def scaled(logits: Tensor, temperatures: tuple[float, ...]) -> Tensor:
    """Confidences [..., slots] of the first slots of a block; without temperatures, as trained."""
    if not temperatures:
        return logits.sigmoid()
    t = torch.tensor(temperatures[: logits.shape[-1]], dtype=logits.dtype, device=logits.device)
    return (logits / t).sigmoid()
