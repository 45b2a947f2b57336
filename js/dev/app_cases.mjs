/* global app, source, state */
// What to draw: each case opens the harness with `query`, then acts as a user would.
const narrow = { width: 700, height: 760 };

async function pick(page, text = "AllReduce") {
  await page.evaluate(async (name) => {
    const brief = source.first
      ? source.first(name)
      : (await source.ask("find", { text: name, from: null, direction: 1 })).reply.brief;
    state.set("selected_event", [brief.rank, brief.id]);
    state.set("view", [brief.start - brief.dur, brief.start + 2 * brief.dur]);
  }, text);
}

async function area(page) {
  await page.mouse.move(330, 190);
  await page.mouse.down();
  await page.mouse.move(520, 300, { steps: 6 });
  await page.mouse.up();
}

const both = (name, more) => [
  { ...more, name },
  { ...more, name: `${name}_dark`, query: { ...more.query, theme: "dark" } },
  { ...more, name: `${name}_700`, size: narrow },
];

export const APP_CASES = [
  ...both("out", {}),
  ...both("event", { act: (page) => pick(page) }),
  ...both("cpu_event", { act: (page) => pick(page, "cudaLaunchKernel") }),
  ...both("area", { act: area }),
  ...both("problems", {
    query: { problems: "1" },
    act: (page) => page.click(".hta-badge:not(.hta-kernel)"),
  }),
  ...both("export", { act: (page) => page.click("text=Export…") }),
  ...both("help", { act: (page) => page.click(".hta-help-button") }),
  ...both("search", {
    act: async (page) => {
      await page.focus(".hta-root");
      await page.keyboard.press("/");
      await page.keyboard.type("wgrad");
      await page.waitForTimeout(400);
      await page.keyboard.press("Enter");
      await page.keyboard.press("Enter");
      await page.waitForTimeout(500);
    },
  }),
  ...both("filter", {
    act: async (page) => {
      await page.click("button[title='Filter tracks'], button[aria-label='Filter tracks']");
      await page.keyboard.type("rank [0-2]");
    },
  }),
  ...both("tip", {
    act: async (page) => {
      await page.mouse.move(340, 186);
      await page.waitForTimeout(400);
    },
  }),
  ...both("focus", { act: (page) => page.focus(".hta-root") }),
  {
    name: "tabs",
    act: async (page) => {
      await area(page);
      await pick(page, "wgrad");
    },
  },
  {
    name: "tip_mark",
    act: async (page) => {
      await page.evaluate(() => state.set("view", [40e6, 60e6]));
      await page.waitForTimeout(500);
      await page.mouse.move(700, 155);
    },
  },
  {
    name: "busy",
    act: async (page) => {
      await page.evaluate(() => {
        source.status = "busy";
        for (const listener of source.listeners) listener("busy");
      });
    },
  },
  { name: "wide", size: { width: 1440, height: 600 } },
  { name: "ranks64_dark", query: { ranks: "64", theme: "dark" } },
  {
    name: "outside",
    act: (page) =>
      page.evaluate(() => {
        app.ctx.scene.range[1] *= 1.5;
        app.setScene(app.ctx.scene);
        state.set("view", [830e6, 900e6]);
      }),
  },
  {
    name: "kinds_700",
    size: narrow,
    act: (page) => page.click(".hta-more"),
  },
  {
    name: "brush",
    act: async (page) => {
      await page.mouse.move(330, 190);
      await page.mouse.down();
      await page.mouse.move(520, 300, { steps: 6 });
    },
  },
  {
    name: "error",
    act: async (page) => {
      await page.evaluate(() => {
        source.broken.set("event", "rank-3.json.gz: byte 1 048 576: gzip stream is cut off");
        source.broken.set("stats", "rank-3.json.gz cannot be read any more: it was replaced.");
      });
      await pick(page);
    },
  },
  {
    name: "nothing",
    act: async (page) => {
      await page.click("button[title='Filter tracks'], button[aria-label='Filter tracks']");
      await page.keyboard.type("tpu");
    },
  },
];
