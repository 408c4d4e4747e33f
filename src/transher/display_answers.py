"""Evidence, completions and updates as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from transher.display import OUTPUT, print_table

if TYPE_CHECKING:
    from transher.prediction.evidence import Evidence


def print_evidence(evidence: Evidence) -> None:
    """From the strongest reason to the other answers."""
    from transher.prediction.evidence import fact_in_words, rule_in_words, steps_in_words

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
