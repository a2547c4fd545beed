// Writes types.ts and ../go/types.go (which needs gofmt) from docs/schemas; `--check` says what differs from that.

import { spawnSync } from "node:child_process";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { compile } from "json-schema-to-typescript";
import { FetchingJSONSchemaStore, InputData, JSONSchemaInput, quicktype } from "quicktype-core";

const SCHEMAS = new URL("../../docs/schemas/", import.meta.url);
const MESSAGES = ["submit", "withdraw", "release", "describe"];
// A subscription lets in what names workloads in one of these.
const NAMING = ["workload", "workloads", "returned"];

function read(name) {
  // Two backquotes are reStructuredText's; both languages' comments have one.
  return JSON.parse(readFileSync(new URL(name, SCHEMAS), "utf8").replaceAll("``", "`"));
}

/** Return all definitions of schemas by name, so that a type that several of them share is written once. */
function together(schemas) {
  const definitions = {};
  for (const { $defs, $schema, ...root } of schemas) {
    const name = root.title.replaceAll(" ", "");
    for (const [key, definition] of [...Object.entries($defs ?? {}), [name, { ...root, title: name }]]) {
      const known = JSON.stringify(definitions[key] ?? definition);
      if (known !== JSON.stringify(definition)) throw new Error(`two schemas differ in ${key}`);
      definitions[key] = definition;
    }
  }
  return definitions;
}

/** Return a copy in which each object was changed, the inner ones first. */
function changed(value, change) {
  if (Array.isArray(value)) return value.map((part) => changed(part, change));
  if (value === null || typeof value !== "object") return value;
  const parts = Object.entries(value).map(([name, part]) => [name, changed(part, change)]);
  return change(Object.fromEntries(parts));
}

/** What a reader needs to tell facts apart, and from what only looks like one: the fields that each kind must have. */
function table(events) {
  const kinds = events.map((event) => `  "${event.title}": ${event.title.replaceAll(" ", "")};`);
  const required = events.map((event) => {
    const fields = (event.required ?? []).map((name) => {
      const kind = { string: "string", integer: "number", boolean: "boolean" };
      const stated = event.properties[name];
      const named = stated.$ref && event.$defs[stated.$ref.split("/").at(-1)];
      return `${name}: "${kind[(named || stated).type] ?? "object"}"`;
    });
    return `  "${event.title}": { ${fields.join(", ")} },`;
  });
  return [
    "/** The detail of each fact that a subscription lets in. */",
    "export interface Events {",
    ...kinds,
    "}",
    "/** Fields that a fact must have, with their types in JavaScript. */",
    "export const REQUIRED: { [T in keyof Events]: Record<string, string> } = {",
    ...required,
    "};",
    "",
  ].join("\n");
}

async function typescript(definitions, events) {
  // The generator takes a reference that has a default beside it for a type of its own.
  const bare = changed(definitions, (it) => ("$ref" in it ? { $ref: it.$ref } : it));
  const written = await compile({ title: "Everything", $defs: bare }, "Everything", {
    bannerComment: "// Generated from docs/schemas by generate.mjs.",
    unreachableDefinitions: true,
    additionalProperties: false,
  });
  const types = written
    .replaceAll(/ *\* This interface was referenced by [^\n]*\n *\* via the [^\n]*\n/g, "")
    .replaceAll(/ *\/\*\*\n *\*\/\n/g, "")
    .replaceAll(/ *\*\n( *\*\/\n)/g, "$1")
    .replace(/export interface Everything \{\n[^}]*\}\n/, "");
  return types + table(events);
}

/** A fact always has its numbers, flags and lists, and it is read only: nobody needs to look whether they are there. */
function present(definition) {
  if (!definition.properties) return definition;
  const plain = Object.entries(definition.properties)
    .filter(([, stated]) => ["integer", "boolean", "array"].includes(stated.type))
    .map(([name]) => name);
  return { ...definition, required: [...new Set([...(definition.required ?? []), ...plain])] };
}

async function go(definitions, events) {
  // A quantity is a number or a text; Go has no such type, and writes whatever it is given.
  const plain = changed(definitions, ({ anyOf, ...it }) => {
    const kinds = anyOf?.filter((one) => one.type !== "null") ?? [];
    if (kinds.length > 1 && kinds.every((one) => one.type)) return it;
    return anyOf ? { ...it, anyOf } : it;
  });
  const properties = Object.fromEntries(Object.keys(plain).map((name) => [name, { $ref: `#/$defs/${name}` }]));
  const schema = { title: "Everything", type: "object", properties, $defs: plain };
  const input = new JSONSchemaInput(new FetchingJSONSchemaStore());
  await input.addSource({ name: "Everything", schema: JSON.stringify(schema) });
  const inputData = new InputData();
  inputData.addInput(input);
  const options = { "just-types-and-package": true, package: "reservoir", "omit-empty": true };
  const { lines } = await quicktype({ inputData, lang: "go", rendererOptions: options });
  const types = lines
    .join("\n")
    .replace(/package reservoir\n/, "")
    .replace(/import "time"\n/, "")
    .replace(/type Everything struct \{[^}]*\}\n/, "");
  const text = [
    "// Code generated from docs/schemas by generate.mjs. DO NOT EDIT.\n",
    'package reservoir\n\nimport "time"',
    types.replaceAll(/[ \t]+\n/g, "\n"),
    "// The facts that a subscription lets in.\nvar details = map[string]func() any{",
    ...events.map(({ title }) => `"${title}": func() any { return new(${title.replaceAll(" ", "")}) },`),
    "}",
  ].join("\n");
  const formatted = spawnSync("gofmt", { input: text, encoding: "utf8" });
  if (formatted.status !== 0) throw formatted.error ?? new Error(formatted.stderr);
  return formatted.stdout;
}

const messages = together(MESSAGES.map((name) => read(`messages/${name}.json`)));
const events = readdirSync(new URL("events/", SCHEMAS))
  .sort()
  .map((name) => read(`events/${name}`))
  .filter((event) => NAMING.some((field) => field in event.properties));
const facts = changed(together(events), present);
const definitions = { ...messages, ...facts };
const wanted = [
  ["types.ts", () => typescript(definitions, events)],
  ["../go/types.go", () => go(definitions, events)],
];
const isCheck = process.argv.includes("--check");
for (const [name, write] of wanted) {
  const path = new URL(name, import.meta.url);
  const text = await write();
  if (!isCheck) writeFileSync(path, text);
  else if (readFileSync(path, "utf8") !== text) {
    console.error(`${name} is not what docs/schemas say: npm run types`);
    process.exitCode = 1;
  }
}
