"""deploy: what does not fit together is listed, all of it; what fits is uploaded, and no more."""

import dataclasses
import os
import subprocess
import sys

import pytest
import yaml

from spork_demo.cli import main
from spork_demo.cluster_spec import Cluster
from spork_demo.deploy import check as checking
from spork_demo.deploy.check import check
from spork_demo.deploy.front_matter import for_machine, models, read, served
from spork_demo.deploy.hardware import MACHINES
from spork_demo.spacefile import Hardware
from tests.fake_hub import fake_hub
from tests.test_architecture import ROOT
from tests.test_runtime import SPACEFILE

README = (ROOT / "README.md").read_text(encoding="utf-8")
REQUIREMENTS = (ROOT / "requirements.txt").read_text(encoding="utf-8")
SMALL = dataclasses.replace(SPACEFILE, pairs=SPACEFILE.pairs[:2])
GPU = MACHINES["zero-gpu"]


@pytest.fixture
def root(tmp_path):
    for name in ("app.py", "Spacefile", "LICENSE", "assets", "pyproject.toml"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "README.md").write_text(README, encoding="utf-8")
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS, encoding="utf-8")
    return tmp_path


def test_the_repository_fits_a_cpu_space():
    report = check(ROOT, SPACEFILE, "cpu-basic")
    assert report.wrong == []
    assert "3 pairs: about 0.1 GB to fetch" in report.notes[0]
    assert "4.1 of 16 GB of memory" in report.notes[0]


def test_a_small_deployment_fits_zero_gpu_and_the_whole_spacefile_does_not():
    assert check(ROOT, SMALL, "zero-gpu").wrong == []
    wrong = check(ROOT, SPACEFILE, "zero-gpu").wrong
    assert len(wrong) == 1
    assert "GB of disk; there are 50." in wrong[0]


def test_a_space_is_no_cluster():
    cluster = Cluster("ray", "auto", replicas=2, gpus=1, cpus=4, queue=3)
    wrong = check(ROOT, dataclasses.replace(SPACEFILE, cluster=cluster), "cpu-basic").wrong
    assert wrong == ["The Spacefile chooses a cluster, which a Space does not have."]


def test_every_mismatch_is_listed(root):
    broken = README.replace("sdk_version: 6.31.0", "sdk_version: 5.0.0")
    broken = broken.replace('python_version: "3.12"', 'python_version: "3.10"')
    broken = broken.replace("app_file: app.py", "app_file: main.py").replace("blue", "beige", 1)
    broken = broken.replace("HuggingFaceTB/SmolLM2-135M-Instruct\ntags", "someone/else\ntags", 1)
    (root / "README.md").write_text(broken, encoding="utf-8")
    wanted = REQUIREMENTS.replace("plotly==7.1.0", "plotly==1.0\nno-such-package==1\n=what")
    (root / "requirements.txt").write_text(wanted, encoding="utf-8")
    hardware = Hardware("moon-base", "3.10", "6.31.0")
    report = check(root, dataclasses.replace(SPACEFILE, hardware=hardware), "moon-base")
    text = "\n".join(report.wrong)
    for words in (
        "'moon-base' is not one of cpu-basic",
        "plotly 7.1.0 is installed, ==1.0 is required",
        "no-such-package is required and not installed",
        "no requirement: =what",
        "sdk_version in README.md is 5.0.0, the Spacefile says 6.31.0",
        "app_file in README.md is not app.py",
        "colorFrom in README.md is none",
        "spork_demo needs Python >=3.11, the Spacefile says 3.10",
        "numpy needs Python >=3.11",
    ):
        assert words in text


def test_models_of_the_readme_are_those_of_the_pairs_that_run(root):
    changed = README.replace("  - HuggingFaceTB/SmolLM2-135M-Instruct\n", "  - someone/else\n", 1)
    (root / "README.md").write_text(changed, encoding="utf-8")
    text = "\n".join(check(root, SPACEFILE, "cpu-basic").wrong)
    assert "models in README.md lacks HuggingFaceTB/SmolLM2-135M-Instruct" in text
    assert "no pair here uses, someone/else" in text


def test_a_pair_too_large_or_a_file_that_is_not_there_is_told(root):
    pair = dataclasses.replace(
        SPACEFILE.pairs[0], memory_gb=17.0, ngram_table=str(root / "none.npz")
    )
    text = "\n".join(check(root, dataclasses.replace(SPACEFILE, pairs=(pair,)), "cpu-basic").wrong)
    assert "need 17.0 GB of memory; there are 16" in text
    assert "none.npz is missing" in text


def test_zero_gpu_has_its_own_pythons_and_torch(root, tmp_path, monkeypatch):
    there = checking.ZERO_GPU.read_text(encoding="utf-8")
    other = tmp_path / "other.txt"
    other.write_text(there.replace("torch==2.11.0", "torch==2.14.1").replace("numpy==2.4.6\n", ""))
    monkeypatch.setattr(checking, "ZERO_GPU", other)
    hardware = Hardware("zero-gpu", "3.13", "6.31.0")
    text = "\n".join(check(root, dataclasses.replace(SMALL, hardware=hardware), "zero-gpu").wrong)
    assert "ZeroGPU has Python 3.10 and 3.12, not 3.13" in text
    assert "ZeroGPU does not list torch 2.14.1" in text
    assert "other.txt has nothing where requirements.txt has numpy==2.4.6" in text


def test_front_matter_is_made_for_the_machine():
    found = read(for_machine(README, SPACEFILE, GPU))
    assert found["models"] == models(served(SPACEFILE, GPU))
    assert "Qwen/Qwen2.5-7B-Instruct" in found["preload_from_hub"]
    assert "suggested_hardware" not in found
    assert found["sdk_version"] == read(README)["sdk_version"]
    cpu = read(for_machine(README, SPACEFILE, MACHINES["cpu-basic"]))
    assert cpu["suggested_hardware"] == "cpu-basic"
    assert "preload_from_hub" not in cpu
    assert [pair.dtype for pair in served(SPACEFILE, GPU)].count("int8") == 0


@pytest.mark.parametrize("readme", ["", "# title", "---\na: [\n---\n", "---\n- a\n---\n"])
def test_a_readme_without_front_matter_is_one_mismatch(root, readme):
    (root / "README.md").write_text(readme, encoding="utf-8")
    wrong = check(root, SPACEFILE, "cpu-basic").wrong
    assert len([sentence for sentence in wrong if "README.md" in sentence]) == 1


def deployed(arguments, port, home, token="hf_" + "x" * 30):
    settings = {"HF_ENDPOINT": f"http://127.0.0.1:{port}", "HF_HOME": str(home)}
    settings |= {"HF_TOKEN": token, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    return subprocess.run(
        [sys.executable, "-m", "spork_demo", "deploy", *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def test_an_upload_makes_the_space_and_brings_what_it_needs(tmp_path):
    with fake_hub() as hub:
        done = deployed(["someone/demo"], hub.server_port, tmp_path)
    assert done.returncode == 0, done.stderr
    assert hub.created[0]["sdk"] == "gradio"
    assert hub.created[0]["hardware"] == "cpu-basic"
    names = set(hub.files)
    assert {"app.py", "README.md", "Spacefile", "requirements.txt"} <= names
    assert {name.split("/")[0] for name in names} == {
        *("app.py", "README.md", "Spacefile", "requirements.txt"),
        *("LICENSE", "pyproject.toml", "spork_demo", "assets"),
    }
    assert not [name for name in names if "__pycache__" in name or "/." in name]
    weights = "assets/ngram/smollm2-135m.npz"
    assert hub.files[weights] == (ROOT / weights).read_bytes()
    front = yaml.safe_load(hub.files["README.md"].decode().split("---\n")[1])
    assert front["suggested_hardware"] == "cpu-basic"


def test_without_a_token_or_leave_nothing_is_uploaded_and_one_sentence_says_so(tmp_path):
    with fake_hub(refuses=True) as hub:
        unnamed = deployed(["someone/demo"], hub.server_port, tmp_path, token="")
        refused = deployed(["someone/demo"], hub.server_port, tmp_path)
    assert (unnamed.returncode, refused.returncode) == (2, 2)
    assert "No token of the hub" in unnamed.stderr
    assert refused.stderr.strip() == "The hub refused the upload (403)."
    assert hub.files == {}


@pytest.mark.parametrize(
    "arguments", [["deploy"], ["deploy", "--check", "a/b"], ["deploy", "no id"]]
)
def test_wrong_use_is_one_sentence_and_exit_code_two(arguments, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_check_tells_and_ends_with_one(capsys):
    assert main(["deploy", "--check", "--profile", "zero-gpu"]) == 1
    assert "wrong: The pairs need about" in capsys.readouterr().out
