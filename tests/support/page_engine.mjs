// Answers requests (one JSON object per line) from a saved page's data, with the page's own code.
// Usage: node page_engine.mjs PAGE.html < requests > replies
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
// A caller that queries several pages passes the path of a bundle, which the first run builds.
const [page, bundle = join(tmpdir(), `hta-page-engine-${process.pid}.mjs`)] = process.argv.slice(2);

const options = {
  stdin: {
    contents: `
      export { PageSource } from "./source";
      export { readBlock } from "./columns";
    `,
    resolveDir: join(root, "js", "src", "engine"),
    loader: "ts",
  },
  bundle: true,
  format: "esm",
  platform: "neutral",
  target: "es2022",
  outfile: bundle,
  logLevel: "error",
};
if (!existsSync(bundle)) await build(options);
const { PageSource, readBlock } = await import(pathToFileURL(bundle).href);

const html = await readFile(page, "utf8");
const texts = new Map();
for (const [, id, text] of html.matchAll(/<script type="application\/x-hta-block" id="hta-([^"]+)">([^<]*)</g)) {
  texts.set(id, text);
}
const blocks = { text: (name) => texts.get(name) ?? null };
const document = JSON.parse(new TextDecoder().decode(await readBlock(blocks, "document")));
const saved = [];
const save = (name, file) => saved.push({ name, file });
const source = new PageSource(document, blocks, save);

const reply = async ({ op, ...request }) => {
  try {
    if (op === "document") return { ok: true, reply: document };
    const answer = await source.ask(op, request);
    const buffer = answer.buffer === null ? null : Buffer.from(answer.buffer).toString("base64");
    const files = [];
    for (const { name, file } of saved.splice(0)) {
      files.push({ name, data: Buffer.from(await file.arrayBuffer()).toString("base64") });
    }
    return { ok: true, reply: answer.reply, buffer, files };
  } catch (error) {
    return { ok: false, error: error.message, stack: error.stack };
  }
};

for await (const line of createInterface({ input: process.stdin })) {
  const answer = await reply(JSON.parse(line));
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
