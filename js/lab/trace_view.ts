/** Traces in a tab: start a session for them, show its progress, then the view from the kernel. */

import type { ViewAddress } from "../src/connection/address";
import { type LoadingStage, LoadingCard } from "../src/host/card";
import { WidgetHost } from "../src/host/host";
import type { OpenViewRequest } from "../src/host/start";
import type { WireMessage } from "../src/host/wire";
import { renderButton } from "../src/ui/controls";
import { detectTheme, watchTheme } from "../src/ui/host";
import { applyTheme } from "../src/ui/theme";
import type { JupyterApp, KernelConnection, Lab, SessionConnection, Widget } from "./jupyterlab";
import { KernelTransport } from "./kernel";
import { openingCode } from "./opening";

/** MIME type of the messages that `hta_widgets/host/kernel.py` publishes. */
const MIME = "application/vnd.hta-widgets+json";
/** Only one connection between a page and a kernel can handle comms: the console's. */
const CONNECT = { kernelConnectionOptions: { handleComms: false } };
const WORDS = { free: "it is done", again: "Press “Start again”." };

/** The panels are those of the view, once it is shown. */
export type TabAddress = Omit<ViewAddress, "panels">;

export class TraceView {
  readonly widget: Widget;
  /** Differs from the document's path: JupyterLab would connect to that kernel with comms. */
  readonly sessionPath: string;
  private readonly loadingCard: LoadingCard;
  private readonly closed = new AbortController();
  /** Number of the current attempt. Results of earlier attempts are dropped. */
  private attempt = 0;
  private session: SessionConnection | null = null;
  private busyKernel: KernelConnection | null = null;
  /** Whether the busy kernel runs the request. Before that, it ignores interrupts. */
  private isRunning = false;

  constructor(
    private readonly lab: Lab,
    private readonly app: JupyterApp,
    readonly request: OpenViewRequest,
    private readonly kernelName: () => Promise<string>,
    /** The address of this tab; null if it has none. */
    private readonly address: TabAddress | null,
  ) {
    const [first = "", ...others] = this.request.paths;
    const rest = others.map((path) => `+${encodeURIComponent(this.nameOf(path))}`).join("");
    this.sessionPath = `${first}${rest}.${request.view}`;
    this.widget = new lab.Widget();
    this.widget.addClass("hta-lab");
    this.loadingCard = new LoadingCard({ cancel: () => this.cancel(), again: () => this.start() });
    const { bar, el: cardEl, card } = this.loadingCard;
    this.widget.node.append(bar, cardEl);
    for (const el of [bar, card]) {
      applyTheme(el, detectTheme(this.widget.node));
      watchTheme(this.widget.node, this.closed.signal, (theme) => applyTheme(el, theme));
    }
    // Tabs that are restored in the background load when they become visible.
    const visibilityObserver = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      visibilityObserver.disconnect();
      this.start();
    });
    visibilityObserver.observe(this.widget.node);
    this.widget.disposed.connect(() => this.close());
  }

  /** Return a path relative to the folder of the first path, in which the kernel runs. */
  nameOf(path: string): string {
    return this.lab.PathExt.relative(this.lab.PathExt.dirname(this.request.paths[0] ?? ""), path);
  }

  private start(): void {
    const attempt = (this.attempt += 1);
    this.loadingCard.removeShown();
    this.session?.dispose();
    this.session = null;
    this.loadingCard.showProgress({ stage: "start" });
    this.open(attempt).catch((error: unknown) => {
      if (attempt === this.attempt) this.loadingCard.showFailure({ message: errorMessage(error) });
    });
  }

  /** Return a button that opens the file as text; none for compressed or several files. */
  private textButtons(): HTMLElement[] {
    const [path = "", ...others] = this.request.paths;
    if (others.length > 0 || !path.toLowerCase().endsWith(".json")) return [];
    const press = (): void =>
      void this.app.commands.execute("docmanager:open", { path, factory: "Editor" });
    return [renderButton({ text: "Open as text", press })];
  }

  private async open(attempt: number): Promise<void> {
    const session = await this.connect();
    if (attempt !== this.attempt) {
      this.leave(session);
      return;
    }
    this.session = session;
    const { kernel } = session;
    if (kernel === null) throw new Error("No kernel was started");
    const host = new WidgetHost(
      new KernelTransport(this.lab, kernel, {
        receive: (message, buffers) => void host.receive(message, buffers),
        ended: () => this.end(attempt, host),
      }),
      WORDS,
    );
    const outcome = await this.run(kernel);
    if (attempt !== this.attempt) return;
    if (outcome.type !== "opened") {
      this.loadingCard.showFailure(outcome, this.textButtons());
      return;
    }
    const model = String(outcome.model);
    const shown = await host.model(model);
    const panels = shown.get("panels") as string[];
    shown.setLocally("_address", this.address && { ...this.address, panels });
    await this.loadingCard.show(host, model);
  }

  /** Return the session that was started before the page was reloaded, or a new one. */
  private async connect(): Promise<SessionConnection> {
    const { sessions } = this.app.serviceManager;
    const [path, name] = [this.sessionPath, await this.kernelName()];
    await sessions.ready;
    await sessions.refreshRunning();
    const session = [...sessions.running()].find((running) => running.path === path);
    if (session !== undefined) return sessions.connectTo({ model: session, ...CONNECT });
    const kernel = name === "" ? undefined : { name };
    const options = {
      path,
      name: this.lab.PathExt.basename(this.request.paths[0] ?? ""),
      type: "hta-trace",
      kernel,
    };
    return sessions.startNew(options, CONNECT);
  }

  /** Make the kernel open the paths. Return its message `opened` or `failed`. */
  private async run(
    kernel: KernelConnection,
  ): Promise<Omit<WireMessage, "type"> & { type?: string }> {
    const { view, paths } = this.request;
    const code = openingCode(
      view,
      paths.map((path) => this.nameOf(path)),
    );
    this.busyKernel = kernel;
    this.isRunning = false;
    const future = kernel.requestExecute({ code, store_history: false, allow_stdin: false });
    let outcome: WireMessage | null = null;
    future.onIOPub = ({ content }) => {
      this.isRunning = true;
      const message = (content.data as Record<string, unknown> | undefined)?.[MIME] as WireMessage;
      if (message?.type === "progress")
        this.loadingCard.showProgress(message as unknown as LoadingStage);
      else if (message !== undefined) outcome = message;
    };
    const { status, ename, evalue } = (await future.done).content;
    if (this.busyKernel === kernel) this.busyKernel = null;
    if (outcome !== null) return outcome;
    if (ename === "KeyboardInterrupt") return CANCELLED;
    if (ename === "ModuleNotFoundError" && /hta_widgets/.test(String(evalue))) {
      return {
        message: `hta_widgets is missing or too old in the kernel “${kernel.name}”`,
        remedy:
          "Run “%pip install -U hta_widgets” there, or choose another kernel in the settings.",
      };
    }
    return { message: status === "error" ? `${String(ename)}: ${String(evalue)}` : status };
  }

  private cancel(): void {
    if (this.busyKernel !== null && this.isRunning) {
      this.busyKernel
        .interrupt()
        .catch((error: unknown) => this.loadingCard.showFailure({ message: errorMessage(error) }));
      return;
    }
    this.attempt += 1;
    this.busyKernel = null;
    if (this.session !== null) this.leave(this.session);
    this.session = null;
    this.loadingCard.showFailure(CANCELLED);
  }

  /** Handle the end of the kernel: fail if it was loading; a view uses the data in the page. */
  private end(attempt: number, host: WidgetHost): void {
    if (attempt !== this.attempt || !this.loadingCard.bar.hidden || this.closed.signal.aborted)
      return;
    host.endModel();
    if (this.busyKernel !== null) {
      this.busyKernel = null;
      this.attempt += 1;
      this.loadingCard.showFailure({
        message: "the kernel ended while it was loading",
        remedy: MEMORY,
      });
      return;
    }
    if (this.loadingCard.isShown) this.loadingCard.showEnded("The kernel has ended");
  }

  /** Closing a tab ends its kernel; leaving the page does not. */
  private close(): void {
    this.closed.abort();
    this.loadingCard.removeShown();
    this.attempt += 1;
    if (this.session !== null) this.leave(this.session);
  }

  /** End the session and its kernel, unless a console uses it. */
  private leave(session: SessionConnection): void {
    const tabs = [...this.app.shell.widgets("main")];
    if (tabs.some((tab) => tab.sessionContext?.path === this.sessionPath)) session.dispose();
    else session.shutdown().catch(() => undefined);
  }
}

const CANCELLED = { message: "Cancelled.", cancelled: true };
const MEMORY = "It may have run out of memory.";

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
