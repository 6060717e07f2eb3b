"""The command line: decode one prompt, or record the races the page opens on.

Wrong values end with one sentence on standard error and exit code 2.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from spork_demo.metrics import measure
from spork_demo.settings import CHOICES, KNOBS, Settings, SettingsError, checked_number
from spork_demo.trace import Race, Trace

ROOT = Path(__file__).resolve().parent.parent


class UsageError(Exception):
    """The command cannot be carried out as given. The message is one sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.".replace("..", "."))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        options = _parser().parse_args(arguments)
        options.command(options)
    except (UsageError, SettingsError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return 130
    return 0


def _parser() -> _Parser:
    parser = _Parser(prog="python -m spork_demo", description=__doc__, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    decode = commands.add_parser("decode", help="decode one prompt", allow_abbrev=False)
    decode.set_defaults(command=_decode)
    decode.add_argument("--prompt", required=True, help="the user's turn; - reads standard input")
    decode.add_argument("--raw", action="store_true", help="skip the chat template")
    decode.add_argument("--json", action="store_true", help="print one JSON object")
    for name, choices in CHOICES.items():
        decode.add_argument(_option(name), choices=choices, default=argparse.SUPPRESS)
    for knob in KNOBS.values():
        help_text = f"{knob.meaning} ({knob.low:g} to {knob.high:g}, default {knob.default:g})"
        decode.add_argument(_option(knob.name), default=argparse.SUPPRESS, help=help_text)
    _add_model_options(decode)
    record = commands.add_parser(
        "record", help="rewrite the recorded races in assets/traces", allow_abbrev=False
    )
    record.set_defaults(command=_record)
    record.add_argument("--folder", default=str(ROOT / "assets" / "traces"))
    _add_model_options(record)
    train = commands.add_parser(
        "train", help="make the artefacts of the embedded model", allow_abbrev=False
    )
    train.set_defaults(command=_train)
    train.add_argument(
        "what",
        choices=("ask", "data", "ngram", "student", "dspark", "calibrate"),
        help="prompts the target writes; its answers; what is made of them; the fit of the "
        "drafter's confidences",
    )
    train.add_argument(
        "--prompts",
        default="",
        help="prompts to write (6000), to answer beside them (12000), or to calibrate on (48)",
    )
    train.add_argument("--steps", default="2000", help="training steps of student and dspark")
    train.add_argument("--out", default=str(ROOT / "assets"), help="where artefacts are written")
    _add_model_options(train)
    bench = commands.add_parser(
        "bench", help="time our lanes against transformers, interleaved", allow_abbrev=False
    )
    bench.set_defaults(command=_bench)
    bench.add_argument("--prompts", default="", help='a file of JSON lines with a "prompt" each')
    bench.add_argument("--max-new-tokens", default="64")
    bench.add_argument("--quick", action="store_true", help="three prompts of 24 tokens")
    bench.add_argument("--json", default="", metavar="FILE", help="write the report there")
    _add_model_options(bench)
    return parser


def _add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pair", default="", help="a model pair of the Spacefile, by name")
    parser.add_argument("--target", default="", help="a checkpoint folder or hub id instead")
    parser.add_argument("--draft", default="", help="its draft model, likewise")
    parser.add_argument("--dspark", default="", help="its DSpark drafter, likewise")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:1, ...")
    parser.add_argument(
        "--dtype", default="auto", choices=("auto", "float32", "bfloat16", "float16", "int8")
    )
    parser.add_argument(
        "--kernels",
        default="compiled",
        choices=("compiled", "packed", "stock"),
        help="on a CPU: our own kernels, torch's for few rows, or as transformers has them",
    )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _decode(options: argparse.Namespace) -> None:
    settings = _settings(vars(options))
    prompt = sys.stdin.read() if options.prompt == "-" else options.prompt
    engine = _engine(options)
    try:
        settings = engine.resolve(settings)
        ids = engine.encode(prompt, sys.maxsize, raw=options.raw)
    except ValueError as error:
        raise UsageError(str(error)) from error
    trace = Trace(settings=settings, prompt=prompt, provenance=engine.provenance())
    engine.warm_up(tuple(ids))
    for event in engine.lane(settings, ids).events():
        trace = trace.add(event)
    sys.stdout.write((json.dumps(summary(trace)) if options.json else trace.text) + "\n")


def summary(trace: Trace) -> dict[str, Any]:
    """What `decode --json` prints about a run."""
    return {
        "ids": list(trace.ids),
        "text": trace.text,
        "stop_reason": trace.stop_reason,
        "message": trace.message,
        "prompt_tokens": trace.prompt_tokens,
        "settings": trace.settings.to_plain(),
        "metrics": dataclasses.asdict(measure(trace)),
        "fates": [token.fate for token in trace.tokens],
        "provenance": dataclasses.asdict(trace.provenance),
    }


def _settings(given: dict[str, Any]) -> Settings:
    values = {name: given[name] for name in CHOICES if name in given}
    for knob in KNOBS.values():
        if knob.name in given:
            values[knob.name] = checked_number(knob, _number(knob.name, given[knob.name]))
    return Settings(**values)


def _number(name: str, text: str) -> int | float:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"{name} must be a number.") from None


def _record(options: argparse.Namespace) -> None:
    # The recorder and everything below it load torch, which `--help` should not wait for.
    from spork_demo.record import record_races  # noqa: PLC0415

    def done(race: Race, path: Path) -> None:
        sys.stdout.write(f"{path.name}: {race.title}\n")

    record_races(_engine(options), Path(options.folder), done)


def _bench(options: argparse.Namespace) -> None:
    from spork_demo.bench.page import page_overhead  # noqa: PLC0415
    from spork_demo.bench.run import PROMPTS, run_bench  # noqa: PLC0415
    from spork_demo.bench.table import table  # noqa: PLC0415
    from spork_demo.spacefile import read_spacefile  # noqa: PLC0415

    budget = checked_number(
        KNOBS["max_new_tokens"], _number("max_new_tokens", options.max_new_tokens)
    )
    prompts = _read_prompts(Path(options.prompts)) if options.prompts else PROMPTS
    if options.quick:
        prompts, budget = prompts[:3], 24
    report: dict[str, Any] = {}
    for device in _devices(options.device):
        options.device = device
        engine, stock = _engine(options), _engine(options, kernels="stock").pair
        found = run_bench(
            engine, stock, prompts, budget, lambda line: sys.stderr.write(f"{line}\n")
        )
        if not options.quick:
            found["page"] = page_overhead(engine, read_spacefile(ROOT / "Spacefile"), prompts[0])
        sys.stdout.write(table(found) + "\n")
        report = report | {"gpu": found} if report else found
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=2), encoding="utf-8")


def _devices(asked: str) -> list[str]:
    """What `auto` means to the benchmark: the CPU, and the GPU where there is one."""
    import torch  # noqa: PLC0415

    if asked != "auto":
        return [asked]
    return ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


def _train(options: argparse.Namespace) -> None:
    from spork_demo.train.command import run  # noqa: PLC0415

    usual = {"ask": "6000", "calibrate": "48"}.get(options.what, "12000")
    given = {"prompts": options.prompts or usual, "steps": options.steps}
    counts = {name: _number(name, text) for name, text in given.items()}
    for name, count in counts.items():
        if not isinstance(count, int) or count < 1:
            raise UsageError(f"{name} must be a whole number above 0.")
    batches, frozen = options.what in ("ask", "data"), options.what == "calibrate"
    needs = {"kernels": "packed" if batches else "compiled" if frozen else "stock"}
    try:
        run(
            options.what,
            lambda: _engine(options, **needs),
            Path(options.out),
            counts["prompts"],
            counts["steps"],
            sys.stderr.write,
        )
    except ValueError as error:
        raise UsageError(str(error)) from error


def _read_prompts(path: Path) -> tuple[str, ...]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        prompts = tuple(json.loads(line)["prompt"] for line in lines if line.strip())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError('--prompts needs a file of JSON lines with a "prompt" each.') from error
    if not prompts or not all(isinstance(prompt, str) for prompt in prompts):
        raise UsageError('--prompts needs a file of JSON lines with a "prompt" each.')
    return prompts


def _engine(options: argparse.Namespace, **choices: str):
    from spork_demo.engine import Engine  # noqa: PLC0415
    from spork_demo.models.pair import ModelUnavailable, load_pair  # noqa: PLC0415

    _quiet_libraries()
    spec = _pair_spec(options)
    if options.command is _train and options.what != "calibrate":
        # what it makes may not be there yet
        spec = dataclasses.replace(spec, ngram_table="", draft=None, dspark=None)
    try:
        choices = {"kernels": options.kernels} | choices
        return Engine(load_pair(spec, options.device, options.dtype, **choices))
    except ModelUnavailable as error:
        raise UsageError(str(error)) from error


def _pair_spec(options: argparse.Namespace):
    from spork_demo.spacefile import (  # noqa: PLC0415
        ModelRef,
        PairSpec,
        SpacefileError,
        read_spacefile,
    )

    def ref(name: str) -> ModelRef:
        return ModelRef("folder" if Path(name).is_dir() else "hub", name)

    if options.target:
        drafters = [ref(name) if name else None for name in (options.draft, options.dspark)]
        return PairSpec(options.target, ref(options.target), *drafters)
    if options.draft or options.dspark:
        raise UsageError("--draft and --dspark go with --target.")
    try:
        pairs = read_spacefile(ROOT / "Spacefile").pairs
    except SpacefileError as error:
        raise UsageError(str(error)) from error
    for spec in pairs:
        if options.pair in ("", spec.name):
            return spec
    raise UsageError(f"The Spacefile has no pair called {options.pair!r}.")


def _quiet_libraries() -> None:
    """Standard output belongs to the result; progress bars of libraries do not."""
    from transformers.utils import logging  # noqa: PLC0415

    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    with contextlib.suppress(AttributeError):
        logging.disable_progress_bar()
    logging.set_verbosity_error()
