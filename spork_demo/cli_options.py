"""What the command line accepts."""

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

from spork_demo.settings import CHOICES, KNOBS

ROOT = Path(__file__).resolve().parent.parent


class UsageError(Exception):
    """The command cannot be carried out as given. The message is one sentence."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message[:1].upper()}{message[1:]}.".replace("..", "."))


def build_parser(
    description: str, commands_by_name: Mapping[str, Callable[[argparse.Namespace], int | None]]
) -> _Parser:
    """The whole command line; each command sets `command` to its function."""
    parser = _Parser(prog="python -m spork_demo", description=description, allow_abbrev=False)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    decode = commands.add_parser("decode", help="decode one prompt", allow_abbrev=False)
    decode.set_defaults(command=commands_by_name["decode"])
    decode.add_argument("--prompt", required=True, help="the user's turn; - reads standard input")
    decode.add_argument("--raw", action="store_true", help="skip the chat template")
    decode.add_argument("--json", action="store_true", help="print one JSON object")
    _add_settings(decode)
    _add_model_options(decode)
    swept = commands.add_parser(
        "sweep", help="what values of a knob gain in speed and cost", allow_abbrev=False
    )
    swept.set_defaults(command=commands_by_name["sweep"])
    swept.add_argument(
        "--vary", action="append", required=True, help="draft_length=2,4,8; twice for a grid"
    )
    swept.add_argument("--prompt", action="append", help="a prompt; may be given several times")
    swept.add_argument("--prompts", default="", help='a file of JSON lines with a "prompt" each')
    swept.add_argument("--out", default="", metavar="FILE", help="write a .csv or .json there")
    _add_settings(swept)
    _add_model_options(swept)
    _add_races(commands, commands_by_name)
    train = commands.add_parser(
        "train", help="make the artefacts of the embedded model", allow_abbrev=False
    )
    train.set_defaults(command=commands_by_name["train"])
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
    bench.set_defaults(command=commands_by_name["bench"])
    bench.add_argument("--prompts", default="", help='a file of JSON lines with a "prompt" each')
    bench.add_argument("--max-new-tokens", default="64")
    bench.add_argument("--quick", action="store_true", help="three prompts of 24 tokens")
    bench.add_argument("--json", default="", metavar="FILE", help="write the report there")
    _add_model_options(bench)
    _add_deploy(commands, commands_by_name["deploy"])
    _add_visits(commands, commands_by_name)
    return parser


def _add_races(
    commands: "argparse._SubParsersAction[_Parser]",
    commands_by_name: Mapping[str, Callable[[argparse.Namespace], None]],
) -> None:
    """Commands about recorded races."""
    record = commands.add_parser(
        "record", help="rewrite the recorded races in assets/traces", allow_abbrev=False
    )
    record.set_defaults(command=commands_by_name["record"])
    record.add_argument("--folder", default=str(ROOT / "assets" / "traces"))
    _add_model_options(record)
    export = commands.add_parser(
        "export", help="write recorded races as a static site, no server", allow_abbrev=False
    )
    export.set_defaults(command=commands_by_name["export"])
    export.add_argument("folder", metavar="DIR", help="where the site is written")
    export.add_argument("--traces", default=str(ROOT / "assets" / "traces"), metavar="DIR")


def _add_deploy(
    commands: argparse._SubParsersAction, command: Callable[[argparse.Namespace], int]
) -> None:
    deploy = commands.add_parser(
        "deploy", help="check what a Space would be given, and upload it", allow_abbrev=False
    )
    deploy.set_defaults(command=command)
    deploy.add_argument("space_id", nargs="?", default="", help="OWNER/NAME; made if missing")
    deploy.add_argument("--check", action="store_true", help="only list what does not fit")
    deploy.add_argument(
        "--profile", default="", help="cpu-basic, zero-gpu, ...; the Spacefile's own if left out"
    )


def _add_visits(
    commands: argparse._SubParsersAction,
    commands_by_name: Mapping[str, Callable[[argparse.Namespace], int | None]],
) -> None:
    crowd = commands.add_parser(
        "crowd", help="let simulated visitors into a running server", allow_abbrev=False
    )
    crowd.add_argument("--visitors", default="50")
    crowd.add_argument("--minutes", default="10")
    soak = commands.add_parser(
        "soak", help="run race after race in a running server, some cut off", allow_abbrev=False
    )
    soak.add_argument("--races", default="300")
    for name, parser in (("crowd", crowd), ("soak", soak)):
        parser.set_defaults(command=commands_by_name[name])
        parser.add_argument("url", help="where it serves, such as http://127.0.0.1:7860")
        parser.add_argument("--json", default="", metavar="FILE", help="write the report there")


def _add_settings(parser: argparse.ArgumentParser) -> None:
    for name, choices in CHOICES.items():
        parser.add_argument(_option(name), choices=choices, default=argparse.SUPPRESS)
    for knob in KNOBS.values():
        help_text = f"{knob.meaning} ({knob.low:g} to {knob.high:g}, default {knob.default:g})"
        parser.add_argument(_option(knob.name), default=argparse.SUPPRESS, help=help_text)


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
        help="our own (on a GPU: CUDA graphs), torch's for few rows, or as transformers has it",
    )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
