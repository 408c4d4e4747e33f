// The API, from its own description: every path with its parameters, to be tried out on the spot.

import { ask, get, keepToken } from "./api.js";
import { h, shown } from "./dom.js";
import { failure } from "./parts.js";

const main = document.getElementById("main");

const typeOf = (schema = {}) => schema.type ?? schema.anyOf?.map(typeOf).filter((type) => type !== "null").join(" or ") ?? "";

function bounds(schema = {}) {
  const one = schema.anyOf?.find((part) => part.type !== "null") ?? schema;
  const told = [
    one.enum?.join(", "), one.minimum !== undefined && `from ${one.minimum}`, one.maximum !== undefined && `up to ${one.maximum}`,
    one.maxLength && `at most ${one.maxLength} characters`, schema.default !== undefined && `${schema.default} unless given`,
  ];
  return told.filter(Boolean).join("; ");
}

function field(parameter, runs) {
  const { name, required, schema, description } = parameter;
  const value = name === "run" ? runs[0] : undefined;
  return h("label", { class: "parameter" }, h("b", {}, name), required ? " (required) " : " ",
    h("input", { name, value, required, autocomplete: "off" }),
    h("span", { class: "quiet small" }, [typeOf(schema), bounds(schema), description].filter(Boolean).join(" · ")));
}

function example(body, components) {
  const name = body?.content?.["application/json"]?.schema?.$ref?.split("/").pop();
  return name && components[name] ? JSON.stringify({ queries: [{ head: "", relation: "" }] }, null, 2) : "";
}

function operation(path, method, described, document_, runs) {
  const parameters = described.parameters ?? [];
  const result = h("pre", { class: "result", tabindex: 0, "aria-live": "polite" });
  const body = described.requestBody
    && h("textarea", { name: "body", rows: 5, "aria-label": "Body, as JSON" }, example(described.requestBody, document_.components.schemas));
  const send = async (event) => {
    event.preventDefault();
    const given = (parameter) => event.target.elements[parameter.name].value;
    let url = path;
    const query = {};
    for (const parameter of parameters) {
      if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(given(parameter)));
      else query[parameter.name] = given(parameter);
    }
    result.textContent = "…";
    const { status, text, milliseconds } = await ask(url, query, { method: method.toUpperCase(), body: body?.value });
    result.textContent = `${status}, ${milliseconds.toFixed(0)} ms\n${text.split("\n").map(shown).join("\n")}`;
  };
  return h("details", { class: "card operation" },
    h("summary", {}, h("b", {}, method.toUpperCase()), " ", h("code", {}, path), " ", h("span", { class: "quiet" }, described.description ?? "")),
    h("form", { onsubmit: send }, parameters.map((parameter) => field(parameter, runs)), body ?? "", h("button", {}, "Send")),
    h("p", { class: "quiet small" }, "Answers: ", Object.entries(described.responses).map(([status, { description }]) =>
      `${status} ${description}`).join(" · ")),
    result);
}

async function start() {
  try {
    const [document_, health] = await Promise.all([get("openapi.json"), get("health")]);
    const operations = Object.entries(document_.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, described]) => operation(path, method, described, document_, health.runs)));
    const token = h("input", { type: "password", "aria-label": "Token", autocomplete: "current-password", onchange: () => keepToken(token.value) });
    main.replaceChildren(
      h("div", { class: "title" }, h("h1", {}, `API of transher ${document_.info.version}`),
        h("p", { class: "quiet" }, "Open a path, fill in what it takes, and send. ", h("a", { href: "/" }, "The page"), " · ",
          h("a", { href: "/api/openapi.json" }, "OpenAPI document"))),
      h("label", { class: "toggle" }, "Token, where the server has one ", token), operations);
  } catch (error) {
    if (error.status !== 401) return main.replaceChildren(failure(error));
    const token = h("input", { type: "password", "aria-label": "Token", autocomplete: "current-password" });
    const submit = (event) => { event.preventDefault(); keepToken(token.value); start(); };
    main.replaceChildren(h("form", { class: "card token", onsubmit: submit }, h("h1", {}, "Token"), token, h("button", {}, "Continue")));
  }
}

start();
