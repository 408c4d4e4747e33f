"""Triples in, integer ids out."""

from transher.graph.graph import SPLITS, Candidates, Graph, Split, Triples
from transher.graph.known import KnownAnswers
from transher.graph.vocabulary import Vocabulary

__all__ = ["SPLITS", "Candidates", "Graph", "KnownAnswers", "Split", "Triples", "Vocabulary"]
