"""The command line: what it refuses, and what it prints, on the embedded model."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from spork_demo.cli import main

ROOT = Path(__file__).resolve().parent.parent

WRONG = {
    "no command": [],
    "unknown method": ["decode", "--prompt", "a", "--method", "beam"],
    "no prompt": ["decode", "--method", "greedy"],
    "not a number": ["decode", "--prompt", "a", "--temperature", "warm"],
    "NaN": ["decode", "--prompt", "a", "--accept-threshold", "nan"],
    "half a token": ["decode", "--prompt", "a", "--max-new-tokens", "1.5"],
    "no tokens": ["decode", "--prompt", "a", "--max-new-tokens", "0"],
    "huge K": ["decode", "--prompt", "a", "--fork-width", "1000000000"],
    "negative seed": ["decode", "--prompt", "a", "--seed", "-1"],
    "exact with a score judge": [
        *("decode", "--prompt", "a", "--method", "spork", "--judge", "first_token"),
    ],
    "unknown option": ["decode", "--prompt", "a", "--gamma", "4"],
    "abbreviated option": ["decode", "--prom", "a"],
    "unknown pair": ["decode", "--prompt", "a", "--pair", "nobody"],
    "missing checkpoint": ["decode", "--prompt", "a", "--target", "/nowhere/at/all"],
    "no answers to count": ["train", "ngram"],
    "no steps": ["train", "student", "--steps", "0"],
    "half a prompt": ["train", "data", "--prompts", "0.5"],
    "prompts that are no file": ["bench", "--prompts", "/nowhere/at/all"],
    "draft alone": ["decode", "--prompt", "a", "--draft", "x"],
}


@pytest.mark.parametrize("arguments", WRONG.values(), ids=WRONG.keys())
def test_wrong_values_are_one_sentence_and_exit_code_two(arguments, capsys, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("SPORK_DEMO_CACHE", "/nowhere/at/all")
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.endswith(".\n")


@pytest.mark.parametrize("prompt", ["", "   "])
def test_an_empty_prompt_is_refused(prompt, capsys, embedded_folder):
    assert main(["decode", "--prompt", prompt]) == 2
    assert "empty" in capsys.readouterr().err


def test_decode_prints_one_json_object(embedded_folder):
    done = subprocess.run(
        [sys.executable, "-m", "spork_demo", "decode", "--method", "spork", "--rules", "exact"]
        + ["--prompt", "Hello", "--max-new-tokens", "2", "--fork-width", "2", "--json"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    said = json.loads(done.stdout)
    assert said["ids"] == [19556, 17]
    assert said["text"] == "Hello!"
    assert said["stop_reason"] == "length"
    assert said["settings"]["fork_width"] == 2
    assert said["settings"]["drafter"] == "ngram"
    assert said["metrics"]["committed"] == 2


def test_raw_skips_the_chat_template(capsys, embedded_folder):
    assert main(["decode", "--prompt", "1, 2, 3,", "--raw", "--max-new-tokens", "3", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["prompt_tokens"] < 12
    assert len(said["ids"]) == 3
