"""Logical rules: mining, applying, putting into words. The second kind of scorer."""

from __future__ import annotations

from transher.rules.mining import Mining, mine
from transher.rules.rules import Reasons, Rules, rules_of

__all__ = ["Mining", "Reasons", "Rules", "mine", "rules_of"]
