// Bundles charts_harness.ts into the file that is named: node js/dev/charts_bundle.mjs OUT.js
import { readFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

await build({
  entryPoints: [join(dirname(fileURLToPath(import.meta.url)), "charts_harness.ts")],
  outfile: process.argv[2],
  bundle: true,
  format: "esm",
  plugins: [
    {
      name: "text-imports",
      setup(api) {
        api.onResolve({ filter: /\?raw$/ }, (args) => ({
          path: resolve(args.resolveDir, args.path.replace(/\?raw$/, "")),
          namespace: "text",
        }));
        api.onLoad({ filter: /.*/, namespace: "text" }, async (args) => ({
          contents: await readFile(args.path, "utf8"),
          loader: "text",
        }));
      },
    },
  ],
});
