/** Find and check a Python interpreter, and exchange frames with its process over pipes. */

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { homedir } from "node:os";
import * as vscode from "vscode";
import type { OpenTraceRequest, HostProblem } from "./messages";

const HEAD_BYTES = 4;
/** A process that has not ended by itself after this time is killed. */
const DRAIN_MS = 5000;
const MAX_ERROR_CHARACTERS = 4000;
const OLDEST = [3, 11] as const;
const PROBE =
  "import sys; print('%d %d' % sys.version_info[:2]); import importlib.util as u; " +
  "print(u.find_spec('hta_widgets') is not None)";

/** The part of the Python extension's API that is used here. */
interface PythonApi {
  environments?: {
    getActiveEnvironmentPath(uri: vscode.Uri): { path: string };
    resolveEnvironment(path: unknown): Promise<{ executable: { uri?: vscode.Uri } } | undefined>;
  };
}

/** Return the interpreter from the setting, otherwise from the Python extension or PATH. */
export async function findPython(uri: vscode.Uri): Promise<string> {
  const configuredPath = vscode.workspace
    .getConfiguration("hta", uri)
    .get<string>("python", "")
    .trim();
  if (configuredPath !== "") {
    const folder = vscode.workspace.getWorkspaceFolder(uri)?.uri.fsPath ?? "";
    return configuredPath.replace(/^~(?=[/\\])/, homedir()).replace("${workspaceFolder}", folder);
  }
  try {
    const extension = vscode.extensions.getExtension<PythonApi>("ms-python.python");
    const api = (await extension?.activate())?.environments;
    const environment = await api?.resolveEnvironment(api.getActiveEnvironmentPath(uri));
    if (environment?.executable.uri !== undefined) return environment.executable.uri.fsPath;
  } catch {
    // The Python extension is broken or has another API.
  }
  return process.platform === "win32" ? "python" : "python3";
}

/** Find out why a process ended before its first frame, and what to do about it. */
export async function explainEnd(
  python: string,
  cwd: string,
  problem: HostProblem,
): Promise<HostProblem> {
  const { hasRun, output } = await new Promise<{ hasRun: boolean; output: string }>((resolve) => {
    execFile(python, ["-c", PROBE], { cwd, timeout: 20_000 }, (error, output) =>
      resolve({ hasRun: error === null, output }),
    );
  });
  const version = /^(\d+) (\d+)/.exec(output);
  if (version === null) {
    return {
      message: "Python cannot be run",
      path: python,
      remedy: `Install Python ${OLDEST.join(".")} or newer, or choose another interpreter.`,
      actions: ["choose"],
    };
  }
  const [major, minor] = [Number(version[1]), Number(version[2])];
  if (major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])) {
    return {
      message: `Python ${major}.${minor} is too old`,
      path: python,
      remedy: `hta_widgets needs Python ${OLDEST.join(".")} or newer. Choose another interpreter.`,
      actions: ["choose"],
    };
  }
  const lacksHost = /No module named .?hta_widgets\.host/.test(problem.remedy ?? "");
  if (!hasRun || (output.includes("True") && !lacksHost)) return { ...problem, path: python };
  return {
    message: lacksHost ? "hta_widgets is too old" : "hta_widgets is not installed",
    path: python,
    remedy: "The button installs it into the environment of this Python, in a terminal.",
    actions: ["install", "choose"],
  };
}

interface HostCallbacks {
  onFrame(frame: ArrayBuffer): void;
  onLog(text: string): void;
  /** `isEarly`: before the first frame. */
  onEnded(problem: HostProblem, isEarly: boolean): void;
}

/** A Python process and its frames, each of which is preceded by its length. */
export class HostProcess {
  private readonly child: ChildProcess;
  private chunks: Buffer[] = [];
  private bufferedBytes = 0;
  private neededBytes = HEAD_BYTES;
  private errors = "";
  private isEarly = true;
  private callbacks: HostCallbacks | null;

  constructor(
    python: string,
    cwd: string,
    { view, paths }: OpenTraceRequest,
    callbacks: HostCallbacks,
  ) {
    this.callbacks = callbacks;
    // Without -P, Python would import modules from the working directory. The working directory is
    // never the folder of the trace.
    const args = ["-P", "-m", "hta_widgets.host", "--view", view, "--", ...paths];
    this.child = spawn(python, args, { cwd });
    this.child.stdout?.on("data", (chunk: Buffer) => this.read(chunk));
    this.child.stderr?.on("data", (chunk: Buffer) => {
      this.errors = (this.errors + chunk.toString()).slice(-MAX_ERROR_CHARACTERS);
      this.callbacks?.onLog(chunk.toString());
    });
    this.child.on("error", (error) => this.end(error.message));
    // "close" follows "exit" when all output has been read.
    this.child.on("close", (code, by) => this.end(this.reason(code, by)));
    this.child.stdin?.on("error", () => undefined); // "close" reports the reason
  }

  write(frame: ArrayBuffer): void {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt32LE(frame.byteLength);
    this.child.stdin?.write(head);
    this.child.stdin?.write(new Uint8Array(frame));
  }

  /** End the process and ignore its further output. */
  dispose(): void {
    this.callbacks = null;
    this.child.stdin?.end();
    const killTimer = setTimeout(() => this.child.kill("SIGKILL"), DRAIN_MS);
    this.child.on("close", () => clearTimeout(killTimer));
  }

  private read(chunk: Buffer): void {
    this.chunks.push(chunk);
    this.bufferedBytes += chunk.length;
    while (this.bufferedBytes >= this.neededBytes) {
      // Only complete frames are joined. Joining at each chunk would take quadratic time.
      const received = Buffer.concat(this.chunks);
      const end = HEAD_BYTES + received.readUInt32LE(0);
      this.neededBytes = received.length < end ? end : HEAD_BYTES;
      this.chunks = [received.length < end ? received : received.subarray(end)];
      if (received.length < end) return;
      this.bufferedBytes -= end;
      this.isEarly = false;
      // The frame is copied: a view of the buffer would send all of it to the page.
      this.callbacks?.onFrame(new Uint8Array(received.subarray(HEAD_BYTES, end)).buffer);
    }
  }

  private reason(code: number | null, by: string | null): string {
    if (by === "SIGKILL") return "It was killed. It may have run out of memory.";
    const last = this.errors.trimEnd().split("\n").at(-1) ?? "";
    return last === "" ? `It ended with ${by ?? `code ${String(code)}`}.` : last;
  }

  private end(remedy: string): void {
    this.callbacks?.onEnded({ message: "Python has ended", remedy }, this.isEarly);
    this.callbacks = null;
  }
}
