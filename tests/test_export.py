"""The static site as files: whole, small, in both languages, and a sentence where it cannot be."""

import base64
import json
import re
import zlib

from spork_demo import trace_file
from spork_demo.cli import main
from spork_demo.language import speaking
from spork_demo.ui import player
from spork_demo.ui.stage import stage_tree, stage_value
from tests.handmade_rounds import tree_round
from tests.sample_race import sample_race

RACE = sample_race(tokens=6)


def unpacked(script: str) -> dict:
    text = re.fullmatch(r'sporkSite\.receive\("1-a","([\w+/=]+)"\);\n', script)[1]
    return json.loads(zlib.decompress(base64.b64decode(text)))


def test_export_writes_a_site_and_says_how_large_it_is(tmp_path, capsys):
    traces = tmp_path / "in"
    traces.mkdir()
    (traces / "1-a.json").write_text(trace_file.dumps(RACE), encoding="utf-8")
    assert main(["export", str(tmp_path / "out"), "--traces", str(traces)]) == 0
    assert "1 races" in capsys.readouterr().out
    site = tmp_path / "out"
    for page, code in (("index.html", "en"), ("zh.html", "zh")):
        text = (site / page).read_text("utf-8")
        assert f'lang="{code}"' in text and "$" not in text
        assert not re.search(r"(src|href)=\"(https?:)?//", text)
        data = unpacked((site / "data" / code / "1-a.js").read_text("utf-8"))
        assert [len(lane) for lane in data["trees"]] == [len(lane.rounds) for lane in RACE.lanes]
    assert trace_file.loads((site / "traces" / "1-a.json").read_bytes()) == RACE


def test_where_it_cannot_be_written_it_says_so_in_a_sentence(tmp_path, capsys):
    assert main(["export", str(tmp_path / "out"), "--traces", str(tmp_path)]) == 2
    assert "no recorded races" in capsys.readouterr().err
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    assert main(["export", str(tmp_path / "out"), "--traces", str(tmp_path)]) == 2
    assert capsys.readouterr().err == "The file is not valid JSON.\n"


def test_everything_known_of_the_machine_is_listed():
    place = RACE.lanes[0].provenance
    told = dict(player.origin_rows(place))
    assert told == {
        "target": place.target, "machine": place.device, "threads": "2",
        "number format": "float32", "date": place.date, "spork_demo": "0.1.0",
    }  # fmt: skip


def test_the_stage_tells_every_round_in_either_language():
    english = json.loads(stage_value(RACE))
    assert [len(lane["rounds"]) for lane in english["lanes"]] == [6, 3, 3]
    assert english["lanes"][1]["ratio"] == "1.94×"  # 8 tokens in 3 × 0.055 s, against 25 tokens/s
    assert {cell[0] for cell in english["lanes"][2]["fidelity"]} >= {"ROUGE-L", "BLEU"}
    with speaking("zh"):
        chinese = json.loads(stage_value(RACE))
    assert chinese["words"]["cost"] == "保真度上的代价"
    assert json.loads(stage_value(None))["words"] == english["words"]


def test_the_stage_tree_keeps_every_token_and_who_follows_whom():
    round_ = tree_round()
    tree = stage_tree(round_, " brown")
    assert len(tree["places"]) == 1 + len(round_.nodes) + 1
    assert [place[5] for place in tree["places"]][0] == -1
    assert all(parent < at for at, (*_, parent, _) in enumerate(tree["places"]))
    kept = [place for place in tree["places"] if place[4] in ("accepted", "correction")]
    assert {place[1] for place in kept} == {0}
