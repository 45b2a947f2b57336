/* global URLSearchParams */
// Pictures of the whole timeline in headless Chromium:
// node js/dev/app_shoot.mjs [--bridge URL] OUT [case…]
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { APP_CASES } from "./app_cases.mjs";
import { launch } from "./shoot.mjs";

const here = dirname(fileURLToPath(import.meta.url));

async function serve() {
  const { outputFiles } = await build({
    entryPoints: [join(here, "app_harness.ts")],
    bundle: true,
    outdir: "/out",
    format: "esm",
    target: "es2022",
    write: false,
    sourcemap: "inline",
  });
  const text = (suffix) => outputFiles.find(({ path }) => path.endsWith(suffix)).text;
  const files = {
    "/app.js": ["text/javascript", text(".js")],
    "/app.css": ["text/css", text(".css")],
  };
  const html =
    '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="/app.css">' +
    '<body data-harness="app"><script type="module" src="/app.js"></script>';
  const server = createServer((request, response) => {
    const [type, body] = files[request.url.split("?")[0]] ?? ["text/html; charset=utf-8", html];
    response.setHeader("content-type", type);
    response.end(body);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}/` };
}

const args = process.argv.slice(2);
const at = args.indexOf("--bridge");
const bridge = at < 0 ? {} : { bridge: args.splice(at, 2)[1] };
const [out = "/tmp/app", ...only] = args;
await mkdir(out, { recursive: true });
const { server, url } = await serve();
const browser = await launch();
for (const { name, query = {}, size = {}, act } of APP_CASES) {
  if (only.length > 0 && !only.some((one) => name.startsWith(one))) continue;
  const { width = 1100, height = 720, scale = 1 } = size;
  const context = await browser.newContext({
    viewport: { width, height },
    deviceScaleFactor: scale,
  });
  const page = await context.newPage();
  page.on("pageerror", (error) => console.error(`${name}: ${error.stack}`));
  page.on("console", (message) => {
    if (message.type() === "error") console.error(`${name}: ${message.text()}`);
  });
  await page.goto(`${url}?${new URLSearchParams({ width, ...bridge, ...query })}`);
  await page.waitForSelector("body[data-ready]");
  await page.waitForTimeout(500);
  if (act) {
    await act(page);
    await page.waitForTimeout(500);
  }
  await writeFile(join(out, `${name}.png`), await page.screenshot());
  console.log(`${name}.png`);
  await context.close();
}
await browser.close();
server.close();
