/**
 * Show the static picture of a widget whose kernel has ended. JupyterLab's widget renderer shows an
 * error instead, although the output also contains the HTML written by
 * `hta_widgets/export/pictures/picture.py`.
 */

import type { RenderMimeRegistry } from "./jupyterlab";

const WIDGET = "application/vnd.jupyter.widget-view+json";
const ERROR = "Error displaying widget";

/** Make a notebook's widget renderers show the fallback of an output instead of an error. */
export function showFallbacks(registry: RenderMimeRegistry): void {
  const create = registry.createRenderer.bind(registry);
  registry.createRenderer = (mimeType, options) => {
    const renderer = create(mimeType, options);
    if (mimeType !== WIDGET) return renderer;
    const render = renderer.renderModel.bind(renderer);
    renderer.renderModel = async (model) => {
      await render(model);
      const isError = renderer.node.textContent.startsWith(ERROR);
      if (!isError || !String(model.data["text/html"]).includes("hta-fallback")) return;
      const fallback = create("text/html");
      await fallback.renderModel(model);
      renderer.node.textContent = "";
      renderer.addWidget(fallback);
    };
    return renderer;
  };
}
