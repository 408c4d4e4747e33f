"""Evidence, completions and updates as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transher.cli.display import OUTPUT, print_table

if TYPE_CHECKING:
    from transher.answering.completion import CompletionSummary
    from transher.answering.evidence import Evidence
    from transher.runs.update import UpdateReport


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
            (fact_in_words(other.fact), f"{other.score:.3f}",
             "" if other.probability is None else f"{other.probability:.1%}", "known" if other.known else "")
            for other in evidence.alternatives
        ),
    )  # fmt: skip


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
