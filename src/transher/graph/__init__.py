"""Triples in, integer ids out."""

from transher.graph.benchmarks import list_benchmarks
from transher.graph.graph import SIDES, SPLITS, Candidates, Graph, Side, Split, Triples
from transher.graph.known import KnownTriples
from transher.graph.loading import load_graph
from transher.graph.readers import read_graph, read_triples
from transher.graph.report import LoadReport, Unseen
from transher.graph.splits import split_triples
from transher.graph.statistics import RELATION_TYPES, GraphStatistics, graph_statistics, relation_types
from transher.graph.storage import load_graph_folder, save_graph
from transher.graph.vocabulary import Vocabulary

__all__ = [
    "RELATION_TYPES",
    "SIDES",
    "SPLITS",
    "Candidates",
    "Graph",
    "GraphStatistics",
    "KnownTriples",
    "LoadReport",
    "Side",
    "Split",
    "Triples",
    "Unseen",
    "Vocabulary",
    "graph_statistics",
    "list_benchmarks",
    "load_graph",
    "load_graph_folder",
    "read_graph",
    "read_triples",
    "relation_types",
    "save_graph",
    "split_triples",
]
