"""`python -m spork_demo train WHAT`: make the artefacts of the embedded model, one after another.

ask has the target write prompts, data answers those and our own, ngram counts the answers, student
and dspark train on them, calibrate fits the drafter's confidences and its mixture with the counts
on prompts kept apart.
"""

from collections.abc import Callable
from pathlib import Path

from spork_demo.engine import Engine
from spork_demo.models.embedded import default_cache_dir
from spork_demo.train.asking import ask, kept_apart, read_asked, to_answer
from spork_demo.train.calibrate import calibrate
from spork_demo.train.data import SEED, make_answers, read_answers, read_lessons
from spork_demo.train.drafters import train_dspark, train_student
from spork_demo.train.loop import Course
from spork_demo.train.ngram import build_table
from spork_demo.train.prompts import held_out_prompts, training_prompts

NAME = "smollm2-135m"
RATES = {"student": 1e-3, "dspark": 8e-4}

Told = Callable[[str], None]


def run(
    what: str, load: Callable[[], Engine], assets: Path, prompts: int, steps: int, told: Told
) -> None:
    """Carry out one step. `load` loads the target; for calibrate with its drafters.

    Raises ValueError with a sentence when an earlier step has not been run.
    """
    work = default_cache_dir() / "train"
    asked = work / "asked.jsonl"
    if what == "ask":
        ask(load(), asked, prompts, told)
        return
    if what == "data":
        listed = [*to_answer(read_asked(asked)), *training_prompts(prompts, SEED)]
        make_answers(load(), work / "answers", listed, told=told)
        return
    if what == "calibrate":
        listed = kept_apart(read_asked(asked))[: prompts // 2]
        listed += held_out_prompts(prompts - len(listed), SEED + 1)
        calibrate(load(), assets / "dspark" / f"{NAME}-dspark", listed, told)
        return
    lessons = list(read_lessons(work / "answers"))
    if not lessons:
        raise ValueError("There are no answers to learn from yet; run train data first.")
    engine = load()
    if what == "ngram":
        path = assets / "ngram" / f"{NAME}.npz"
        vocab_size = len(engine.pair.tokenizer)
        table = build_table(read_answers(work / "answers"), lessons, vocab_size, path)
        told(f"{len(table)} contexts in {path.name}\n")
        return
    train = {"student": train_student, "dspark": train_dspark}[what]
    course = Course(steps, RATES[what])
    train(engine.pair, lessons, course, work / "work", assets / what / f"{NAME}-{what}", told)
