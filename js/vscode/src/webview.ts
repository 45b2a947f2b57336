/** The page of an editor. Its frames go through the extension to a Python process on a pipe. */

import { type LoadingStage, LoadingCard } from "../../src/host/card";
import { importText, WidgetHost } from "../../src/host/host";
import { type WireMessage, pack, unpack } from "../../src/host/wire";
import { renderButton } from "../../src/ui/controls";
import { detectTheme, watchTheme } from "../../src/ui/host";
import { applyTheme } from "../../src/ui/theme";
import type { Action, FromPage, OpenTraceRequest, HostProblem, ToPage } from "./messages";
import "./webview.css";

declare function acquireVsCodeApi(): {
  postMessage(message: FromPage): void;
  setState(state: unknown): void;
};

const PROTOCOL = 1;
const WORDS = {
  who: "The Python process",
  badge: "Python",
  free: "it is done",
  again: "Press “Start again”.",
};
const NAMES: Record<Action, string> = {
  start: "Try again",
  install: "Install hta_widgets",
  choose: "Choose Python",
};

class EditorPage {
  private readonly editor = acquireVsCodeApi();
  private readonly place: LoadingCard;
  private readonly texts = new Map<string, (text: string) => void>();
  private readonly request: OpenTraceRequest;
  private host: WidgetHost | null = null;

  constructor(private readonly root: HTMLElement) {
    this.request = JSON.parse(root.dataset.request ?? "{}") as OpenTraceRequest;
    this.editor.setState(this.request);
    this.place = new LoadingCard({ cancel: () => this.cancel(), again: () => this.act("start") });
    const { bar, el } = this.place;
    root.replaceChildren(bar, el);
    const setTheme = (): void => applyTheme(document.body, detectTheme(el));
    watchTheme(el, new AbortController().signal, setTheme);
    setTheme();
    this.showCard({ stage: "start" });
    window.addEventListener("message", ({ data }: MessageEvent<ToPage>) => this.onEditor(data));
    document.addEventListener("hta-save", (event) => {
      event.preventDefault();
      const { name, file } = (event as CustomEvent<{ name: string; file: Blob }>).detail;
      void file
        .arrayBuffer()
        .then((bytes) => this.editor.postMessage({ type: "save", name, file: bytes }));
    });
    document.addEventListener("hta-open", (event) => {
      event.preventDefault();
      const { path, line } = (event as CustomEvent<{ path: string; line: number }>).detail;
      this.editor.postMessage({ type: "source", path, line });
    });
    this.editor.postMessage({ type: "ready" });
  }

  private onEditor(request: ToPage): void {
    if (request.type === "frame") {
      const { message, buffers } = unpack(request.frame);
      this.receive(message, buffers);
    } else if (request.type === "started") this.begin();
    else if (request.type === "cancel") this.cancel();
    else if (request.type === "colors") {
      // The theme of the root takes precedence over the editor's theme. Views observe the body.
      for (const { dataset } of [this.root, document.body]) {
        if (request.colors === "editor") delete dataset.theme;
        else dataset.theme = request.colors;
      }
    } else if (request.type === "problem") this.fail(request.problem);
    else this.end(request.problem);
  }

  private begin(): void {
    this.place.removeShown();
    this.texts.clear();
    this.showCard({ stage: "start" });
    const requestText = (key: string): Promise<string> =>
      new Promise((resolve) => {
        this.texts.set(key, resolve);
        this.post({ type: "text", key });
      });
    this.host = new WidgetHost(
      {
        post: (message, buffers) => this.post(message, buffers),
        load: async (key) => importText(await requestText(key)),
        css: requestText,
      },
      WORDS,
    );
  }

  private receive(message: WireMessage, buffers: readonly DataView[]): void {
    if (this.host?.receive(message, buffers)) this.save(message);
    else if (message.type === "hello") this.greet(message);
    else if (message.type === "text") {
      this.texts.get(String(message.key))?.(new TextDecoder().decode(buffers[0]));
    } else if (message.type === "progress") this.showCard(message as unknown as LoadingStage);
    else if (message.type === "failed") this.fail(message as unknown as HostProblem);
    else if (message.type === "opened" && this.host !== null) {
      this.tell(null);
      void this.place.show(this.host, String(message.model));
    }
  }

  private greet({ protocol, version }: WireMessage): void {
    if (protocol === PROTOCOL) this.post({ type: "open", id: 1, ...this.request });
    else {
      this.fail({
        message: `hta_widgets ${String(version)} does not match this extension`,
        remedy: "Update both.",
        actions: ["install"],
      });
    }
  }

  private showCard(stage: LoadingStage): void {
    if (this.place.isShown) return;
    this.place.showProgress(stage);
    const { done = 0, of = 0 } = stage;
    if (stage.stage === "read")
      this.tell(`Reading ${of > 0 ? Math.floor((100 * done) / of) : 0} %`);
    else if (stage.stage === "draw") this.tell("Laying out");
  }

  private fail(problem: HostProblem): void {
    this.tell(null);
    const { load, actions = [] } = problem;
    const more = actions.map((action) =>
      renderButton({ text: NAMES[action], press: () => this.act(action) }),
    );
    const cancelled = (problem as { cancelled?: boolean }).cancelled ?? load !== undefined;
    this.place.showFailure({ ...problem, cancelled }, more);
  }

  /** Handle the end of Python: a view that is shown uses the data in the page. */
  private end(problem: HostProblem): void {
    this.host?.endModel();
    if (this.place.isShown) this.place.showEnded(problem.message);
    else this.fail(problem);
  }

  private act(action: Action): void {
    this.editor.postMessage({ type: "action", action });
  }

  private cancel(): void {
    this.post({ type: "cancel", id: 1 });
  }

  private tell(text: string | null): void {
    this.editor.postMessage({ type: "loading", text });
  }

  private save({ data }: WireMessage): void {
    const { content } = data as { content?: { reply?: { path?: string; download?: string } } };
    const { path, download } = content?.reply ?? {};
    if (typeof download !== "string" || typeof path !== "string") return;
    this.editor.postMessage({ type: "save", name: path, file: download });
  }

  private post(message: WireMessage, buffers: Parameters<typeof pack>[1] = []): void {
    this.editor.postMessage({ type: "frame", frame: pack(message, buffers) });
  }
}

const root = document.getElementById("view");
if (root !== null) new EditorPage(root);
