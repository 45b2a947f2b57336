import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

/** For each layer (a folder), the layers directly below it; it may import all layers below. */
const LAYERS: Readonly<Record<string, readonly string[]>> = {
  protocol: [],
  facts: ["protocol"],
  ui: ["facts", "protocol"],
  expressions: ["protocol"],
  engine: ["facts", "protocol", "expressions"],
  charts: ["expressions", "ui"],
  formats: ["engine", "charts"],
  connection: ["engine", "ui"],
  stage: ["connection", "ui"],
  timeline: ["stage"],
  dashboard: ["timeline", "charts", "formats"],
  compare: ["timeline", "charts"],
  host: ["ui"],
  entries: ["dashboard", "compare", "host"],
};

const root = dirname(fileURLToPath(import.meta.url));
const modules = readdirSync(root, { recursive: true, encoding: "utf8" }).filter(
  (name) => /\.tsx?$/.test(name) && !name.includes(".test."),
);

/** Return the folder of a module, or its name if it has no folder. */
function layerOf(module: string): string {
  return module.split(/[/.]/)[0]!;
}

/** Return a layer and all layers below it. */
function withLayersBelow(layer: string): Set<string> {
  return new Set([layer, ...(LAYERS[layer] ?? []).flatMap((lower) => [...withLayersBelow(lower)])]);
}

/** Return the modules that a module imports or re-exports, as values or types. */
function importsOf(module: string): string[] {
  const text = readFileSync(join(root, module), "utf8");
  const statements = text.matchAll(/^(?:import|export) (?:[^";]*? from )?"(\.[^"]+)";/gms);
  return [...statements]
    .map(([, path]) => relative(root, join(root, dirname(module), path!)))
    .flatMap((other) => modules.filter((name) => name.replace(/\.tsx?$/, "") === other));
}

test("a layer imports only layers below it", () => {
  const upward = modules.flatMap((module) => {
    const allowed = withLayersBelow(layerOf(module));
    return importsOf(module)
      .filter((other) => !allowed.has(layerOf(other)))
      .map((other) => `${module} imports ${other}`);
  });
  expect(upward).toEqual([]);
  expect(modules.length).toBeGreaterThan(100);
});

test("no circle of modules, imports of types included", () => {
  const done = new Set<string>();
  const circles: string[] = [];
  const visit = (module: string, path: string[]): void => {
    if (path.includes(module))
      circles.push([...path.slice(path.indexOf(module)), module].join(" → "));
    else if (!done.has(module)) {
      for (const other of importsOf(module)) visit(other, [...path, module]);
      done.add(module);
    }
  };
  for (const module of modules) visit(module, []);
  expect(circles).toEqual([]);
});
