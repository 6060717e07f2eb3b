"""The two networks of a target, from lessons to checkpoints: the student and the DSpark drafter."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from transformers import PreTrainedModel

from spork_demo.models.dspark_checkpoint import DRAFT_IDS, head_rows
from spork_demo.models.dspark_config import DSparkConfig
from spork_demo.models.dspark_network import DSparkNetwork
from spork_demo.models.layers import decoder_layers
from spork_demo.models.pair import Pair
from spork_demo.models.student import build_student
from spork_demo.train import dspark, student
from spork_demo.train.artefacts import save_checkpoint
from spork_demo.train.batches import batches, draft_vocabulary
from spork_demo.train.data import Lesson, tapped_layers
from spork_demo.train.loop import Course, train, trained_state

DRAFT_ROWS = 8192
"""Tokens a drafter may speak: nearly all of what the target writes, at a sixth of the head."""
STUDENT_LAYERS = 2
DSPARK_LAYERS = 2
BLOCK, RANK = 5, 64
ANCHORS = 24
BATCH = 16

Told = Callable[[str], None]


def train_student(
    pair: Pair, lessons: Sequence[Lesson], course: Course, work: Path, out: Path, told: Told
) -> None:
    """Train and write a student of `pair`'s target; goes on from a checkpoint in `work`."""
    ids = draft_vocabulary((each.answer for each in lessons), DRAFT_ROWS, sorted(pair.stop_ids))
    network = build_student(pair.target, STUDENT_LAYERS, ids)
    last = len(decoder_layers(pair.target)) - 1
    student.copy_layers(network, pair.target, [0, last])
    _run(
        network.train(),
        batches(lessons, BATCH, course.seed, features=False),
        student.StudentLoss(network, course.steps),
        course,
        work / "student.pt",
        told,
    )
    config = {
        "student": True,
        "model_type": network.config.model_type,
        "hidden_size": network.config.hidden_size,
        "num_hidden_layers": STUDENT_LAYERS,
        "vocab_size": network.config.vocab_size,
        "draft_vocab_size": DRAFT_ROWS,
        "training": _told_training(lessons, course),
    }
    save_checkpoint(out, config, {DRAFT_IDS: ids} | trained_state(network))


def train_dspark(
    pair: Pair, lessons: Sequence[Lesson], course: Course, work: Path, out: Path, told: Told
) -> None:
    """Train and write a DSpark drafter of `pair`'s target, likewise."""
    ids = draft_vocabulary((each.answer for each in lessons), DRAFT_ROWS, sorted(pair.stop_ids))
    network = build_dspark(pair.target, ids)
    last = len(decoder_layers(pair.target)) - 1
    dspark.copy_layers(network, pair.target, (last - 2, last))
    dspark.start_markov(network, lessons, course.seed)
    _run(
        network.train(),
        batches(lessons, BATCH, course.seed, features=True),
        dspark.DSparkLoss(network, ANCHORS, course.steps, course.seed),
        course,
        work / "dspark.pt",
        told,
    )
    config = _release_config(network)
    config["training"] = _told_training(lessons, course)
    save_checkpoint(out, config, {DRAFT_IDS: ids} | trained_state(network))


def build_dspark(target: PreTrainedModel, ids: Tensor) -> DSparkNetwork:
    """An untrained drafter of `target` that speaks `ids`, the target's tables in place."""
    config = target.config
    layers = len(decoder_layers(target))
    network = DSparkNetwork(
        DSparkConfig(
            vocab_rows=config.vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            layers=DSPARK_LAYERS,
            heads=config.num_attention_heads,
            kv_heads=config.num_key_value_heads,
            head_size=config.head_dim or config.hidden_size // config.num_attention_heads,
            norm_eps=config.rms_norm_eps,
            rope_theta=config.rope_parameters["rope_theta"],
            max_positions=config.max_position_embeddings,
            block_size=BLOCK,
            mask_token=config.pad_token_id or 0,
            feature_layers=tapped_layers(layers),
            target_layers=layers,
            qk_norm=False,
            markov_rank=RANK,
            confidence=True,
            confidence_with_markov=True,
            draft_rows=len(ids),
        )
    )
    embedding = target.get_input_embeddings().weight.detach()
    network.embed_tokens.weight = nn.Parameter(embedding, requires_grad=False)
    network.lm_head.weight = nn.Parameter(head_rows(target, ids), requires_grad=False)
    network.draft_ids.copy_(ids)
    return network


def _run(network: nn.Module, stream, loss, course: Course, checkpoint: Path, told: Told) -> None:
    count = sum(each.numel() for each in network.parameters() if each.requires_grad)
    told(f"{count:,} parameters, {course.steps} steps\n")
    train(network, stream, loss, course, checkpoint, told)


def _told_training(lessons: Sequence[Lesson], course: Course) -> dict[str, Any]:
    return {
        "answers": len(lessons),
        "answer_tokens": sum(len(lesson.answer.ids) for lesson in lessons),
        "steps": course.steps,
        "batch": BATCH,
        "rate": course.rate,
        "seed": course.seed,
    }


def _release_config(network: DSparkNetwork) -> dict[str, Any]:
    """config.json as the releases have it, with the keys of a draft vocabulary."""
    config = network.config
    return {
        "architectures": ["LlamaDSparkModel"],
        "model_type": "llama",
        "vocab_size": config.vocab_rows,
        "draft_vocab_size": config.draft_rows,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": config.head_size,
        "rms_norm_eps": config.norm_eps,
        "rope_parameters": {"rope_theta": config.rope_theta, "rope_type": "default"},
        "max_position_embeddings": config.max_positions,
        "block_size": config.block_size,
        "mask_token_id": config.mask_token,
        "target_layer_ids": list(config.feature_layers),
        "num_target_layers": config.target_layers,
        "markov_rank": config.markov_rank,
        "markov_head_type": config.markov_type,
        "enable_confidence_head": config.confidence,
        "confidence_head_with_markov": config.confidence_with_markov,
        "hidden_act": "silu",
        "attention_bias": False,
    }
