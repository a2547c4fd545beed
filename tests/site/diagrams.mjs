// Reads Mermaid sources, a JSON list on standard input, with the library that the argument names, and prints what is
// wrong with them.
import { readFileSync } from "node:fs";
import { runInThisContext } from "node:vm";

// As much of a browser as the library asks for before it reads a diagram.
globalThis.window = {
  document: { nodeType: 9, implementation: {}, createElement: () => ({}) },
  Element: class {},
};
runInThisContext(readFileSync(process.argv[2], "utf8"));
for (const source of JSON.parse(readFileSync(0, "utf8"))) {
  await globalThis.mermaid.parse(source).catch((error) => console.log(`${source}\n${error.message}`));
}
