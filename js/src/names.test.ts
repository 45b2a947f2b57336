import { readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import ts from "typescript";
import { expect, test } from "vitest";

const IRREGULAR_PARTICIPLES = new Set(
  (
    "begun bound broken chosen done drawn found given gone held hidden kept known laid left lost made " +
    "meant paid said seen sent shown spoken taken told written"
  ).split(" "),
);
const FILLERS = new Set(["one", "found", "own", "given", "known"]);

const root = dirname(fileURLToPath(import.meta.url));
const modules = readdirSync(root, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && !/\.test\.|\.d\.ts$/.test(name))
  .map((name) => ({
    name,
    source: ts.createSourceFile(
      name,
      readFileSync(join(root, name), "utf8"),
      ts.ScriptTarget.Latest,
      true,
    ),
  }));

function isLoneParticiple(word: string): boolean {
  return IRREGULAR_PARTICIPLES.has(word) || /^[a-z]{3,}[^e]ed$/.test(word);
}

/** Return declarations that `accepts` selects, as "module: name". */
function declarations(accepts: (node: ts.NamedDeclaration, name: string) => boolean): string[] {
  return modules.flatMap((module) => {
    const names: string[] = [];
    const visit = (node: ts.Node): void => {
      const declaration = node as ts.NamedDeclaration;
      if (declaration.name !== undefined && ts.isIdentifier(declaration.name)) {
        const name = declaration.name.text;
        if (accepts(declaration, name)) names.push(`${module.name}: ${name}`);
      }
      ts.forEachChild(node, visit);
    };
    visit(module.source);
    return names;
  });
}

function isFunction(node: ts.NamedDeclaration): boolean {
  return (
    ts.isFunctionDeclaration(node) ||
    ts.isMethodDeclaration(node) ||
    (ts.isVariableDeclaration(node) &&
      node.initializer !== undefined &&
      ts.isArrowFunction(node.initializer))
  );
}

test("no function's name is a lone participle", () => {
  expect(["widened", "told", "feed", "rows"].filter(isLoneParticiple)).toEqual(["widened", "told"]);
  expect(declarations((node, name) => isFunction(node) && isLoneParticiple(name))).toEqual([]);
});

test("no two types have one name", () => {
  const types = declarations(
    (node) =>
      ts.isInterfaceDeclaration(node) ||
      ts.isClassDeclaration(node) ||
      ts.isTypeAliasDeclaration(node),
  );
  const names = types.map((type) => type.split(": ")[1]);
  expect(types.filter((_, place) => names.indexOf(names[place]) !== place)).toEqual([]);
});

test("no name of a module is a filler", () => {
  const isTopLevel = (node: ts.Node): boolean => node.parent.parent.parent === node.getSourceFile();
  expect(
    declarations(
      (node, name) => ts.isVariableDeclaration(node) && isTopLevel(node) && FILLERS.has(name),
    ),
  ).toEqual([]);
});
