// Names as people read them. Freebase writes a relation as a path of paths: its last words say most.

export function relationWords(name) {
  const parts = name.split("./").map((part) => part.split("/").filter(Boolean).pop() ?? part);
  if (!name.includes("/")) return name.replaceAll("_", " ").trim() || name;
  const distinct = parts.filter((part, place) => part !== parts[place - 1]);
  return distinct.join(" · ").replaceAll("_", " ");
}

// The field that such a path belongs to, as "award"; nothing for plain names.
export const relationField = (name) => (name.startsWith("/") ? name.split("/")[1].replaceAll("_", " ") : "");

// An end of a relation as it stands in a sentence: "speaks …" for those that speak, "… speaks" for what is spoken.
export const groupWords = (name) => name.replace(/^(head|tail) of (.*)$/, (_, end, relation) =>
  end === "head" ? `${relationWords(relation)} …` : `… ${relationWords(relation)}`);

// A label without the identifier that tells it from its namesakes; that stands in a tooltip or beside it.
export const plainLabel = (name, identifier) => {
  const ending = ` (${identifier})`;
  return name.endsWith(ending) ? name.slice(0, -ending.length) : name;
};
export const plainName = (entity) => plainLabel(entity.name, entity.identifier);
