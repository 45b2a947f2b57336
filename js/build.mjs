// Bundle each js/src/entries/NAME.ts into hta_widgets/static/NAME.js, an ES module that anywidget
// imports unchanged, and entries/NAME.css into static/NAME.css. `import text from "../x.css?raw"`
// imports a file as a string, as in Vite. js/lab becomes the JupyterLab extension in
// share/jupyter/labextensions, where the wheel installs it.
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
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

/** Replaces Vite's `import.meta.glob` with a module that contains all chart definitions. */
const globImport = {
  name: "glob-import",
  setup(api) {
    const folder = resolve(here, "..", "hta_widgets", "charts", "definitions");
    api.onResolve({ filter: /^glob-import$/ }, ({ path }) => ({
      path,
      namespace: "glob",
      sideEffects: false,
    }));
    api.onLoad({ filter: /.*/, namespace: "glob" }, async () => {
      const files = (await readdir(folder)).filter((name) => name.endsWith(".json")).sort();
      const imports = files.map((name, at) => `import file${at} from "./${name}";\n`).join("");
      const entries = files.map((name, at) => `"/${name}": file${at}`).join(", ");
      const contents = `${imports}export const globImport = () => ({ ${entries} });`;
      return { contents, resolveDir: folder, watchDirs: [folder] };
    });
  },
};

const entryPoints = (await readdir(entriesDir))
  .filter((name) => /\.(ts|css)$/.test(name) && !name.endsWith(".test.ts"))
  .map((name) => join(entriesDir, name));
if (entryPoints.length === 0) throw new Error(`no entries in ${entriesDir}`);

const common = {
  bundle: true,
  target: "es2022",
  minify: !watch,
  sourcemap: watch ? "inline" : false,
  legalComments: "inline",
  metafile: true,
  logLevel: "warning",
  plugins: [textImports, globImport],
  define: { "import.meta.glob": "globImport" },
  inject: ["glob-import"],
};
const options = { ...common, entryPoints, outdir, format: "esm" };

/** Build the JupyterLab extension. JupyterLab reads the path of its script from package.json. */
async function buildLab() {
  const lab = join(here, "lab");
  const target = resolve(here, "..", "share", "jupyter", "labextensions", "hta-widgets");
  const { outputFiles, metafile } = await build({
    ...common,
    entryPoints: [join(lab, "remote.ts")],
    outdir: target,
    format: "iife",
    write: false,
  });
  const contents = (await notices(Object.keys(metafile.inputs))) + outputFiles[0].text;
  // Browsers cache scripts by name, so the name includes a hash of the contents.
  const hash = createHash("sha256").update(contents).digest("hex").slice(0, 16);
  const load = `static/remoteEntry.${hash}.js`;
  const project = await readFile(resolve(here, "..", "pyproject.toml"), "utf8");
  const [, version] = /^version = "(.*)"$/m.exec(project);
  const labPackage = { ...JSON.parse(await readFile(join(lab, "package.json"), "utf8")), version };
  const install = {
    packageManager: "python",
    packageName: "hta_widgets",
    uninstallInstructions: "pip uninstall hta_widgets",
  };
  const jupyterlab = { ...labPackage.jupyterlab, _build: { load, extension: "./extension" } };
  await rm(target, { recursive: true, force: true });
  for (const folder of ["static", `schemas/${labPackage.name}`]) {
    await mkdir(join(target, folder), { recursive: true });
  }
  const files = {
    [load]: contents,
    "package.json": JSON.stringify({ ...labPackage, jupyterlab }, null, 2),
    "install.json": JSON.stringify(install, null, 2),
    [`schemas/${labPackage.name}/package.json.orig`]: JSON.stringify(labPackage, null, 2),
    [`schemas/${labPackage.name}/plugin.json`]: await readFile(join(lab, "plugin.json")),
  };
  for (const [name, text] of Object.entries(files)) await writeFile(join(target, name), text);
  console.log(`labextension: ${contents.length} bytes, ${gzipSync(contents).length} gzipped`);
}

/** Return the licenses of the bundled packages as a comment, for the copies in saved pages. */
async function notices(inputs) {
  const packages = new Set(
    inputs.flatMap((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []),
  );
  const texts = [...packages].sort().map(async (name) => {
    const text = await readFile(join(here, "..", "node_modules", name, "LICENSE"), "utf8");
    return `${name}: ${text.trim()}\n`;
  });
  return packages.size === 0 ? "" : `/*!\n${(await Promise.all(texts)).join("\n")}*/\n`;
}

if (watch) {
  const ctx = await context({ ...options, logLevel: "info" });
  await ctx.watch();
} else {
  // Otherwise the wheel would include files left by an earlier build.
  await rm(outdir, { recursive: true, force: true });
  await mkdir(outdir, { recursive: true });
  const { metafile } = await build(options);
  for (const [file, { inputs }] of Object.entries(metafile.outputs).sort()) {
    const notice = await notices(Object.keys(inputs));
    if (notice !== "") await writeFile(file, notice + (await readFile(file, "utf8")));
    const bytes = await readFile(file);
    const gz = gzipSync(bytes).length;
    console.log(`${basename(file)}: ${bytes.length} bytes, ${gz} gzipped`);
  }
}
await buildLab();
