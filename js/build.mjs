// Bundles every js/src/entries/NAME.ts into hta_widgets/static/NAME.js: an ES module that anywidget
// imports as it is. An entry says `import "./NAME.css"` for styles that go to static/NAME.css
// (anywidget's `_css`), and `import text from "../x.css?raw"` for styles (or any text) as a string, as Vite has it.
import { mkdir, readdir, readFile, rm } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build, context } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const entriesDir = join(here, "src", "entries");
const outdir = resolve(here, "..", "hta_widgets", "static");
const watch = process.argv.includes("--watch");

const textImports = {
  name: "text-imports",
  setup(api) {
    api.onResolve({ filter: /\?raw$/ }, (args) => ({
      path: resolve(args.resolveDir, args.path.replace(/\?raw$/, "")),
      namespace: "text",
    }));
    api.onLoad({ filter: /.*/, namespace: "text" }, async (args) => {
      const source = await readFile(args.path, "utf8");
      if (!args.path.endsWith(".css")) return { contents: source, loader: "text" };
      const result = await build({
        stdin: { contents: source, loader: "css", resolveDir: dirname(args.path) },
        bundle: true,
        minify: true,
        write: false,
      });
      return {
        contents: result.outputFiles[0].text,
        loader: "text",
        watchFiles: [args.path],
      };
    });
  },
};

const entryPoints = (await readdir(entriesDir))
  .filter((name) => name.endsWith(".ts") && !name.endsWith(".test.ts"))
  .map((name) => join(entriesDir, name));
if (entryPoints.length === 0) throw new Error(`no entries in ${entriesDir}`);

const options = {
  entryPoints,
  outdir,
  bundle: true,
  format: "esm",
  target: "es2022",
  minify: !watch,
  sourcemap: watch ? "inline" : false,
  legalComments: "inline",
  metafile: true,
  logLevel: "warning",
  plugins: [textImports],
};

if (watch) {
  const ctx = await context({ ...options, logLevel: "info" });
  await ctx.watch();
} else {
  // What an earlier build left behind would end up in the wheel.
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  const { metafile } = await build(options);
  for (const file of Object.keys(metafile.outputs).sort()) {
    const bytes = await readFile(file);
    const gz = gzipSync(bytes).length;
    console.log(`${basename(file)}: ${bytes.length} bytes, ${gz} gzipped`);
  }
}
