/**
 * The extension in the form that JupyterLab loads: a container of webpack's module federation,
 * written by hand. It contains only our own sources. JupyterLab's packages come from the page.
 */

import type { Lab } from "./jupyterlab";
import { makePlugin } from "./plugin";

interface SharedModule {
  loaded?: number | boolean;
  get(): Promise<() => object>;
}

type ShareScope = Readonly<Record<string, Readonly<Record<string, SharedModule>> | undefined>>;

const PACKAGES = [
  ...["application", "apputils", "coreutils", "docregistry", "filebrowser"],
  ...["launcher", "services", "settingregistry", "ui-components"],
].map((name) => `@jupyterlab/${name}`);

let scope: ShareScope = {};

async function loadPackage(name: string): Promise<object> {
  const versions = Object.values(scope[name] ?? {});
  // Copies of a package do not share state, so the loaded copy is used.
  const version = versions.find(({ loaded }) => Boolean(loaded)) ?? versions.at(-1);
  return version === undefined ? {} : (await version.get())();
}

const container = {
  init: (shareScope: ShareScope): void => void (scope = shareScope),
  async get(module: string): Promise<() => object> {
    if (module !== "./extension") return () => ({});
    const packages = await Promise.all([...PACKAGES, "@lumino/widgets"].map(loadPackage));
    const plugin = makePlugin(Object.assign({}, ...packages) as Lab);
    return () => ({ __esModule: true, default: plugin });
  },
};

const page = globalThis as { _JUPYTERLAB?: Record<string, unknown> };
(page._JUPYTERLAB ??= {})["hta-widgets"] = container;
