/* global harness, URLSearchParams */
// Draws the stage in headless Chromium and writes pictures: node js/dev/shoot.mjs [--bridge URL] OUT [case…]
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { chromium } from "playwright";

const here = dirname(fileURLToPath(import.meta.url));
const FLAGS = JSON.parse(
  await readFile(join(here, "..", "..", "tests", "support", "chromium.json"), "utf8"),
);

export async function serveHarness() {
  const { outputFiles } = await build({
    entryPoints: [join(here, "harness.ts")],
    bundle: true,
    format: "esm",
    target: "es2022",
    write: false,
    sourcemap: "inline",
  });
  const script = outputFiles[0].text;
  const server = createServer((request, response) => {
    const js = request.url.startsWith("/harness.js");
    response.setHeader("content-type", js ? "text/javascript" : "text/html; charset=utf-8");
    response.end(
      js
        ? script
        : '<!doctype html><meta charset="utf-8"><body><script type="module" src="/harness.js"></script>',
    );
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, url: `http://127.0.0.1:${server.address().port}/` };
}

export function launch() {
  return chromium.launch({
    executablePath: process.env.HTA_CHROMIUM ?? "/usr/bin/chromium",
    args: [...FLAGS, "--enable-precise-memory-info"],
  });
}

export async function openStage(
  browser,
  url,
  query,
  { width = 1100, height = 445, scale = 1 } = {},
) {
  const context = await browser.newContext({
    viewport: { width, height },
    deviceScaleFactor: scale,
  });
  const page = await context.newPage();
  page.on("pageerror", (error) => console.error("page:", error.message));
  page.on("console", (message) => {
    if (message.type() === "error") console.error("console:", message.text());
  });
  await page.goto(`${url}?${new URLSearchParams({ width, height, ...query })}`);
  await page.waitForSelector("body[data-ready]");
  await page.evaluate(() => harness.settled());
  return page;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { CASES } = await import("./cases.mjs");
  const args = process.argv.slice(2);
  const at = args.indexOf("--bridge");
  const bridge = at < 0 ? null : args.splice(at, 2)[1];
  const [out = "/tmp/stage", ...only] = args;
  await mkdir(out, { recursive: true });
  const { server, url } = await serveHarness();
  const browser = await launch();
  for (const { name, query = {}, size = {}, act } of CASES) {
    if (only.length > 0 && !only.includes(name)) continue;
    const page = await openStage(browser, url, { ...query, ...(bridge ? { bridge } : {}) }, size);
    if (act) {
      await page.evaluate(act);
      await page.evaluate(() => harness.settled());
    }
    await writeFile(join(out, `${name}.png`), await page.screenshot());
    console.log(`${name}.png`);
    await page.context().close();
  }
  await browser.close();
  server.close();
}
