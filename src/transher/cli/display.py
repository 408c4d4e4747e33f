"""What people see of a result: tables and sentences on standard output, notes on standard error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

    from transher.answering.completion import CompletionSummary
    from transher.answering.evidence import Evidence
    from transher.evaluation.reliability import CalibrationReport
    from transher.evaluation.significance import Comparison
    from transher.graph.statistics import GraphStatistics
    from transher.runs.movement import UpdateReport
    from transher.runs.search import Outcome, Range
    from transher.training.recipe import Recipe

OUTPUT = Console(highlight=False)
MESSAGES = Console(stderr=True, highlight=False)
_SHOWN = 5  # how many patterns of a kind


def note(text: str) -> None:
    MESSAGES.print(text, markup=False)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns whose values are all numbers go to the right."""
    cells = [[cell if isinstance(cell, str) else _number(cell) for cell in row] for row in rows]
    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for position, column in enumerate(columns):
        numeric = bool(cells) and all(_looks_numeric(row[position]) for row in cells)
        table.add_column(column, justify="right" if numeric else "left", no_wrap=numeric, overflow="fold")
    for row in cells:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    OUTPUT.print(table)


def print_evaluation(title: str, evaluation: dict[str, Any], by: str | None = None) -> None:
    """The metrics of both sides together, and a line for each side, relation type or relation; where there is an
    interval for the MRR, it stands behind it."""
    rows = {"both sides": evaluation["overall"]}
    if by == "type":
        for side, types in evaluation["by_type"].items():
            rows |= {f"{side} {kind}": metrics for kind, metrics in types.items()}
    else:
        rows |= evaluation["by_relation" if by == "relation" else "by_side"]
    print_table(
        title,
        ["", "MRR", "95 % interval", "MR", "H@1", "H@3", "H@10", "queries"],
        (
            (
                name,
                f"{row['mrr']:.4f}",
                _interval(row["intervals"].get("mrr")),
                f"{row['mr']:.1f}",
                f"{row['hits@1']:.4f}",
                f"{row['hits@3']:.4f}",
                f"{row['hits@10']:.4f}",
                f"{row['count']:,}",
            )
            for name, row in rows.items()
        ),
    )


def print_comparison(first: str, second: str, comparison: Comparison) -> None:
    """Two runs on the same queries, in a table and a sentence."""
    print_table(
        f"{first} against {second}, {comparison.queries:,} queries of {comparison.triples:,} triples",
        ["", ""],
        [
            (f"MRR of {first}", f"{comparison.first_mrr:.4f}"),
            (f"MRR of {second}", f"{comparison.second_mrr:.4f}"),
            ("difference", f"{comparison.difference:+.4f}"),
            ("95 % interval", "{:+.4f} to {:+.4f}".format(*comparison.interval)),
            ("p, paired bootstrap", f"{comparison.bootstrap_p:.4g}"),
            ("p, Wilcoxon", f"{comparison.wilcoxon_p:.4g}"),
            ("effect size d_z", "undefined" if comparison.effect_size is None else f"{comparison.effect_size:+.4f}"),
            ("better / worse / equal", f"{comparison.better:.1%} / {comparison.worse:.1%} / {comparison.equal:.1%}"),
        ],
    )


def print_calibration(report: CalibrationReport) -> None:
    """How far the probabilities can be trusted, before and after calibration, and the diagram as a table."""
    print_table(
        f"{report.graph}, {report.split}: {report.triples:,} triples, each with {report.negatives_per_side} that do "
        f"not hold on either side ({report.base_rate:.1%} hold)",
        ["", "calibration error", "Brier", "log loss"],
        (
            (name, f"{part.calibration_error:.4f}", f"{part.brier:.4f}", f"{part.log_loss:.4f}")
            for name, part in (("σ(score)", report.before), ("calibrated", report.after))
        ),
    )
    print_table(
        "Reliability after calibration",
        ["probability", "mean", "holds", "triples"],
        (
            (f"{bin.start:.2f}–{bin.end:.2f}", f"{bin.probability:.3f}", f"{bin.holds:.3f}", bin.count)
            for bin in report.after.bins
        ),
    )


def print_statistics(statistics: GraphStatistics) -> None:
    """A graph's figures: sizes, degrees, relation types, and the strongest of its patterns."""
    splits = ", ".join(f"{count:,} {split}" for split, count in statistics.triples.items())
    OUTPUT.print(f"{statistics.name}: {statistics.entities:,} entities, {statistics.relations:,} relations; {splits}")
    spreads = {"degree": statistics.degree, "as head": statistics.out_degree, "as tail": statistics.in_degree}
    print_table(
        "Triples per entity",
        ["", "min", "median", "mean", "90 %", "max"],
        ((name, s.minimum, s.median, f"{s.mean:.1f}", s.p90, s.maximum) for name, s in spreads.items()),
    )
    total = max(1, sum(statistics.triples.values()))
    print_table(
        "Relation types, head to tail",
        ["", "relations", "triples", "share"],
        (
            (kind, n["relations"], n["triples"], f"{n['triples'] / total:.1%}")
            for kind, n in statistics.relation_types.items()
        ),
    )
    kinds = {
        "symmetric": statistics.symmetric,
        "inverse": statistics.inverse,
        "duplicate": statistics.duplicate,
        "composed": statistics.composed,
    }
    print_table(
        "Strongest patterns",
        ["pattern", "if", "then", "support", "confidence"],
        (
            (kind, " ∘ ".join(rule.premises), rule.conclusion, rule.support, f"{rule.confidence:.0%}")
            for kind, rules in kinds.items()
            for rule in rules[:_SHOWN]
        ),
    )
    hidden = {kind: len(rules) - _SHOWN for kind, rules in kinds.items() if len(rules) > _SHOWN}
    if hidden:
        OUTPUT.print(f"and {', '.join(f'{count:,} more {kind}' for kind, count in hidden.items())}: see --json")
    leak = statistics.leakage
    OUTPUT.print(
        f"Test triples that training has turned round: {leak.same_relation:.1%} with the same relation, "
        f"{leak.inverse_relation:.1%} with an inverse, {leak.any_relation:.1%} with any."
    )
    duplicates = sum(statistics.duplicate_triples.values())
    overlaps = ", ".join(f"{count:,} in {pair}" for pair, count in statistics.overlaps.items() if count) or "none"
    OUTPUT.print(
        f"Duplicate triples that remain: {duplicates:,}. In two splits: {overlaps}. Without a training triple: "
        f"{statistics.unseen_entities:,} entities, {statistics.unseen_relations:,} relations."
    )


def print_recipe(recipe: Recipe, reason: str) -> None:
    """The settings of a training, on two lines a section."""
    MESSAGES.print(reason, markup=False)
    for section, values in recipe.model_dump().items():
        shown = " ".join(f"{key}={value}" for key, value in values.items())
        MESSAGES.print(f"  [bold]{section}[/bold] {shown}", soft_wrap=False)


def print_search(found: Outcome, space: Sequence[Range]) -> None:
    """The best settings, and how much each matters."""
    rows = []
    for part in space:
        value, importance = part.value_in(found.recipe), found.importance.get(part.key)
        shown = str(value) if isinstance(value, str) else f"{value:.4g}"
        rows.append((part.key, shown, "" if importance is None else f"{importance:.0%}"))
    print_table(
        f"Best of {found.finished} finished and {found.pruned} pruned trials: validation MRR {found.mrr:.4f}",
        ["setting", "best", "importance"],
        rows,
    )


def print_answers(answers: pd.DataFrame, asked: str) -> None:
    """Ranked answers under the query that they answer."""
    if not len(answers):
        OUTPUT.print("No answers: everything that fits is known already.")
        return
    first = answers.iloc[0]
    query = ", ".join("?" if part == asked else str(first[part]) for part in ("head", "relation", "tail"))
    print_table(
        f"({query})",
        ["", "answer", "identifier", "score", "probability", ""],
        (
            (
                str(row["rank"]),
                row[asked],
                row["identifier"],
                f"{row['score']:.3f}",
                f"{row['probability']:.1%}" if "probability" in row else "",
                "known" if row["known"] else "",
            )
            for row in answers.to_dict("records")
        ),
    )


def print_evidence(evidence: Evidence) -> None:
    """From the strongest reason to the other answers."""
    from transher.answering.evidence import fact_in_words, rule_in_words, steps_in_words

    def say(text: str = "") -> None:
        OUTPUT.print(text, markup=False, soft_wrap=True)

    say(fact_in_words(evidence.fact))
    probability = "" if evidence.probability is None else f"probability {evidence.probability:.1%}, "
    say(
        f"{probability}score {evidence.score:.3f}; among answers that the graph lacks it is number "
        f"{evidence.ranks['tail']:,} of the tails and {evidence.ranks['head']:,} of the heads."
    )
    if evidence.known:
        say("The graph has this fact: what follows is what else supports it.")
    say("\nFacts that lead there")
    for rule in evidence.rules:
        say(f"  {steps_in_words(rule.examples[0])}")
        more = f"; {rule.paths:,} such paths" if rule.paths > 1 else ""
        say(f"      {rule.kind}: {rule_in_words(rule)} ({rule.confidence:.0%}){more}")
    if not evidence.rules:
        say("  none of at most three steps")
    if evidence.against:
        say("\nAgainst it")
        for reason in evidence.against:
            say(f"  {reason}")
    print_table(
        "\nSimilar entities with such a fact",
        ["fact", "similarity"],
        ((fact_in_words(similar.fact), f"{similar.similarity:.2f}") for similar in evidence.similar),
    )
    print_table(
        "Known facts that moved the score most",
        ["fact", "size", "share"],
        ((fact_in_words(one.fact), f"{one.size:+.2f}", f"{one.share:.1%}") for one in evidence.influences),
    )
    print_table(
        "Other answers",
        ["fact", "score", "probability", ""],
        (
            (
                fact_in_words(other.fact),
                f"{other.score:.3f}",
                "" if other.probability is None else f"{other.probability:.1%}",
                "known" if other.known else "",
            )
            for other in evidence.alternatives
        ),
    )


def print_completion(summary: CompletionSummary) -> None:
    """Where the facts are and how probable."""
    spread = ""
    if summary.highest_probability is not None and summary.lowest_probability is not None:
        spread = f", with probabilities from {summary.highest_probability:.1%} to {summary.lowest_probability:.1%}"
    OUTPUT.print(
        f"{summary.facts:,} new facts{spread}, out of {summary.pairs:,} pairs of {summary.relations:,} relations, "
        f"are in {summary.out}.",
        markup=False,
    )


def print_update(out: str, report: UpdateReport) -> None:
    """What joined a run, and how far old answers moved."""
    OUTPUT.print(
        f"{report.added:,} triples joined ({report.already_known:,} were known), with {report.new_relations:,} new "
        f"relations and {report.new_entities:,} new entities ({', '.join(report.examples) or 'none'}"
        f"{', …' if report.new_entities > len(report.examples) else ''}). The run is in {out}.",
        markup=False,
    )
    if report.mrr_before is None or report.mrr_after is None:
        return
    print_table(
        f"Old test queries ({report.queries:,})",
        ["", ""],
        [
            ("MRR before", f"{report.mrr_before:.4f}"),
            ("MRR after", f"{report.mrr_after:.4f}"),
            ("better / worse / equal", f"{report.better:.1%} / {report.worse:.1%} / {report.equal:.1%}"),
            ("median change of rank, in doublings", f"{report.median_shift:.2f}"),
            ("similarity of old rows to what they were", f"{report.row_similarity:.4f}"),
        ],
    )


def _interval(interval: Sequence[float] | None) -> str:
    return "" if interval is None else f"{interval[0]:.4f}–{interval[1]:.4f}"


def _number(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _looks_numeric(text: str) -> bool:
    return text == "" or text.replace(",", "").replace("%", "").lstrip("+-−").replace(".", "", 1).isdigit()
