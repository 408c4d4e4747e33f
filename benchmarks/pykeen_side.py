"""PyKEEN's PairRE by its public API: one step of training, and ranking with its own evaluator."""

from __future__ import annotations

import logging
from typing import Any

import torch

from transher.graph.graph import Graph


class PyKeen:
    """PairRE of dimension k on the graph, on a device, with PyKEEN's defaults for it: self-adversarial loss, Adam over
    all rows."""

    def __init__(self, graph: Graph, k: int, device: torch.device) -> None:
        logging.getLogger("pykeen").setLevel(logging.ERROR)
        from pykeen.models import PairRE
        from pykeen.triples import CoreTriplesFactory

        self._factory_class = CoreTriplesFactory
        self.graph = graph
        self.factory = self._factory(graph.train)
        self.model = PairRE(triples_factory=self.factory, embedding_dim=k, random_seed=0).to(device)

    def _factory(self, triples: Any) -> Any:
        return self._factory_class(
            mapped_triples=torch.from_numpy(triples).long(),
            num_entities=len(self.graph.entities),
            num_relations=len(self.graph.relations),
        )

    def step(self, batch: int, negatives: int) -> Any:
        """A function that trains one step: its training loop for one epoch on as many triples as a batch has, so
        that sampling of negatives, both score passes, loss, gradient and Adam are timed."""
        from pykeen.training import SLCWATrainingLoop

        factory = self._factory(self.graph.train[:batch])
        loop = SLCWATrainingLoop(
            model=self.model,
            triples_factory=factory,
            optimizer=torch.optim.Adam(self.model.parameters(), lr=1e-6),
            automatic_memory_optimization=False,  # a search for the largest batch that fits, which costs several steps
            negative_sampler="basic",
            negative_sampler_kwargs={"num_negs_per_pos": negatives},
        )
        epochs = 0

        def train() -> None:
            nonlocal epochs
            epochs += 1
            loop.train(
                triples_factory=factory,
                num_epochs=epochs,
                batch_size=batch,
                continue_training=epochs > 1,
                use_tqdm=False,
                pin_memory=False,
            )

        return train

    def ranking(self, count: int, batch: int) -> Any:
        """A function that ranks `count` test triples on both sides, filtered."""
        from pykeen.evaluation import RankBasedEvaluator

        evaluator = RankBasedEvaluator(filtered=True)
        known = [torch.from_numpy(part).long() for part in (self.graph.train, self.graph.valid, self.graph.test)]
        chosen = known[2][torch.randperm(len(known[2]), generator=torch.Generator().manual_seed(0))[:count]]

        def evaluate() -> Any:
            return evaluator.evaluate(
                self.model, chosen, batch_size=batch, additional_filter_triples=known, use_tqdm=False
            )

        return evaluate
