import { beforeEach, expect, test } from "vitest";
import { relativeTimeText, type FolderEntry, type OpenViewRequest, StartPage } from "./start";

const DAY = 86_400_000;

function entry(path: string, changed = 0, parts: FolderEntry[] = []): FolderEntry {
  const files = Math.max(parts.length, 1);
  return { path, files, bytes: 1000, changed_ms: changed, formats: ["Kineto"], parts };
}

let opened: OpenViewRequest[];
let page: StartPage;

beforeEach(() => {
  opened = [];
  page = new StartPage("runs", (request) => opened.push(request));
  document.body.replaceChildren(page.el);
});

const rows = (): string[] =>
  [...page.el.querySelectorAll("tbody tr")].map((row) => row.textContent ?? "");

function tick(path: string): void {
  page.el.querySelector<HTMLElement>(`[aria-label="Compare ${path}"]`)!.click();
}

function press(name: string): void {
  const all = [...page.el.querySelectorAll("button")];
  all.find((candidate) => candidate.textContent === name)!.click();
}

test("an entry opens as a dashboard, whatever its name", () => {
  page.showEntries([]);
  expect(page.el.textContent).toContain("There are no traces in runs yet.");
  const name = "<img src=x onerror=alert(1)>";
  page.showEntries([entry("b"), entry(name)]);
  expect(rows()).toHaveLength(2);
  expect(page.el.querySelector("img")).toBeNull();
  press(name);
  expect(opened).toEqual([{ view: "dashboard", paths: [name] }]);
});

test("a long name breaks after its separators", () => {
  page.showEntries([entry("runs/h100_bert-small/trace.json.gz")]);
  const parts = [...page.el.querySelector("td .hta-link")!.childNodes].map((n) => n.textContent);
  expect(parts.filter((part) => part !== "").join(" ")).toBe(
    "runs/ h100_ bert- small/ trace.json.gz",
  );
});

test("of two ticked ones the older is before", () => {
  page.showEntries([entry("new", 2000), entry("mid", 1500), entry("old", 1000)]);
  tick("new");
  expect(page.el.textContent).toContain("Tick another one to compare new");
  tick("old");
  press("Compare");
  expect(opened).toEqual([{ view: "diff", paths: ["old", "new"] }]);
  tick("mid");
  press("Compare");
  expect(opened[1]).toEqual({ view: "diff", paths: ["old", "mid"] });
});

test("files of a job unfold", () => {
  page.showEntries([entry("job", 0, [entry("job/rank-0.json"), entry("job/rank-1.json")])]);
  expect(rows()).toHaveLength(1);
  page.el.querySelector<HTMLElement>("[aria-expanded]")!.click();
  expect(rows()).toHaveLength(3);
  press("job/rank-1.json");
  expect(opened).toEqual([{ view: "dashboard", paths: ["job/rank-1.json"] }]);
});

test("traces that come later are new, and ticks stay", () => {
  expect(page.showEntries([entry("a")])).toEqual([]);
  tick("a");
  expect(page.showEntries([entry("b", 5), entry("a")]).map(({ path }) => path)).toEqual(["b"]);
  expect(rows()[0]).toContain("new");
  expect(rows()[1]).not.toContain("new");
  tick("b");
  press("Compare");
  expect(opened).toEqual([{ view: "diff", paths: ["a", "b"] }]);
  page.showEntries([entry("a")]);
  expect(page.el.textContent).toContain("Tick another one to compare a");
});

test.each([
  [59_000, "just now"],
  [60_000, "1 minute ago"],
  [7_200_000, "2 hours ago"],
  [3 * DAY, "3 days ago"],
  [93 * DAY, "2024-02-29"],
])("%d ms ago", (age, text) => {
  expect(relativeTimeText(Date.UTC(2024, 1, 29), Date.UTC(2024, 1, 29) + age)).toBe(text);
});

const judged = (path: string, ranks: number, text: string, work = 70): FolderEntry => ({
  ...entry(path),
  verdict: {
    ranks,
    step_ns: ranks === 8 ? 34_600_000 : null,
    text,
    picture: { compute: [0, work], communication: [0, 0] },
  },
});

test("the picture names the kinds of work; a job without work on devices has none", () => {
  page.showEntries([judged("a", 2, "All is well."), judged("dumps", 2, "A hang.", 0)]);
  const [picture, ...others] = page.el.querySelectorAll(".hta-host-picture");
  expect(picture!.getAttribute("aria-label")).toBe("Work over the job: compute");
  expect(others).toEqual([]);
  expect(page.el.querySelector("[title='No device work is recorded']")!.textContent).toBe("–");
});

test("a job has its ranks, step time and verdict; names and verdicts are searched, columns sort", () => {
  page.showEntries([
    judged("a", 2, "All is well."),
    judged("b", 8, "Rank <b>5</b> is late."),
    entry("c"),
  ]);
  expect(rows()[1]).toMatch(/^bRank <b>5<\/b> is late\.834\.6.ms/u);
  expect(["b", "c", "gone"].map((path) => page.verdictOf(path))).toEqual([
    "Rank <b>5</b> is late.",
    "",
    "",
  ]);
  press("Ranks");
  expect(rows().map((row) => row[0])).toEqual(["b", "a", "c"]);
  press("Name");
  expect(rows().map((row) => row[0])).toEqual(["a", "b", "c"]);
  const field = page.el.querySelector<HTMLInputElement>("input[type=search]")!;
  field.value = " LATE";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  expect(rows()).toHaveLength(1);
});

test("a job without a verdict says why, the sorted column in which order, and a search what it lacks", () => {
  page.showEntries([
    { ...entry("a"), verdict: null, note: "not read yet" },
    { ...judged("b", 8, "Rank 5 is late."), note: "" },
  ]);
  expect(rows().map(([first]) => first)).toEqual(["a", "b"]);
  expect(page.el.querySelector("tbody tr")!.textContent).toContain("not read yet");
  press("Name");
  const heads = (): string[] => [...page.el.querySelectorAll("th")].map((th) => th.textContent);
  expect(heads()).toContain("Name ↑");
  press("Ranks");
  expect(heads()).toContain("Ranks ↓");
  const field = page.el.querySelector<HTMLInputElement>("input[type=search]")!;
  field.value = "no such job";
  field.dispatchEvent(new Event("input", { bubbles: true }));
  expect(page.el.textContent).toContain("No name or verdict matches the search.");
});
