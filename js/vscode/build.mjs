// Bundle the VS Code extension into js/vscode/dist. scripts/vsix.py packs it.
import { rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const outdir = join(here, "dist");
const common = {
  outdir,
  bundle: true,
  target: "es2022",
  minify: true,
  legalComments: "inline",
  logLevel: "warning",
};
const entry = (name) => join(here, "src", `${name}.ts`);

await rm(outdir, { recursive: true, force: true });
const extension = { ...common, format: "cjs", external: ["vscode"] };
await build({ ...extension, entryPoints: [entry("extension")], platform: "node" });
await build({ ...extension, entryPoints: [entry("web")], platform: "browser" });
await build({ ...common, entryPoints: [entry("webview")], format: "iife" });
