"""The tables of docs/performance.md, made of `results/`: no figure there is typed by hand.

`<!-- table: NAME -->` and `<!-- end -->` enclose a table, as in the other documents.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

Results = dict[str, Any]
MARKED = re.compile(r"(<!-- table: ([\w.-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
STEP_TITLES = {
    "whole": "**transher, the whole step**",
    "compiled": "one shared set, `torch.compile`",
    "eager": "one shared set, eager torch",
    "authors": "a set per positive, eager torch (the authors' formulation)",
    "pykeen": "PyKEEN's PairRE",
}
KERNEL_TITLES = {
    "kernels": "**transher's kernels**",
    "compiled kernels": "`torch.compile`",
    "eager kernels": "eager torch",
}


def read_results(folder: Path) -> Results:
    """The parts of benchmarks.json; growth.json, thinning.json and gpu-code.json as one more part each; and as `gpu` a
    list of what was measured on GPUs, each with the parts of its own."""
    results: Results = {}
    if (path := folder / "benchmarks.json").is_file():
        results |= json.loads(path.read_text("utf-8"))
    for name in ("growth", "thinning", "gpu-code"):
        if (path := folder / f"{name}.json").is_file():
            results[name] = json.loads(path.read_text("utf-8"))
    measured = [path for path in sorted(folder.glob("gpu-*.json")) if path.stem != "gpu-code"]
    return results | ({"gpu": [json.loads(path.read_text("utf-8")) for path in measured]} if measured else {})


def render(name: str, results: Results) -> str:
    """One table in Markdown, with what made it and when."""
    part, renderer = TABLES[name]
    if part not in results or "failed" in results[part]:
        return "Not measured yet.\n"
    return renderer(results) + ("" if part == "gpu" else "\n\n" + _source(results[part], part)) + "\n"


def rewrite(path: Path, results: Results) -> bool:
    """Put current tables into a document; says whether it changed."""
    if not path.is_file():
        return False
    old = path.read_text("utf-8")
    new = with_tables(old, results)
    if new != old:
        path.write_text(new, "utf-8")
    return new != old


def with_tables(text: str, results: Results) -> str:
    return MARKED.sub(lambda match: f"{match[1]}{render(match[2], results)}{match[3]}", text)


def table_names(text: str) -> list[str]:
    return [match[1] for match in MARKED.findall(text)]


def step_table(results: Results) -> str:
    return _step_rows(results["step"], STEP_TITLES, "whole")


def kernel_table(results: Results) -> str:
    return _step_rows(results["step"], KERNEL_TITLES, "kernels")


def _step_rows(step: Results, titles: dict[str, str], own: str) -> str:
    shapes = step["shapes"]
    headers = [f"batch {step['batch']}, {step['negatives']} negatives"]
    headers += [text for shape in shapes for text in (f"k {shape['k']}, ms", "× ours")]
    rows = []
    for side, title in titles.items():
        cells = []
        for shape in shapes:
            best, base = (shape["sides"].get(name, {}).get("best") for name in (side, own))
            cells += [_milliseconds(best), f"{best / base:.0f}" if best and base and side != own else ""]
        rows.append([title, *cells])
    return _markdown(headers, rows)


def peak_table(results: Results) -> str:
    peak = results["peak"]
    speed = peak["elements_per_second"]
    rows = [
        [
            title,
            str(peak["operations"][way]),
            f"{speed[f'{way} kernel'] / 1e9:.1f}",
            f"{peak['lanes'] * peak['multiply_adds_per_second'] / peak['operations'][way] / 1e9:.1f}",
            f"{peak['share_of_multiply_add'][way]:.0%}",
            f"{speed[way] / 1e9:.1f}",
            f"{peak['share_of_own_operations'][way]:.0%}",
        ]
        for way, title in (("forward", "forward"), ("backward", "backward"))
    ]
    rows.append(
        ["both", "", "", "", f"{peak['share_of_multiply_add']['both']:.0%}", "",
         f"{peak['share_of_own_operations']['both']:.0%}"]
    )  # fmt: skip
    headers = ["kernel", "operations", "G elements/s", "multiply-add peak", "share", "own operations' peak", "share"]
    text = _markdown(headers, rows)
    return text + (
        f"\n\n{peak['backend']}, {peak['lanes']} floats per vector: {peak['multiply_adds_per_second'] / 1e9:.1f} G "
        f"vector multiply-adds per second on {peak['threads']} threads. Memory is read at "
        f"{peak['read_bytes_per_second'] / 1e9:.1f} GB/s and copied at {peak['copy_bytes_per_second'] / 1e9:.1f} GB/s "
        "(bytes read plus bytes written)."
    )


def ranking_table(results: Results) -> str:
    rows = []
    for row in results["ranking"]["rows"]:
        beside = row.get("pykeen", {})
        other = (
            f"{beside['seconds_per_triple'] * 1e3:.0f} ({beside['triples']} triples)" if "seconds" in beside else "–"
        )
        rows.append(
            [
                f"{row['graph']}, k {row['k']}",
                f"{row['weights']} (MRR {row['mrr']:.3f})",
                f"{row['triples']:,} of {row['of']:,}",
                f"{row['seconds']:.1f}",
                f"{row['seconds_per_triple'] * 1e3:.2f}",
                f"{row['elements_per_second'] / 1e9:.0f}",
                f"{row['memory_above_table'] / 1e6:.0f}",
                other,
                f"{row['faster']:.0f}" if "faster" in row else "–",
            ]
        )
    headers = ["test set", "weights", "triples", "seconds", "ms per triple", "G elements/s", "MB above the table",
               "PyKEEN, ms per triple", "× ours"]  # fmt: skip
    return _markdown(headers, rows)


def top_table(results: Results) -> str:
    top = results["top"]
    sides, size = top["sides"], top["table_bytes"]
    bandwidth = size / sides["read"]["best"]
    titles = {
        "transe": "**transher, TransE**",
        "faiss": "faiss, `IndexFlat` with L1",
        "transher": "**transher, TranSHER** (its table prepared)",
    }
    rows = []
    for name, title in titles.items():
        one, many = (sides.get(f"{name}, {count}", {}).get("best") for count in (1, top["many"]))
        share = f"{size / one / bandwidth:.0%}" if one else "–"
        rows.append([title, _milliseconds(one), share, _milliseconds(many), _milliseconds(many and many / top["many"])])
    headers = [f"top {top['top']} of {top['entities']:,} entities, k {top['k']}", "one query, ms",
               "share of the read bandwidth", f"{top['many']} queries, ms", "per query, ms"]  # fmt: skip
    agreement = {
        True: " The answers equal those of faiss.",
        False: " The answers differ from those of faiss.",
        None: "",
    }
    text = f"Reading the table once takes {sides['read']['best'] * 1e3:.0f} ms ({bandwidth / 1e9:.1f} GB/s)."
    return _markdown(headers, rows) + f"\n\n{text}{agreement[top['same_answers_as_faiss']]}"


def loading_table(results: Results) -> str:
    loading = results["loading"]
    titles = {
        "ours": "**`transher.graph.read_graph`**: sorted ids; finds duplicates, overlaps and unseen entities",
        "pandas": "`pandas.read_csv` and `factorize`",
        "pandas, pyarrow": 'the same with `engine="pyarrow"`',
    }
    rows = [
        [title, f"{side['best']:.2f}", f"{loading['lines'] / side['best'] / 1e6:.2f}"]
        for name, title in titles.items()
        if "best" in (side := loading["sides"].get(name, {}))
    ]
    headers = [f"{loading['lines']:,} lines, {loading['bytes'] / 1e6:.0f} MB", "seconds", "million lines per second"]
    return _markdown(headers, rows)


def aims_table(results: Results) -> str:
    """The targets, as ratios of one measurement, and what was reached."""
    shape = results["step"]["shapes"][0]
    best = {name: side["best"] for name, side in shape["sides"].items() if "best" in side}
    rows = []

    def add(title: str, aim: float, reached: float | None, form: str) -> None:
        if reached is not None:
            rows.append(
                [title, f"at least {form.format(aim)}", form.format(reached), "yes" if reached >= aim else "no"]
            )

    whole = best.get("whole")
    others = (("authors", "the authors' formulation", 300), ("compiled kernels", "`torch.compile`'s kernels alone", 6))
    for side, title, aim in others:
        if whole and side in best:
            add(f"whole step, k {shape['k']}, against {title}", aim, best[side] / whole, "{:.1f} times")
    if whole and "kernels" in best:
        ratio = whole / best["kernels"]
        rows.append(["whole step against its kernels alone", "at most 1.5 times", f"{ratio:.2f} times",
                     "yes" if ratio <= 1.5 else "no"])  # fmt: skip
    if "share_of_multiply_add" in results.get("peak", {}):
        peak = results["peak"]
        add("kernels, of the multiply-add peak", 0.7, peak["share_of_multiply_add"]["both"], "{:.0%}")
        add("kernels, of the peak of their own operations", 0.7, peak["share_of_own_operations"]["both"], "{:.0%}")
    ranked = [row for row in results.get("ranking", {}).get("rows", ()) if "faster" in row]
    if ranked:
        add("full ranking against PyKEEN's evaluator", 50, ranked[0]["faster"], "{:.1f} times")
        most = max(row["memory_above_table"] for row in results["ranking"]["rows"]) / 1e6
        rows.append(["memory of full ranking above the table", "at most 300 MB", f"{most:.0f} MB",
                     "yes" if most <= 300 else "no"])  # fmt: skip
    return _markdown(["measure", "target", "reached", "met"], rows)


def growth_table(results: Results) -> str:
    growth = results["growth"]
    headers = ["entities", "triples", "load, s", "index and tables, s", "step, ms", "small step, ms", "ratio",
               "checkpoint, s", "plain write, s", "evaluation, triples/s", "peak memory, GB", "limit, GB"]  # fmt: skip
    rows = [
        [
            f"{row['entities']:,}",
            f"{row['triples']:,}",
            f"{row['load_seconds']:.1f}",
            f"{row['prepare_seconds']:.1f}",
            f"{row['step']['median'] * 1e3:.2f}",
            f"{row['small_step']['median'] * 1e3:.2f}",
            f"{row['step_ratio']:.2f}",
            f"{row['checkpoint_seconds']:.1f}",
            f"{row['write_seconds']:.1f}",
            f"{row['evaluation_triples_per_second']:.0f}",
            f"{row['peak_bytes'] / 1e9:.2f}",
            f"{row['memory_limit'] / 1e9:.2f}",
        ]
        for row in growth["rows"]
    ]
    return _markdown(headers, rows) + "\n\n" + _growth_aims(growth["rows"][-1])


def _growth_aims(row: Results) -> str:
    """The limits for the largest graph."""
    aims = [
        ("start-up (load, index, tables), s", row["start_up_seconds"], 120.0),
        ("step, relative to the small graph", row["step_ratio"], 1.5),
        ("checkpoint, relative to a plain write", row["checkpoint_seconds"] / row["write_seconds"], 1.0),
        ("peak memory, GB", row["peak_bytes"] / 1e9, row["memory_limit"] / 1e9),
    ]
    rows = [[title, f"{aim:.2f}", f"{found:.2f}", "yes" if found <= aim else "no"] for title, found, aim in aims]
    return _markdown([f"at {row['entities']:,} entities", "target: at most", "reached", "met"], rows)


def thinning_table(results: Results) -> str:
    settings, rows = results["thinning"]["settings"], results["thinning"]["rows"]
    headers = [
        "share of the gradients followed",
        f"validation MRR after {settings['steps']:,} steps",
        "training, s",
        "speed-up",
    ]
    return _markdown(
        headers,
        [
            [
                f"{row['share']:.0%}",
                f"{row['mrr']:.4f}",
                f"{row['seconds']:.1f}",
                f"{rows[0]['seconds'] / row['seconds']:.2f}",
            ]
            for row in rows
        ],
    )


GPU_KERNELS = {
    "scaled_l1.cross": "scaled L1, forward",
    "scaled_l1.query_gradients": "scaled L1, gradient of the queries",
    "scaled_l1.candidate_gradients": "scaled L1, gradient of the candidates",
    "ranking.count": "counting better candidates",
    "modulus.cross": "complex modulus, forward",
    "modulus.gradients": "complex modulus, gradient of one side",
    "scaled_l1.listed": "candidates of their own: scaled L1, forward",
    "scaled_l1.listed_query_gradients": "… gradient of the queries",
    "scaled_l1.listed_candidate_gradients": "… gradient of the candidates",
    "modulus.listed": "… complex modulus, forward",
    "modulus.listed_gradients": "… gradient of one side",
    "scaled_l1.pairs": "one candidate each: scaled L1, forward",
    "modulus.pairs": "… complex modulus, forward",
}
# float32 lanes × 10⁹ instructions per second, from the makers' data sheets, and the target whose code runs there.
GPUS = {
    "RTX 3090": (10496 * 1.70, "sm_86"),
    "A100 SXM": (6912 * 1.41, "sm_80"),
    "H100 SXM": (16896 * 1.83, "sm_90"),
}
_STEP = ("scaled_l1.cross", "scaled_l1.query_gradients", "scaled_l1.candidate_gradients")


def gpu_code_table(results: Results) -> str:
    kernels = results["gpu-code"]["kernels"]
    targets = [name for name in kernels[_STEP[0]] if not name.endswith("per_element")]
    rows = [
        [title, f"{kernels[name]['ideal_per_element']:g}", *(f"{kernels[name][t]['per_element']:.2f}" for t in targets)]
        for name, title in GPU_KERNELS.items()
    ]
    return _markdown(["instructions per element", "ideal", *targets], rows)


def roofline_table(results: Results) -> str:
    """Milliseconds of the three kernels of a step at 1024 × 256 × 1500, if only their instructions took time."""
    kernels, elements = results["gpu-code"]["kernels"], 1024 * 256 * 1500
    rows = []
    for gpu, (rate, target) in GPUS.items():
        times = [elements * kernels[name][target]["per_element"] / (rate * 1e9) * 1e3 for name in _STEP]
        rows.append([gpu, *(f"{time:.2f}" for time in (*times, sum(times)))])
    return _markdown(["ms on paper", "forward", "queries", "candidates", "together"], rows)


def gpu_peak_table(results: Results) -> str:
    peak = results["peak"]
    rows = [
        [title, str(peak["operations"][way]), f"{peak['elements_per_second'][way] / 1e9:,.0f}",
         f"{peak['share_of_multiply_add'][way]:.0%}"]
        for way, title in (("forward", "forward"), ("backward", "backward"))
    ]  # fmt: skip
    headers = ["kernel", "operations", "G elements/s", "share of a matrix product's multiply-adds"]
    return _markdown(headers, rows) + (
        f"\n\nA product of float32 matrices does {peak['multiply_adds_per_second'] / 1e12:.1f} T multiply-adds per "
        f"second. Memory is read at {peak['read_bytes_per_second'] / 1e9:,.0f} GB/s and copied at "
        f"{peak['copy_bytes_per_second'] / 1e9:,.0f} GB/s."
    )


def gpu_table(results: Results) -> str:
    """All parts of every GPU, with what made each and when."""
    texts = []
    for found in results["gpu"]:
        texts.append(f"**{found['gpu']}**, Triton {found['triton']}:")
        for part, renderer in GPU_PARTS:
            if part in found:
                texts += [renderer(found), _source(found[part], "gpu")]
    return "\n\n".join(texts)


GPU_PARTS: tuple[tuple[str, Callable[[Results], str]], ...] = (
    ("step", step_table),
    ("step", kernel_table),
    ("peak", gpu_peak_table),
    ("ranking", ranking_table),
    ("top", top_table),
)
TABLES: dict[str, tuple[str, Callable[[Results], str]]] = {
    "aims": ("step", aims_table),
    "step": ("step", step_table),
    "kernels": ("step", kernel_table),
    "peak": ("peak", peak_table),
    "ranking": ("ranking", ranking_table),
    "top": ("top", top_table),
    "loading": ("loading", loading_table),
    "growth": ("growth", growth_table),
    "thinning": ("thinning", thinning_table),
    "gpu": ("gpu", gpu_table),
    "gpu-code": ("gpu-code", gpu_code_table),
    "roofline": ("gpu-code", roofline_table),
}


def _source(found: dict[str, Any], part: str) -> str:
    measured, machine = found["measured"], found["measured"]["machine"]
    triton = f", Triton {found['triton']}" if "triton" in found else ""
    commands = {
        "growth": "make growth",
        "thinning": "make thinning",
        "gpu": "make bench-gpu",
        "gpu-code": "python -m benchmarks.gpu --compile",
    }
    command = commands.get(part, "make bench")
    return (
        f"`{command}`, {measured['date']}, commit {measured['commit']}: {machine['processor']}, {machine['cores']} "
        f"cores, {machine['memory_gb']:.0f} GB, torch {machine['versions']['torch']}{triton}; load average "
        f"{measured['load'][0]} before, {measured['load_after'][0]} after."
    )


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    value = seconds * 1e3
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _markdown(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headers, ["---", *["---:"] * (len(headers) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
