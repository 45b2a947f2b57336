/** The page of `hta-widgets view`: a start page, dashboards, timelines and comparisons. */

import { pageAddress, splitFragment } from "../connection/address";
import { type LoadingStage, LoadingCard } from "../host/card";
import { WidgetHost } from "../host/host";
import { type RemoteModel, isSameValue } from "../host/models";
import { HostSocket } from "../host/socket";
import { type FolderEntry, type OpenViewRequest, StartPage } from "../host/start";
import type { WireMessage } from "../host/wire";
import { ChoiceButtons, renderButton, copyAndReport } from "../ui/controls";
import { renderElement, replaceChildren, h } from "../ui/dom";
import { applyTheme } from "../ui/theme";

const PROTOCOL = 1;

interface HelloMessage {
  protocol: number;
  title: string;
  /** The command that restarts this host. */
  again: string;
  request: OpenViewRequest | null;
}

interface FolderListing {
  title: string;
  entries: FolderEntry[];
}

class ViewPage {
  private readonly bar = h("header", { class: "hta-root hta-host-bar" });
  private readonly card: LoadingCard;
  private readonly notice = h("div", { class: "hta-host-notice", role: "status" });
  private readonly socket: HostSocket;
  private host: WidgetHost | null = null;
  private hello: HelloMessage | null = null;
  private start: StartPage | null = null;
  private requested = 0;
  private request: OpenViewRequest | null = null;
  private shown: RemoteModel | null = null;
  /** Ends the display of a timeline that fills the window. */
  private fullWindow: AbortController | null = null;
  /** The link that opened a view. It regains the focus when the list is shown again. */
  private openedBy: Element | null = null;
  private isGone = false;

  constructor(private readonly root: HTMLElement) {
    this.card = new LoadingCard({
      cancel: () => this.socket.post({ type: "cancel", id: this.requested }),
      again: () => this.requestView(),
    });
    root.replaceChildren(this.bar, this.card.el);
    const dark = window.matchMedia("(prefers-color-scheme: dark)");
    const setTheme = (): void => applyTheme(document.body, dark.matches ? "dark" : "light");
    dark.addEventListener("change", setTheme);
    setTheme();
    this.card.showProgress({ stage: "start" });
    this.socket = new HostSocket(`${location.origin.replace(/^http/, "ws")}/ws`, {
      onMessage: (message, buffers) => this.receive(message, buffers),
      onLost: () => undefined,
      onEnded: () => this.showEnd(),
    });
    window.addEventListener("hashchange", () => this.followHash());
  }

  private receive(message: WireMessage, buffers: readonly DataView[]): void {
    if (this.host?.receive(message, buffers)) {
      download(message);
      return;
    }
    if (message.type === "hello") this.onHello(message as unknown as HelloMessage);
    else if (message.type === "folder") this.showFolder(message as unknown as FolderListing);
    else if (message.id === this.requested) this.onAnswer(message);
  }

  /** Handle a message about the most recently requested view. */
  private onAnswer(message: WireMessage): void {
    if (message.type === "progress") this.card.showProgress(message as unknown as LoadingStage);
    else if (message.type === "failed") this.fail(message);
    else if (message.type === "opened") {
      const report = (error: unknown): void => this.fail({ message: String(error) });
      this.show(String(message.model)).catch(report);
    }
  }

  private onHello(hello: HelloMessage): void {
    if (hello.protocol !== PROTOCOL) {
      this.fail({
        message: "this page and its server have different versions",
        remedy: "Reload the page.",
      });
      return;
    }
    if (this.hello === null) {
      const advice = `Run “${hello.again}” again.`;
      this.host = new WidgetHost(
        {
          post: (message, buffers) => this.socket.post(message, buffers),
          load: (key) => import(`/text/${key}`) as Promise<{ default: unknown }>,
          css: async (key) => (await fetch(`/text/${key}`)).text(),
        },
        { who: "The Python process", badge: "Python", free: "it is done", again: advice },
      );
    }
    this.hello = hello;
    this.followHash();
  }

  /** Show the view that the address names, so that reloading and the Back button work. */
  private followHash(): void {
    const before = this.request;
    const isList = splitFragment(location.hash)[0] === ALL_HASH;
    this.request = isList ? null : (fromHash(location.hash) ?? this.hello?.request ?? null);
    if (this.request === null) this.showStart();
    else if (this.shown !== null && isSameJob(before, this.request)) this.arrange();
    else {
      this.leaveView();
      this.requestView();
    }
    this.printBar();
  }

  private requestView(): void {
    if (this.request === null) return;
    this.requested += 1;
    const { view, paths } = this.request;
    const verdict = view === "diff" ? "" : this.start?.verdictOf(paths[0] ?? "");
    this.card.setTitle(this.requestTitle(), verdict);
    this.card.showProgress({ stage: "start" });
    const kind = view === "diff" ? view : "dashboard";
    this.socket.post({ type: "open", id: this.requested, view: kind, paths });
  }

  private requestTitle(): string {
    const names = this.request?.paths.map(baseName).join(", ") ?? "";
    return names === "" || names === "." ? (this.hello?.title ?? "") : names;
  }

  private open(request: OpenViewRequest): void {
    this.openedBy = document.activeElement;
    location.hash = ["#", request.view, ...request.paths.map(encodeURIComponent)].join("/");
  }

  private leaveView(): void {
    this.fullWindow?.abort();
    this.fullWindow = null;
    this.card.removeShown();
    this.shown = null;
  }

  private fail(message: Omit<WireMessage, "type">): void {
    this.leaveView();
    this.card.showFailure(message);
  }

  private async show(model: string): Promise<void> {
    if (this.host === null || this.request === null) return;
    const shown = await this.host.model(model);
    // The model is already shown if the connection was merely restored.
    if (shown === this.shown) return;
    this.leaveView();
    document.title = this.requestTitle();
    this.shown = shown;
    this.arrange();
    this.printBar();
    await this.card.show(this.host, model);
  }

  /** Show the whole dashboard, or only the timeline, enlarged to fill the window. */
  private arrange(): void {
    const { shown, request } = this;
    this.fullWindow?.abort();
    this.fullWindow = null;
    if (shown === null || request === null) return;
    const panels = shown.get("panels");
    const isTimeline = request.view === "timeline";
    if (isTimeline) shown.setLocally("panels", ["timeline"]);
    const reach = "on this machine, while the command runs";
    shown.setLocally("_address", pageAddress((shown.get("panels") ?? []) as string[], reach));
    if (!isTimeline) return;
    const full = new AbortController();
    this.fullWindow = full;
    full.signal.addEventListener("abort", () => shown.setLocally("panels", panels));
  }

  private showStart(): void {
    this.leaveView();
    document.title = this.hello?.title ?? "";
    this.card.setTitle(document.title);
    if (this.start === null) this.card.showProgress({ stage: "start" });
    else this.card.replace(this.start.el);
    const { openedBy } = this;
    if (openedBy instanceof HTMLElement && document.activeElement === this.card.el) {
      openedBy.focus();
    }
  }

  private showFolder({ title, entries }: FolderListing): void {
    const isFirst = this.start === null;
    this.start ??= new StartPage(title, (request) => this.open(request));
    const [fresh] = this.start.showEntries(entries);
    const isViewOpen = this.request !== null;
    if (isFirst && !isViewOpen && this.hello !== null) this.showStart();
    if (!isFirst && isViewOpen && fresh !== undefined) this.offerTrace(fresh.path);
    this.printBar();
  }

  private offerTrace(path: string): void {
    const press = (): void => this.open({ view: "dashboard", paths: [path] });
    const text = h("span", {}, `New trace: ${path}`);
    replaceChildren(this.notice, text, renderButton({ text: "Open", press }));
  }

  private printBar(): void {
    const { request } = this;
    const all = renderButton({ text: "All traces", press: () => (location.hash = ALL_HASH) });
    const facts = this.shown?.get("_about") as { panels?: string[] } | undefined;
    const isJob = request !== null && facts?.panels?.includes("timeline") === true;
    replaceChildren(
      this.bar,
      this.start !== null && request !== null && all,
      isJob &&
        renderElement(
          ChoiceButtons<OpenViewRequest["view"]>({
            name: "View",
            options: VIEWS,
            chosen: request.view,
            choose: (view) => this.open({ ...request, view }),
          }),
        ),
      this.notice,
    );
    this.bar.hidden = this.bar.children.length === 1 && this.notice.childNodes.length === 0;
  }

  private showEnd(): void {
    if (this.isGone) return;
    this.isGone = true;
    this.host?.endModel();
    const command = this.hello?.again ?? "hta-widgets view";
    if (this.shown === null) {
      this.fail({ message: "Python has ended", remedy: `Run “${command}” again.` });
    }
    const said = "This page continues with the data that it has. To start again, run";
    replaceChildren(
      this.notice,
      h("span", { class: "hta-badge hta-warn" }, "Python has ended"),
      h("span", { class: "hta-host-said" }, said),
      h("code", {}, command),
      copyButton(command, this.root),
    );
    this.printBar();
  }
}

/** Return a button that copies a command. Its label then shows whether copying succeeded. */
function copyButton(command: string, root: HTMLElement): HTMLButtonElement {
  const label = h("span", {}, "Copy the command");
  const press = (): void =>
    void copyAndReport(command, "the command", root).then((message) =>
      replaceChildren(label, message),
    );
  const button = renderButton({ name: `Copy: ${command}`, text: "", press });
  replaceChildren(button, label);
  return button;
}

/** The address of the start page. */
const ALL_HASH = "#/";

/** The views of a job that its page can switch between. */
const VIEWS = [
  ["dashboard", "Dashboard"],
  ["timeline", "Timeline"],
] as const;

function fromHash(hash: string): OpenViewRequest | null {
  const [, view = "", ...paths] = splitFragment(hash)[0].split("/");
  const isKnown = view === "diff" || VIEWS.some(([id]) => id === view);
  if (!isKnown || paths.length === 0) return null;
  try {
    return { view: view as OpenViewRequest["view"], paths: paths.map(decodeURIComponent) };
  } catch {
    // A `%` that does not begin an escape sequence: not an address of this page.
    return null;
  }
}

/** Return whether two requests are for the same job, whose dashboard and timeline are one view. */
function isSameJob(before: OpenViewRequest | null, now: OpenViewRequest): boolean {
  if (before === null || (before.view === "diff") !== (now.view === "diff")) return false;
  return isSameValue(before.paths, now.paths);
}

const baseName = (path: string): string => path.split(/[\\/]/).at(-1) ?? path;

/** Download the file offered by the reply in a message, if any. */
function download({ data }: WireMessage): void {
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
