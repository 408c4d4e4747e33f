"""Answers: from a question by ids to ranked, filtered, probable triples, and the evidence for each."""
