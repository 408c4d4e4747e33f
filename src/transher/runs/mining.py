"""A mining from where it stands in its folder to its end: its rules are on disk all the while."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from transher.errors import Interrupted
from transher.graph.graph import Graph
from transher.rules import Mining, Rules
from transher.rules.storage import load_mining, save_counted, save_rules
from transher.training.history import History
from transher.training.rule_recipe import RuleRecipe
from transher.training.stopping import stops_on_signals
from transher.training.watcher import Mined, Watcher

_SAVE_EVERY = 60.0  # seconds: what a kill can cost


def mine_to_end(folder: Path, graph: Graph, recipe: RuleRecipe, watcher: Watcher | None) -> dict[str, float]:
    """Mine for as long as the recipe says, and fit on validation triples what rules are worth; gives what
    it cost. Raises `Interrupted` on Ctrl-C or SIGTERM, with everything saved."""
    watcher = watcher or Watcher()
    mining = load_mining(folder, graph.trained, recipe.mining.seed)
    place, limit, stopping = mining.place, 60 * recipe.mining.minutes, threading.Event()
    history, saved = History(folder, place.blocks), time.monotonic()
    try:
        with stops_on_signals(stopping.set):
            while place.seconds < limit and not stopping.is_set() and mining.advance():
                rules = mining.count
                history.add("report", place.blocks, rules=rules, seconds=place.seconds)
                watcher.mined(Mined(place.blocks, rules, place.seconds, limit))
                if time.monotonic() - saved > _SAVE_EVERY:
                    _save(folder, mining, Rules(mining.rules, graph.trained))
                    saved = time.monotonic()
    finally:
        history.close()
    rules_so_far = Rules(mining.rules, graph.trained)
    _save(folder, mining, rules_so_far)
    if stopping.is_set() and place.seconds < limit and not place.finished:
        raise Interrupted(f"stopped after {place.seconds:.0f} of {limit:.0f} seconds; everything is saved.")
    _save(folder, mining, rules_so_far.fitted(graph.valid, graph.known))
    return {"seconds": place.seconds, "blocks": place.blocks}


def _save(folder: Path, mining: Mining, rules: Rules) -> None:
    save_counted(folder, mining.place)
    save_rules(folder, rules, mining.place, mining.seed)
