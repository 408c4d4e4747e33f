"""What people see of a result: tables and sentences on standard output, notes on standard error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from transher.visible import shown, shown_lines

if TYPE_CHECKING:
    import pandas as pd

    from transher.answering.backtest import Backtest, Came
    from transher.answering.completion import CompletionSummary
    from transher.answering.evidence import Evidence
    from transher.answering.trials import CalibrationReport, Promise
    from transher.evaluation.significance import Comparison
    from transher.graph.statistics import GraphStatistics
    from transher.runs.movement import UpdateReport
    from transher.runs.search import Outcome, Range
    from transher.training.rule_recipe import AnyRecipe

# No emoji: a name may be `:smile:`, and is not to become a picture.
OUTPUT = Console(highlight=False, emoji=False)
MESSAGES = Console(stderr=True, highlight=False, emoji=False)
_SHOWN = 5  # how many patterns of a kind
_WIDE = 110  # columns from which on a table of long names has room for all its figures
_WORD = re.compile(r"\s*\S+\s*")
_PART = re.compile(r"[^\s/_.,;:#→∘—-]*[\s/_.,;:#→∘—-]+|[^\s/_.,;:#→∘—-]+")


def note(text: str) -> None:
    """Something to know besides the result."""
    _tell(MESSAGES, text)


def say(text: str = "") -> None:
    """A sentence of the result."""
    _tell(OUTPUT, text)


def _tell(console: Console, text: str) -> None:
    """Text as it is: wrapped between words in a terminal, and not at all where a program reads it."""
    lines = shown_lines(text).split("\n")
    if console.is_terminal:
        lines = [part for line in lines for part in wrapped(line, console.width)]
    console.print(Text("\n".join(lines)), soft_wrap=True)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Columns whose values are all numbers go to the right. Names are shown as they are, and wrapped between their
    parts."""
    cells = [[shown(cell) if isinstance(cell, str) else _number(cell) for cell in row] for row in rows]
    table = Table(
        title=Text(shown_lines(title)) if title else None,
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_header=any(columns),
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for position, column in enumerate(columns):
        numeric = bool(cells) and all(_looks_numeric(row[position]) for row in cells)
        table.add_column(Text(column), justify="right" if numeric else "left", no_wrap=numeric)
    for row in cells:
        table.add_row(*(_Name(cell) for cell in row))
    OUTPUT.print(table)


class _Name:
    """A table's cell, which is wrapped where it is too long."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        parts = [cell_len(part.rstrip()) for part in _PART.findall(self.text)]
        return Measurement(max(parts, default=0), cell_len(self.text)).with_maximum(options.max_width)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text("\n".join(wrapped(self.text, options.max_width)), justify=options.justify)


def wrapped(text: str, width: int) -> list[str]:
    """`text` in lines of at most `width` cells. A line ends between words. A word that fits in no line, as the names of
    relations may be, is wrapped after a mark such as / and _; a part that still fits in none has … in its middle."""
    lines, line = [], ""
    for piece in _pieces(text, width):
        if line and cell_len((line + piece).rstrip()) > width:
            lines.append(line.rstrip())
            line = ""
        line += _shortened(piece, width)
    return [*lines, line.rstrip()]


def _pieces(text: str, width: int) -> Iterator[str]:
    for word in _WORD.findall(text):
        if cell_len(word.rstrip()) <= width:
            yield word
        else:
            yield from _PART.findall(word)


def _shortened(piece: str, width: int) -> str:
    """The piece, without its middle if it is too wide."""
    if cell_len(piece.rstrip()) <= width:
        return piece
    half = max(0, width - 1) // 2
    start, end = piece[: width - 1 - half], piece.rstrip()[len(piece.rstrip()) - half :]
    while start and cell_len(start) + 1 + cell_len(end) > width:  # of wide characters fewer fit
        start, end = start[:-1], end[1:]
    return f"{start}…{end}"


def print_evaluation(title: str, evaluation: dict[str, Any], by: str | None = None) -> None:
    """The metrics of both sides together, and a line for each side, relation type or relation; where there is an
    interval for the MRR, it stands behind it."""
    rows = {"both sides": evaluation["overall"]}
    if by == "type":
        for side, types in evaluation["by_type"].items():
            rows |= {f"{side} {kind}": metrics for kind, metrics in types.items()}
    else:
        rows |= evaluation["by_relation" if by == "relation" else "by_side"]
    columns: dict[str, Callable[[dict[str, Any]], str]] = {
        "MRR": lambda row: f"{row['mrr']:.4f}",
        "95 % interval": lambda row: _interval(row["intervals"].get("mrr")),
        "MR": lambda row: f"{row['mr']:.1f}",
        "H@1": lambda row: f"{row['hits@1']:.4f}",
        "H@3": lambda row: f"{row['hits@3']:.4f}",
        "H@10": lambda row: f"{row['hits@10']:.4f}",
        "queries": lambda row: f"{row['count']:,}",
    }
    if by == "relation" and OUTPUT.width < _WIDE:
        del columns["95 % interval"]  # the names of relations need its place; --json has it
    print_table(
        title,
        ["", *columns],
        ((name, *(figure(row) for figure in columns.values())) for name, row in rows.items()),
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
    """Whether probabilities came true on the test triples, and the diagram of what people are shown as a table."""
    rows = [(f"best {promise.facts:,} facts of a completion", promise) for promise in report.best]
    rows.append((f"first three answers of {report.queries:,} random queries", report.first_answers))
    print_table(
        f"{report.graph}: {report.hidden:,} test triples hidden, all others known",
        ["", "facts", "mean probability", "share that holds", "difference"],
        ((name, promise.facts, *_kept(promise)) for name, promise in rows),
    )
    print_table(
        "All of these facts, by probability",
        ["probability", "facts", "mean probability", "share that holds"],
        (
            (f"{bin.start:.1f}–{bin.end:.1f}", bin.count, f"{bin.probability:.3f}", f"{bin.holds:.3f}")
            for bin in report.shown.bins
        ),
    )
    print_table(
        "Against the usual calibration (Platt, drawn corruptions) on the same facts",
        ["", "calibration error", "Brier", "log loss"],
        (
            (name, f"{part.calibration_error:.4f}", f"{part.brier:.4f}", f"{part.log_loss:.4f}")
            for name, part in (("judge", report.shown), ("usual", report.former))
        ),
    )
    say("A fact counts only if it is a test triple: what nobody has written down counts as wrong.")


def print_backtest(report: Backtest) -> None:
    """What a run said of facts that came true later."""
    left_out = f" ({report.left_out:,} left out: known already, or with names that the graph lacks)"
    say(f"{report.graph}: {report.later:,} facts that came later{left_out if report.left_out else ''}")
    say(f"Their rank among all entities: MRR {report.mrr:.4f}, median {report.median_rank:,.0f}")
    for title, rows in (
        ("Share of the best facts that came true", report.best),
        (f"Without the {report.frequent} most frequent answers", report.rare),
    ):
        print_table(
            title,
            ["facts", "mean probability", "by the judge", "by popularity", "by chance"],
            (_came(row) for row in rows),
        )
    print_table(
        f"Of the best facts {report.promised:,.0f} were expected to hold, {report.came:,} came true",
        ["probability", "facts", "mean probability", "share that came true"],
        (
            (f"{tenth / 10:.1f}–{(tenth + 1) / 10:.1f}", promise.facts, *_kept(promise)[:2])
            for tenth, promise in enumerate(report.tenths)
            if promise.facts
        ),
    )


def _kept(promise: Promise) -> tuple[str, str, str]:
    difference = promise.probability - promise.holds
    return f"{promise.probability:.3f}", f"{promise.holds:.3f}", f"{difference:+.3f}"


def _came(came: Came) -> tuple[object, ...]:
    return came.facts, f"{came.probability:.3f}", f"{came.judge:.3f}", f"{came.popularity:.4f}", f"{came.chance:.5f}"


def print_statistics(statistics: GraphStatistics) -> None:
    """A graph's figures: sizes, degrees, relation types, and the strongest of its patterns."""
    splits = ", ".join(f"{count:,} {split}" for split, count in statistics.triples.items())
    say(f"{statistics.name}: {statistics.entities:,} entities, {statistics.relations:,} relations; {splits}")
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
        say(f"and {', '.join(f'{count:,} more {kind}' for kind, count in hidden.items())}: see --json")
    leak = statistics.leakage
    say(
        f"Test triples whose reverse is a training triple: {leak.same_relation:.1%} by the same relation, "
        f"{leak.inverse_relation:.1%} by an inverse one, {leak.any_relation:.1%} by any."
    )
    duplicates = sum(statistics.duplicate_triples.values())
    overlaps = ", ".join(f"{count:,} in {pair}" for pair, count in statistics.overlaps.items() if count) or "none"
    say(
        f"Duplicate triples: {duplicates:,}. Triples in two splits: {overlaps}. Not in any training triple: "
        f"{statistics.unseen_entities:,} entities, {statistics.unseen_relations:,} relations."
    )


def print_recipe(recipe: AnyRecipe, reason: str) -> None:
    """The settings of a training, a paragraph per section."""
    note(reason)
    table = Table.grid(padding=(0, 1, 0, 0))
    for section, values in recipe.model_dump().items():
        settings = shown(" ".join(f"{key}={value}" for key, value in values.items()))
        table.add_row(Text(f"  {section}", "bold"), Text(settings))
    MESSAGES.print(table)


def print_search(found: Outcome, space: Sequence[Range]) -> None:
    """The best settings, and how much each matters."""
    rows = []
    for part in space:
        value, importance = part.value_in(found.recipe), found.importance.get(part.key)
        best = str(value) if isinstance(value, str) else f"{value:.4g}"
        rows.append((part.key, best, "" if importance is None else f"{importance:.0%}"))
    print_table(
        f"Best of {found.finished} finished and {found.pruned} pruned trials: validation MRR {found.mrr:.4f}",
        ["setting", "best", "importance"],
        rows,
    )


def print_answers(answers: pd.DataFrame, asked: str) -> None:
    """Ranked answers under the query that they answer; identifiers only where they say more than the names."""
    if not len(answers):
        say("No answers: everything that fits is known already.")
        return
    first = answers.iloc[0]
    query = ", ".join("?" if part == asked else str(first[part]) for part in ("head", "relation", "tail"))
    columns: dict[str, Callable[[dict[Any, Any]], object]] = {
        "": lambda row: str(row["rank"]),
        "answer": lambda row: row[asked],
        "identifier": lambda row: row["identifier"],
        "score": lambda row: f"{row['score']:.3f}",
        "probability": lambda row: f"{row['probability']:.1%}" if "probability" in row else "",
        " ": lambda row: "known" if row["known"] else "",
    }
    if (answers[asked] == answers["identifier"]).all():
        del columns["identifier"]
    rows = answers.to_dict("records")
    print_table(f"({query})", [*columns], ([value(row) for value in columns.values()] for row in rows))


def print_evidence(evidence: Evidence) -> None:
    """From the strongest reason to the other answers."""
    from transher.answering.evidence import fact_in_words, rule_in_words, steps_in_words
    from transher.answering.words import effect_in_words

    say(fact_in_words(evidence.fact))
    probability = "" if evidence.probability is None else f"probability {evidence.probability:.1%}, "
    say(
        f"{probability}score {evidence.score:.3f}; among answers that the graph lacks it is number "
        f"{evidence.ranks['tail']:,} of the tails and {evidence.ranks['head']:,} of the heads."
    )
    if evidence.known:
        say("The graph has this fact: what follows is what else supports it.")
    if evidence.because:
        say("\nWhy this probability")
        for reason in evidence.because:
            say(f"  {reason.sentence} This {effect_in_words(reason)}.")
    say("\nFacts that lead there")
    for rule in evidence.rules:
        say(f"  {steps_in_words(rule.examples[0])}")
        more = f"; {rule.paths:,} such paths" if rule.paths > 1 else ""
        say(f"      {rule.kind}: {rule_in_words(rule)} ({rule.confidence:.0%}){more}")
    if not evidence.rules:
        say("  none of at most three steps")
    say()
    print_table(
        "Similar entities with such a fact",
        ["fact", "cosine similarity"],
        ((fact_in_words(similar.fact), f"{similar.similarity:.2f}") for similar in evidence.similar),
    )
    if evidence.influences:
        print_table(
            "Known facts that moved the score most",
            ["fact", "effect on the score", "share of all effects"],
            ((fact_in_words(one.fact), f"{one.size:+.2f}", f"{one.share:.1%}") for one in evidence.influences),
        )
        say(
            "Effect: by how much the score would rise (+) or fall (−), per unit of learning rate, if training saw the "
            "fact once more; an estimate from gradients. Share: its part of the effects, signs aside, of all facts "
            "about the head or the tail.\n"
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
    say(
        f"{summary.facts:,} new facts{spread}, out of {summary.pairs:,} pairs of {summary.relations:,} relations, "
        f"are in {summary.out}."
    )
    if summary.expected is not None and summary.facts:
        count = f"{summary.expected:,.0f}" if summary.expected >= 10 else f"{summary.expected:.1f}"
        say(f"By their probabilities, {count} of them are expected to hold.")


def print_update(out: str, report: UpdateReport) -> None:
    """What joined a run, and how far old answers moved."""
    more = ", …" if report.new_entities > len(report.examples) else ""
    names = f" ({', '.join(report.examples)}{more})" if report.examples else ""
    say(
        f"Triples added: {report.added:,}; known already: {report.already_known:,}. "
        f"New relations: {report.new_relations:,}; new entities: {report.new_entities:,}{names}. The run is in {out}."
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
            *(
                [("similarity of old rows to what they were", f"{report.row_similarity:.4f}")]
                if report.row_similarity is not None
                else []
            ),
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
