"""The command line: decode one prompt, record races, write them as a static site, and more.

Wrong values end with one sentence on standard error and exit code 2.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spork_demo.cli_options import ROOT, UsageError, build_parser
from spork_demo.metrics import measure
from spork_demo.settings import CHOICES, KNOBS, Settings, SettingsError, checked_number
from spork_demo.trace import Race, Trace


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    try:
        options = build_parser(__doc__, COMMANDS).parse_args(arguments)
        return options.command(options) or 0
    except (UsageError, SettingsError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("Stopped.\n")
        return 130


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


def _export(options: argparse.Namespace) -> None:
    from spork_demo.export import ExportError, export_site  # noqa: PLC0415 - it loads the page

    try:
        races, size = export_site(Path(options.traces), Path(options.folder))
    except ExportError as error:
        raise UsageError(str(error)) from error
    page = Path(options.folder) / "index.html"
    sys.stdout.write(f"{page}: {races} races, {size / 1e6:.1f} MB in all\n")


def _bench(options: argparse.Namespace) -> None:
    from spork_demo.bench.command import run  # noqa: PLC0415

    budget = checked_number(
        KNOBS["max_new_tokens"], _number("max_new_tokens", options.max_new_tokens)
    )
    prompts = _read_prompts(Path(options.prompts)) if options.prompts else ()

    def load(device: str, **choices: str):
        options.device = device
        return _engine(options, **choices)

    run(
        load,
        options.device,
        prompts,
        budget,
        quick=options.quick,
        file=Path(options.json) if options.json else None,
    )


def _sweep(options: argparse.Namespace) -> None:
    from spork_demo.sweep_command import parse_axes, run_sweep, table, write  # noqa: PLC0415

    base, axes = _settings(vars(options)), parse_axes(options.vary)
    prompts = (
        _read_prompts(Path(options.prompts)) if options.prompts else tuple(options.prompt or ())
    )
    if not prompts:
        raise UsageError("A sweep needs --prompt or --prompts.")
    engine = _engine(options)
    try:
        grid = run_sweep(engine, base, axes, prompts, lambda line: sys.stderr.write(f"{line}\n"))
    except ValueError as error:
        raise UsageError(str(error)) from error
    if options.out:
        write(grid, Path(options.out), dataclasses.asdict(engine.provenance()))
    sys.stdout.write(table(grid) + "\n")


def _crowd(options: argparse.Namespace) -> int:
    from spork_demo.crowd.command import run_crowd  # noqa: PLC0415

    visitors = _above_zero("visitors", options.visitors)
    minutes = _above_zero("minutes", options.minutes)
    return _visiting(run_crowd, options, int(visitors), minutes)


def _soak(options: argparse.Namespace) -> int:
    from spork_demo.crowd.command import run_soak  # noqa: PLC0415

    return _visiting(run_soak, options, int(_above_zero("races", options.races)))


def _visiting(run: Callable[..., int], options: argparse.Namespace, *counts: float) -> int:
    from spork_demo.crowd.server import NoServerError  # noqa: PLC0415

    try:
        return run(options.url, *counts, Path(options.json) if options.json else None)
    except NoServerError as error:
        raise UsageError(str(error)) from error


def _above_zero(name: str, text: str) -> int | float:
    value = _number(name, text)
    if not 0 < value < float("inf"):
        raise UsageError(f"{name} must be a number above 0.")
    return value


def _deploy(options: argparse.Namespace) -> int:
    from spork_demo.deploy.command import run  # noqa: PLC0415
    from spork_demo.deploy.upload import UploadError  # noqa: PLC0415

    if bool(options.space_id) == options.check:
        raise UsageError("deploy takes either --check or the id of a Space.")
    try:
        return run(
            ROOT, options.space_id, options.profile, lambda line: sys.stdout.write(f"{line}\n")
        )
    except UploadError as error:
        raise UsageError(str(error)) from error


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


COMMANDS = {
    "decode": _decode,
    "record": _record,
    "export": _export,
    "train": _train,
    "bench": _bench,
    "sweep": _sweep,
    "deploy": _deploy,
    "crowd": _crowd,
    "soak": _soak,
}
