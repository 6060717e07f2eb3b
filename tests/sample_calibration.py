"""A handmade calibration, and a host's way to it: for tests only, no model anywhere."""

import time
from collections.abc import Iterator
from random import Random

from spork_demo.calibration import (
    Calibration,
    CalibrationPlan,
    CalibrationProgress,
    Fork,
    HeadFit,
)
from spork_demo.reliability import predictions
from spork_demo.settings import Settings
from tests.dspark_rounds import dspark_lane

JUDGES = ("early_layers", "draft_model", "first_token")
PLACES = 40
"""Positions of each prompt; four forks at each, of which the first agrees."""


def sample_calibration(settings: Settings, prompts: int, *, blocks: bool = False) -> Calibration:
    """What so many prompts gave: scores of agreeing forks lie higher, by judge more or less."""
    random = Random(5)
    forks = []
    for place in range(prompts * PLACES):
        for number in range(4):
            agrees = number == 0
            scores = tuple(
                min(1.0, max(0.0, random.gauss(0.45 + (lift if agrees else 0.0), 0.16)))
                for lift in (0.08, 0.18, 0.38)
            )
            forks.append(Fork(place // PLACES, place, agrees, scores))
    head = None
    if prompts > 1:
        head = HeadFit(0.61, (0.41, 0.46, 0.49, 0.5, 0.52, 0.57), 0.63, 320, 320)
    lane = dspark_lane(Settings("dspark", draft_length=6), tokens=60)
    drafts = tuple(found for round_ in lane.rounds if (found := predictions([round_])))
    return Calibration(
        pair="SmolLM2-135M-Instruct",
        settings=settings,
        judges=JUDGES,
        forks=tuple(forks),
        places=prompts * PLACES,
        head=head,
        drafts=drafts * prompts if blocks else (),
        prompts=prompts,
    )


def sample_progress(
    plan: CalibrationPlan, gap: float, *, blocks: bool = False
) -> Iterator[CalibrationProgress]:
    """Four rounds a prompt, the results with the last of each."""
    for number in range(plan.prompts * 4):
        time.sleep(gap)
        done = (number + 1) // 4
        whole = (number + 1) % 4 == 0
        yield CalibrationProgress(
            prompts_done=done,
            prompts=plan.prompts,
            share=(number + 1) / (plan.prompts * 4),
            seconds=4.0 + number,
            found=sample_calibration(plan.settings, done, blocks=blocks) if whole else None,
        )
