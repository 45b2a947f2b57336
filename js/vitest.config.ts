import { playwright } from "@vitest/browser-playwright";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const root = fileURLToPath(new URL("..", import.meta.url));
// As in `tests/support/browser.py`: the headless shell has no windows, so pages open faster.
const browsers = ["/usr/bin/chromium-headless-shell", "/usr/bin/chromium"];
const chromium = process.env.HTA_CHROMIUM ?? browsers.find(existsSync);
if (chromium === undefined || !existsSync(chromium)) {
  throw new Error(`no browser at ${chromium ?? browsers[1]}: install chromium or set HTA_CHROMIUM`);
}

// The flags of browsers that Python starts; see `tests/support/browser.py`.
const flags = JSON.parse(readFileSync(`${root}tests/support/chromium.json`, "utf8")) as string[];

export default defineConfig({
  root,
  test: {
    projects: [
      {
        extends: true,
        test: {
          name: "unit",
          environment: "jsdom",
          alias: { vscode: `${root}js/vscode/test/vscode.ts` },
          testTimeout: 30_000, // on a busy machine
          isolate: false, // a new jsdom per file would take ten times as long as all tests
          setupFiles: [`${root}js/test/boxes.ts`, `${root}js/test/console.ts`],
          include: ["js/{src,test,lab,vscode}/**/*.test.ts"],
          exclude: ["js/{src,test,vscode}/**/*.browser.test.ts"],
        },
      },
      {
        extends: true,
        // The packages of ipywidgets expect names from Node.
        define: { "process.env": "{}", global: "globalThis" },
        test: {
          name: "browser",
          testTimeout: 30_000,
          expect: { poll: { timeout: 8_000 } },
          setupFiles: [`${root}js/test/patience.ts`, `${root}js/test/console.ts`],
          include: ["js/{src,test,vscode}/**/*.browser.test.ts"],
          browser: {
            enabled: true,
            headless: true,
            screenshotFailures: false,
            viewport: { width: 1280, height: 800 },
            api: { host: "127.0.0.1" },
            provider: playwright({ launchOptions: { executablePath: chromium, args: flags } }),
            instances: [{ browser: "chromium" }],
          },
        },
      },
    ],
  },
});
