/** The page of `hta-widgets view`: a start page, dashboards, timelines and comparisons. */

import { type Stage, ViewPlace } from "../host/card";
import { fitToWindow, WidgetHost } from "../host/host";
import { type RemoteModel, same } from "../host/models";
import { HostSocket } from "../host/socket";
import { type Entry, type OpenRequest, StartPage } from "../host/start";
import type { Message } from "../host/wire";
import { button, copyWords } from "../ui/controls";
import { fill, h } from "../ui/dom";
import { applyTheme } from "../ui/theme";
import "./view.css";

const PROTOCOL = 1;
/** Space around a view. */
const EDGE_PX = 8;

interface Hello {
  protocol: number;
  title: string;
  /** The command that starts this host again. */
  again: string;
  request: OpenRequest | null;
}

interface Folder {
  title: string;
  entries: Entry[];
}

class ViewPage {
  private readonly bar = h("header", { class: "hta-root hta-host-bar" });
  private readonly place: ViewPlace;
  private readonly notice = h("div", { class: "hta-host-notice", role: "status" });
  private readonly socket: HostSocket;
  private host: WidgetHost | null = null;
  private hello: Hello | null = null;
  private start: StartPage | null = null;
  private asked = 0;
  private request: OpenRequest | null = null;
  private shown: RemoteModel | null = null;
  /** Ends the timeline that fills the window. */
  private full: AbortController | null = null;
  private gone = false;

  constructor(private readonly root: HTMLElement) {
    this.place = new ViewPlace({
      cancel: () => this.socket.post({ type: "cancel", id: this.asked }),
      again: () => this.ask(),
    });
    root.replaceChildren(this.bar, this.place.el);
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const setTheme = (): void => applyTheme(document.body, dark.matches ? "dark" : "light");
    dark.addEventListener("change", setTheme);
    setTheme();
    this.place.progress({ stage: "start" });
    this.socket = new HostSocket(`${location.origin.replace(/^http/, "ws")}/ws`, {
      receive: (message, buffers) => this.receive(message, buffers),
      lost: () => undefined,
      ended: () => this.end(),
    });
    window.addEventListener("hashchange", () => this.follow());
  }

  private receive(message: Message, buffers: readonly DataView[]): void {
    if (this.host?.receive(message, buffers)) {
      download(message);
      return;
    }
    if (message.type === "hello") this.greet(message as unknown as Hello);
    else if (message.type === "folder") this.showFolder(message as unknown as Folder);
    else if (message.id !== this.asked) return;
    else if (message.type === "progress") this.place.progress(message as unknown as Stage);
    else if (message.type === "failed") this.fail(message);
    else if (message.type === "opened") {
      this.show(String(message.model)).catch((error: unknown) =>
        this.fail({ message: String(error) }),
      );
    }
  }

  private greet(hello: Hello): void {
    if (hello.protocol !== PROTOCOL) {
      this.fail({ message: "this page is of another version", remedy: "Reload it." });
      return;
    }
    if (this.hello === null) {
      const again = `Run “${hello.again}” again.`;
      this.host = new WidgetHost(
        {
          post: (message, buffers) => this.socket.post(message, buffers),
          load: (key) => import(`/text/${key}`) as Promise<{ default: unknown }>,
          css: async (key) => (await fetch(`/text/${key}`)).text(),
        },
        { who: "The Python process", badge: "Python", free: "it is done", again },
      );
    }
    this.hello = hello;
    this.follow();
  }

  // --- the shown view -----------------------------------------------------------------------------

  /** Show the view that the address names, so that reloads and the browser's Back work. */
  private follow(): void {
    const before = this.request;
    this.request = fromHash(location.hash) ?? this.hello?.request ?? null;
    if (location.hash === ALL) this.request = null;
    if (this.request === null) this.showStart();
    else if (this.shown !== null && isSameJob(before, this.request)) this.arrange();
    else {
      this.leave();
      this.ask();
    }
    this.printBar();
  }

  private ask(): void {
    if (this.request === null) return;
    this.asked += 1;
    this.place.progress({ stage: "start" });
    const { view, paths } = this.request;
    const kind = view === "diff" ? view : "dashboard";
    this.socket.post({ type: "open", id: this.asked, view: kind, paths });
  }

  private open(request: OpenRequest): void {
    location.hash = toHash(request);
  }

  private leave(): void {
    this.full?.abort();
    this.full = null;
    this.place.leave();
    this.shown = null;
  }

  private fail(message: Omit<Message, "type">): void {
    this.leave();
    this.place.failed(message);
  }

  private async show(model: string): Promise<void> {
    if (this.host === null || this.request === null) return;
    const shown = await this.host.model(model);
    // After a broken connection, the model is the one that is shown already.
    if (shown === this.shown) return;
    this.leave();
    const name = this.request.paths.map(baseName).join(", ");
    document.title = name === "" || name === "." ? (this.hello?.title ?? "") : name;
    this.shown = shown;
    this.arrange();
    this.printBar();
    await this.place.show(this.host, model);
  }

  /** Let the timeline alone fill the window, in this page only, or show the whole dashboard. */
  private arrange(): void {
    const { shown, request } = this;
    this.full?.abort();
    this.full = null;
    if (shown === null || request?.view !== "timeline") return;
    const full = new AbortController();
    this.full = full;
    const { el } = this.place;
    const [panels, height] = [shown.get("panels"), shown.get("height")];
    shown.setLocally("panels", ["timeline"]);
    const others = (): number => el.getBoundingClientRect().top + window.scrollY + EDGE_PX;
    fitToWindow(el, shown, others, full.signal);
    full.signal.addEventListener("abort", () => {
      shown.setLocally("panels", panels);
      shown.setLocally("height", height);
    });
  }

  private showStart(): void {
    this.leave();
    document.title = this.hello?.title ?? "";
    if (this.start === null) this.place.progress({ stage: "start" });
    else fill(this.place.el, this.start.el);
  }

  private showFolder({ title, entries }: Folder): void {
    const isFirst = this.start === null;
    this.start ??= new StartPage(title, (request) => this.open(request));
    const [fresh] = this.start.show(entries);
    if (isFirst) {
      if (this.hello !== null && this.request === null) this.showStart();
    } else if (fresh !== undefined && this.request !== null) {
      const press = (): void => this.open({ view: "dashboard", paths: [fresh.path] });
      fill(this.notice, h("span", {}, `New trace: ${fresh.path}`), button({ text: "Open", press }));
    }
    this.printBar();
  }

  // --- the bar ------------------------------------------------------------------------------------

  private printBar(): void {
    const { request } = this;
    const all = button({ text: "All traces", press: () => (location.hash = ALL) });
    const about = this.shown?.get("_about") as { panels?: string[] } | undefined;
    const isJob = request !== null && about?.panels?.includes("timeline") === true;
    const views = (["dashboard", "timeline"] as const).map((view) => {
      const name = view === "dashboard" ? "Dashboard" : "Timeline";
      const press = (): void => this.open({ view, paths: request?.paths ?? [] });
      const one = button({ text: name, class: "hta-host-choice", press });
      one.setAttribute("aria-pressed", String(request?.view === view));
      return one;
    });
    fill(
      this.bar,
      this.start !== null && request !== null && all,
      isJob &&
        h("div", { role: "group", "aria-label": "View", class: "hta-host-choices" }, ...views),
      this.notice,
    );
    this.bar.hidden = this.bar.children.length === 1 && this.notice.childNodes.length === 0;
  }

  private end(): void {
    if (this.gone) return;
    this.gone = true;
    this.host?.end();
    const again = this.hello?.again ?? "hta-widgets view";
    if (this.shown === null) {
      this.fail({ message: "Python has ended", remedy: `Run “${again}” again.` });
    }
    const said = h("span", {}, "Copy the command");
    const copy = button({
      name: `Copy: ${again}`,
      text: "",
      press: () =>
        void copyWords(again, "the command", this.root).then((words) => fill(said, words)),
    });
    fill(copy, said);
    fill(
      this.notice,
      h("span", { class: "hta-host-badge hta-host-warn" }, "Python has ended"),
      h(
        "span",
        { class: "hta-host-said" },
        "This page goes on with the data that it holds. To start again, run",
      ),
      h("code", {}, again),
      copy,
    );
    this.printBar();
  }
}

/** The start page's address. */
const ALL = "#/";

const VIEWS: readonly string[] = ["dashboard", "timeline", "diff"];

export function toHash({ view, paths }: OpenRequest): string {
  return ["#", view, ...paths.map(encodeURIComponent)].join("/");
}

export function fromHash(hash: string): OpenRequest | null {
  const [, view = "", ...paths] = hash.split("/");
  if (!VIEWS.includes(view) || paths.length === 0) return null;
  return { view: view as OpenRequest["view"], paths: paths.map(decodeURIComponent) };
}

/** Dashboard and timeline of one job are one view. */
function isSameJob(before: OpenRequest | null, now: OpenRequest): boolean {
  if (before === null || (before.view === "diff") !== (now.view === "diff")) return false;
  return same(before.paths, now.paths);
}

const baseName = (path: string): string => path.split(/[\\/]/).at(-1) ?? path;

/** Fetch the file that a reply offers. */
function download({ data }: Message): void {
  const { content } = data as { content?: { reply?: { download?: unknown } } };
  const address = content?.reply?.download;
  if (typeof address !== "string" || !address.startsWith("/file/")) return;
  const link = h("a", { href: address, download: "" });
  document.body.append(link);
  link.click();
  link.remove();
}

const root = document.getElementById("view");
if (root !== null) new ViewPage(root);
