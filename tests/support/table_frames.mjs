// Builds table frames with the page's own code: reads {tables, asked} and writes the frames.
import { readFileSync } from "node:fs";
import { build } from "esbuild";

const result = await build({
  entryPoints: ["js/src/formats/source.ts"],
  bundle: true,
  format: "esm",
  write: false,
});
const code = Buffer.from(result.outputFiles[0].contents).toString("base64");
const { frameFromTables } = await import(`data:text/javascript;base64,${code}`);
const { tables, asked } = JSON.parse(readFileSync(0, "utf8"));
const frames = asked.map(({ panel, selection }) => frameFromTables(tables, panel, selection));
process.stdout.write(JSON.stringify(frames));
