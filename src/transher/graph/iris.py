"""The segments of IRIs: `section` and `vocab#section` are ends of `http://example.org/vocab#section`."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Scheme:
    """A kind of IRI. Separators behind the last segment do not count: the one of `…/2988507/` is `2988507`."""

    beginning: str  # a regular expression
    separators: str  # what parts its segments

    def occurs(self, identifiers: pa.StringArray) -> bool:
        return bool(pc.any(pc.match_substring_regex(identifiers, f"^{self.beginning}")).as_py())

    def ends(self, identifiers: pa.StringArray, depth: int) -> pa.StringArray:
        """The last `depth` segments of each IRI; null where it has fewer, or is none of this scheme."""
        one, other = f"[{self.separators}]", f"[^{self.separators}]"
        segments = f"(?:{other}*{one}){{{depth - 1}}}{other}+"
        pattern = f"(?s)^{self.beginning}(?:.*{one})?(?P<end>{segments}){one}*$"
        return pc.struct_field(pc.extract_regex(identifiers, pattern=pattern), "end")

    def trimmed(self, words: pa.Array) -> pa.Array:
        """Words without separators at their end."""
        return pc.utf8_rtrim(words, characters=self.separators)

    def depths(self, words: pa.Array) -> pa.Array:
        """How many segments each word has."""
        return pc.add(pc.count_substring_regex(words, f"[{self.separators}]"), 1)

    def last_segments(self, words: pa.Array) -> pa.Array:
        return pc.replace_substring_regex(words, f"(?s)^.*[{self.separators}]", "")

    def last_segment(self, word: str) -> str:
        """Of a single word, which may have separators at its end."""
        word = word.rstrip(self.separators)
        return word[max(word.rfind(separator) for separator in self.separators) + 1 :]


WEB, URN = Scheme("https?://", "/#"), Scheme("urn:", ":/#")
SCHEMES = (WEB, URN)


def ends(identifiers: pa.StringArray, depth: int) -> pa.StringArray:
    """The last `depth` segments of each IRI of any scheme; null where it has fewer, or is no IRI."""
    return pc.coalesce(*(scheme.ends(identifiers, depth) for scheme in SCHEMES))
