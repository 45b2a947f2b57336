import { expect, test } from "vitest";
import { WidgetPage } from "./manager.ts";

const link = "export default {}";
const reader = `
export default {
  async render({ model, el, host, signal }) {
    const link = await host.getModel(model.get("link"));
    const draw = () => { el.textContent = "value " + link.get("value"); };
    link.on("change:value", draw);
    model.on("msg:custom", (content, buffers) => { el.title = content.text + buffers[0].byteLength; });
    model.send({ asked: true });
    signal.addEventListener("abort", () => { document.title = "gone"; });
    draw();
  },
};`;

test("a module sees its models, its messages and its end", async () => {
  const page = new WidgetPage();
  const shared = await page.make("link", link, { value: 1 });
  const widget = await page.make("reader", reader, { link: "anywidget:link" });
  const view = await widget.show();
  await expect.poll(() => view.el.textContent).toBe("value 1");

  shared.model.set("value", 2);
  expect(view.el.textContent).toBe("value 2");

  expect(page.sent).toMatchObject([{ model: "reader", content: { asked: true } }]);
  page.saved.length = 0;
  widget.model.set("link", "anywidget:other");
  widget.model.save_changes();
  expect(page.saved).toEqual([{ model: "reader", state: { link: "anywidget:other" } }]);

  widget.receive({ text: "bytes " }, [new DataView(new ArrayBuffer(3))]);
  await expect.poll(() => view.el.title).toBe("bytes 3");

  view.remove();
  await expect.poll(() => document.title).toBe("gone");
});
