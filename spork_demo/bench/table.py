"""The benchmark's report as lines of text."""

from typing import Any


def table(report: dict[str, Any]) -> str:
    """Lanes first, then what a call costs."""
    return "\n".join([*_lanes(report), "", *_calls(report), *_page(report)])


def _lanes(report: dict[str, Any]) -> list[str]:
    head = (
        f"{report['machine']}, {report['dtype']}, our kernels {report['kernels']}, "
        f"{report['prompts']} prompts, "
        f"peak memory {report['peak_memory_mb']} MB"
    )
    columns = (
        "lane                          tok/s   by prompt  x greedy  x transformers  tok/round"
        "  calls  same  as transformers"
    )
    rows = [
        f"{name:28}{lane['tokens_per_second']:7.1f}"
        f"{lane['slowest_prompt']:7.0f}-{lane['fastest_prompt']:<4.0f}{lane['ratio_to_greedy']:10.2f}"
        f"{lane['ratio_to_transformers_greedy']:16.2f}{lane['accepted_length']:11.2f}"
        f"{lane['target_calls']:7}{lane['identical_to_greedy']:6}"
        f"{lane['identical_to_transformers_greedy']:17}"
        for name, lane in report["lanes"].items()
    ]
    return [head, "", columns, *rows]


def _page(report: dict[str, Any]) -> list[str]:
    if "page" not in report:  # a quick run
        return []
    if report["page"] is None:
        return ["the page's own overhead: not measured, for want of a browser or a drafter"]
    page = report["page"]
    return [
        f"a race of three lanes: {page['lane_seconds_without_page']:.2f} lane seconds without the "
        f"page, {page['lane_seconds_with_browser']:.2f} with a browser on this machine, "
        f"{page['ratio']:.2f} times as many"
    ]


def _calls(report: dict[str, Any]) -> list[str]:
    by_rows = report["call_ms_by_rows"]
    lines = [
        "rows of a target call   " + "".join(f"{rows:>7}" for rows in by_rows),
        "milliseconds            " + "".join(f"{ms:7.1f}" for ms in by_rows.values()),
        f"reading {report['weight_mb']:.0f} MB of weights at "
        f"{report['memory_gb_per_second']:.1f} GB/s would take "
        f"{report['bandwidth_limit_ms']:.1f} ms",
    ]
    for context, costs in report["call_ms_by_context"].items():
        said = ", ".join(f"{ms:.1f} ms for {rows} rows" for rows, ms in costs.items())
        blind = report["call_ms_without_attention"].get(context)
        apart = "" if blind is None else f"; {blind:.1f} ms for 1 row without attention"
        lines.append(f"behind {context} tokens: {said}{apart}")
    return lines
