/** Who answers, in words: the kernel, or the page that holds what it needs. */

import type { KernelSays } from "../app/status";
import type { HybridSource } from "../data/hybrid_source";
import type { Progress } from "../data/offline";
import { formatBytes } from "../draw/format";

export function kernelSays(source: HybridSource): KernelSays | null {
  const { answering, gone } = source;
  if (gone && answering === "page") {
    return {
      badge: "Kernel gone · page data",
      words: ["The kernel is gone. The page answers from what it holds; run the cell again."],
      isWarning: false,
    };
  }
  if (gone) {
    return {
      badge: "Kernel gone",
      words: ["The kernel is gone, and the page holds no data yet. Run the cell again."],
      isWarning: true,
    };
  }
  if (answering === "page") {
    return {
      badge: "Kernel busy · page data",
      words: ["The kernel is busy. The page answers from what it holds."],
      isWarning: true,
    };
  }
  return null;
}

/** How far the page is with fetching what it needs without a kernel; "" when there is nothing to say. */
export function progressWords({ state, bytes, of }: Progress): string {
  if (state === "preparing") return "preparing page data …";
  if (state === "fetching")
    return `fetching page data, ${formatBytes(bytes)} of ${formatBytes(of)}`;
  if (state === "failed") return "no page data: works with the kernel only";
  return "";
}
