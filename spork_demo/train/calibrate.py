"""Fit what a trained drafter says about itself, on lanes over prompts that nothing was trained on.

The confidences of whole blocks are recorded beside what the target accepted. Sequential
temperature scaling makes their products true; the mixture with the counts gets a confidence of
its own first, a logistic regression on what is known before a token is drawn.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from spork_demo.decoding.calibration import calibration_error, fit_temperatures, scaled
from spork_demo.engine import Engine
from spork_demo.models.dspark_config import MixtureConfig
from spork_demo.settings import Settings
from spork_demo.trace import Round

NEW_TOKENS = 96
WEIGHTS = (0.5, 0.65, 0.8)
"""Weights of the counts that are tried."""
STEPS, RATE = 400, 0.1
NEARLY = 1e-6

Told = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Observed:
    """Rounds of whole blocks, [rounds, slots]; NaN where a slot does not count.

    logits: of the network's confidence. surest: log-odds of the best token of what drafted.
    survived: 1 where the drafts up to the slot were all accepted. accepted_length: of the lanes.
    """

    logits: Tensor
    surest: Tensor
    survived: Tensor
    accepted_length: float


def calibrate(engine: Engine, folder: Path, listed: Sequence[str], told: Told) -> None:
    """Fit the drafter of `engine`'s pair on lanes over the prompts `listed`, and write the result
    into its config.json.

    Raises ValueError with a sentence when the pair has no drafter with a confidence head.
    """
    network = engine.pair.dspark
    if network is None or not network.config.confidence:
        raise ValueError("There is no DSpark drafter to calibrate yet; run train dspark first.")
    path = folder / "config.json"
    plain = json.loads(path.read_text(encoding="utf-8"))
    bare = dataclasses.replace(network.config, confidence_temperatures=(), mixture=None)

    network.config = bare
    alone = observe(engine, "dspark", listed)
    temperatures = fit_temperatures(alone.logits, alone.survived)
    report = {"prompts": len(listed), "alone": _figures(alone, alone.logits, temperatures)}
    told(f"alone: {report['alone']}\n")

    tried: dict[float, Observed] = {}
    for weight in WEIGHTS:
        network.config = dataclasses.replace(bare, mixture=MixtureConfig(weight))
        tried[weight] = observe(engine, "merged", listed)
        told(f"weight {weight:g}: accepted length {tried[weight].accepted_length:.3f}\n")
    weight = max(tried, key=lambda each: tried[each].accepted_length)
    best = tried[weight]
    confidence = fit_confidence(best)
    logits = mixed_logits(best, confidence)
    mixture = MixtureConfig(weight, confidence, fit_temperatures(logits, best.survived))
    report["merged"] = _figures(best, logits, mixture.temperatures)
    report["accepted_length_by_weight"] = {
        f"{each:g}": round(seen.accepted_length, 3) for each, seen in tried.items()
    }
    told(f"merged: {report['merged']}\n")
    network.config = dataclasses.replace(
        bare, confidence_temperatures=temperatures, mixture=mixture
    )
    plain |= {
        "confidence_temperatures": list(temperatures),
        "mixture": dataclasses.asdict(mixture),
        "calibration": report,
    }
    path.write_text(json.dumps(plain, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def observe(engine: Engine, drafter: str, prompts: Sequence[str]) -> Observed:
    """Decode `prompts` greedily with whole blocks and write down what became of them."""
    slots = engine.pair.dspark.config.block_size
    settings = engine.resolve(
        Settings(
            method="dspark",
            drafter=drafter,
            schedule="full",
            draft_length=slots,
            max_new_tokens=NEW_TOKENS,
        )
    )
    rounds = [round_ for prompt in prompts for round_ in _rounds(engine, settings, prompt)]
    committed = sum(len(round_.committed) for round_ in rounds)
    return Observed(
        *(torch.stack(each) for each in zip(*(_row(r, slots) for r in rounds), strict=True)),
        accepted_length=committed / len(rounds),
    )


def _rounds(engine: Engine, settings: Settings, prompt: str) -> Iterator[Round]:
    ids = engine.encode(prompt, engine.pair.context_length)
    for event in engine.lane(settings, ids).events():
        if isinstance(event, Round) and event.nodes:
            yield event


def _row(round_: Round, slots: int) -> tuple[Tensor, Tensor, Tensor]:
    """What one round says: logits, surest and survived, each [slots]."""
    rows = [torch.full((slots,), torch.nan) for _ in range(3)]
    for place, node in enumerate(round_.nodes):
        figures = node.raw_confidence, node.draft_probability, float(place < round_.accepted)
        for row, figure in zip(rows, figures, strict=True):
            row[place] = figure
    return rows[0].logit(NEARLY), rows[1].logit(NEARLY), rows[2]


def fit_confidence(seen: Observed) -> tuple[float, float, float]:
    """Logistic regression of "accepted, given that those before it were" on a constant, the
    network's logit and the log-odds of the best token.
    """
    before = torch.cat([torch.ones(len(seen.survived), 1), seen.survived[:, :-1]], dim=1)
    counted = (before == 1) & ~seen.survived.isnan()
    inputs = torch.stack(
        [torch.ones_like(seen.logits[counted]), seen.logits[counted], seen.surest[counted]], dim=-1
    )
    wanted = seen.survived[counted]
    weights = torch.tensor([0.0, 0.5, 0.5], requires_grad=True)
    optimiser = torch.optim.Adam([weights], lr=RATE)
    for _ in range(STEPS):
        optimiser.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(inputs @ weights, wanted)
        loss.backward()
        optimiser.step()
    return tuple(round(each, 4) for each in weights.tolist())


def mixed_logits(seen: Observed, confidence: tuple[float, float, float]) -> Tensor:
    """Confidence logits [rounds, slots] of the mixture."""
    constant, own, best = confidence
    return constant + own * seen.logits + best * seen.surest


def survival_error(logits: Tensor, survived: Tensor, temperatures: tuple[float, ...]) -> float:
    """Mean over slots of the calibration error of predicted survival."""
    predicted = scaled(logits, temperatures).cumprod(dim=-1)
    errors = [
        calibration_error(predicted[:, slot], survived[:, slot])
        for slot in range(survived.shape[1])
    ]
    return sum(errors) / len(errors)


def _figures(seen: Observed, logits: Tensor, temperatures: tuple[float, ...]) -> dict[str, Any]:
    return {
        "rounds": len(seen.survived),
        "accepted_length": round(seen.accepted_length, 3),
        "survival": [round(float(each), 3) for each in seen.survived.nanmean(dim=0)],
        "ece_before": round(survival_error(logits, seen.survived, ()), 4),
        "ece_after": round(survival_error(logits, seen.survived, temperatures), 4),
    }
