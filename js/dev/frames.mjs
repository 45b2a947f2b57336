/* global harness */
// Times the page's own work per frame while panning and zooming: node js/dev/frames.mjs [query…]
// Queries are key=value pairs of the harness, e.g. ranks=64 dense=2 bridge=http://127.0.0.1:8911
import { launch, openStage, serveHarness } from "./shoot.mjs";

const query = Object.fromEntries(process.argv.slice(2).map((pair) => pair.split(/=(.*)/s)));
const size = { width: Number(query.width ?? 1100), height: Number(query.height ?? 416) };

function percentile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];
}

function report(name, { work, flushed, intervals, labels, rects, pending }) {
  const of = (values) =>
    `p50 ${percentile(values, 0.5).toFixed(2)} p95 ${percentile(values, 0.95).toFixed(2)}`;
  const slow = intervals.filter((ms) => ms > 25).length;
  console.log(
    `${name}: work ${of(work)} ms · with raster ${of(flushed)} ms · intervals > 25 ms: ${slow} of ${intervals.length}` +
      ` · labels ${Math.max(...labels)} · rects ${Math.max(...rects)} · pending frames ${pending}`,
  );
}

const { server, url } = await serveHarness();
const browser = await launch();
const page = await openStage(browser, url, { ranks: 64, ...query }, size);
const moves = {
  "pan, whole job": (job) =>
    Array.from({ length: 120 }, (_, i) => around(job, 0.5 + 0.2 * Math.sin(i / 12), 0.5)),
  "zoom in and out": (job) =>
    Array.from({ length: 160 }, (_, i) =>
      around(job, 0.4, 0.9 * 0.00002 ** ((1 - Math.cos((i / 80) * Math.PI)) / 2)),
    ),
  "pan, 3 ms": (job) =>
    Array.from({ length: 120 }, (_, i) => around(job, 0.4 + i * 0.00005, 0.0038)),
  "pan, 30 ms": (job) =>
    Array.from({ length: 120 }, (_, i) => around(job, 0.3 + i * 0.0006, 0.038)),
  scroll: () => Array.from({ length: 120 }, (_, i) => (i < 60 ? 9 : -9)),
};

function around([start, end], middle, share) {
  const span = (end - start) * share;
  const at = start + (end - start) * middle;
  return [at - span / 2, at + span / 2];
}

const job = await page.evaluate(() => [...harness.stage.scene.range]);
if (query.open) {
  await page.evaluate(
    (rank) => harness.stage.setRows({ open: new Set([rank]), pinned: [], filter: "" }),
    Number(query.open),
  );
}
for (const [name, views] of Object.entries(moves)) {
  const result = await page.evaluate((list) => harness.measure(list), views(job));
  report(name, result);
}
await browser.close();
server.close();
