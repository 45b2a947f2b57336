/** Checks the scene that a widget holds: a page of another version must say so, not draw nonsense. */

import type { Scene } from "../contract";
import { plural } from "../draw/format";
import { type Child, h } from "./dom";

export function readScene(value: unknown): Scene {
  if (value === null || typeof value !== "object") throw new Error("The widget holds no scene.");
  const scene = value as Partial<Scene>;
  if (scene.version !== 1) {
    throw new Error(
      `The kernel's hta_widgets and this page differ: the scene is of version ${String(scene.version)}, ` +
        "this page reads version 1. Restart the kernel and reload the page.",
    );
  }
  if (!Array.isArray(scene.ranks) || !Array.isArray(scene.range)) {
    throw new Error("The scene has no ranks or no range.");
  }
  return scene as Scene;
}

/** How many ranks there are: a warning where the job has more. */
export function rankFacts({ ranks, ranks_of_job: ofJob = "" }: Scene): Child {
  return ofJob === "" ? plural(ranks.length, "rank") : h("span", { class: "hta-warn-text" }, ofJob);
}
