"""Blends: several scorers as one, with weights for each relation and side that are fitted on validation facts."""

from __future__ import annotations

from transher.blending.blend import Blend, Weights
from transher.blending.fitting import fit_blend
from transher.blending.tallies import Tallies

__all__ = ["Blend", "Tallies", "Weights", "fit_blend"]
