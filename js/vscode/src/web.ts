/** VS Code in a browser without a server, where no Python can read traces. */

import * as vscode from "vscode";

const WORDS =
  "Traces are read by Python, which is not available in this browser window. Open the folder " +
  "in VS Code on your machine, over Remote-SSH or a tunnel, or in code-server.";

export function activate(context: vscode.ExtensionContext): void {
  const provider: vscode.CustomReadonlyEditorProvider = {
    openCustomDocument: (uri) => ({ uri, dispose: () => undefined }),
    resolveCustomEditor: (_document, { webview }) => {
      webview.html =
        `<!doctype html><html lang="en"><meta charset="utf-8">` +
        `<meta http-equiv="Content-Security-Policy" content="default-src 'none'">` +
        `<body><h3>Python is needed</h3><p>${WORDS}</p>`;
    },
  };
  const tell = (): unknown => vscode.window.showInformationMessage(WORDS);
  const names = ["cancel", "open", "selectForCompare", "compareWithSelected", "newNotebook"];
  context.subscriptions.push(
    ...["hta.trace", "hta.any"].map((type) =>
      vscode.window.registerCustomEditorProvider(type, provider),
    ),
    ...names.map((name) => vscode.commands.registerCommand(`hta.${name}`, tell)),
  );
}
