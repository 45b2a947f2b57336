/** FLOPs, bytes and rates of an operator call, shown in the details of its events. */

import type { Brief, CallFigures } from "../../protocol/source";
import type { FactRow } from "../../ui/controls";
import { formatBytes, formatFlops, formatShare, plural } from "../../ui/formats";

/** Text about the bound of the work, keyed by class. */
const LIMITS_OF: Readonly<Record<string, string>> = {
  compute: "of what compute allows",
  memory: "of what memory allows",
  overhead: "of the roofline: kernels too short to reach either limit",
};
/** Certainties that need no remark. */
const EXACT = new Set(["exact", "stated", "unknown"]);

export function figureRows(figures: CallFigures, event: Brief): FactRow[] {
  const { flops, least_bytes: bytes, tflop_per_s: rate, gb_per_s: bandwidth } = figures;
  if (flops === null && bytes === null) {
    const text = `unknown: ${figures.reason}`;
    return [{ name: "FLOPs", value: text, title: text, className: "wrapped" }];
  }
  const { call, kernels, certainty, reason, recompute } = figures;
  const work = [
    flops === null ? "FLOPs unknown" : formatFlops(flops),
    bytes !== null && `${formatBytes(bytes)} or more`,
    !EXACT.has(certainty) && certainty,
    recompute && "computed again",
    (kernels > 1 || (event.kind === "cpu" && event.id !== call.id)) &&
      `${call.short}, ${plural(kernels, "kernel")}`,
  ];
  const rates = [
    rate !== null && `${formatFlops(rate * 1e12)}/s`,
    bandwidth !== null && `${formatBytes(bandwidth * 1e9)}/s`,
  ];
  const rows = [
    factRow("FLOPs", work, reason),
    factRow("Rate", rates, "FLOPs and minimum bytes, each divided by the kernel time"),
  ];
  const { roofline_share: share, bound, precision, device, peak_certainty: peak } = figures;
  if (share === null) return rows;
  const roofline = [
    `${formatShare(share)} ${LIMITS_OF[bound] ?? "of the roofline"}`,
    figures.above_peak && "above the peak",
    peak !== "certain" && `peak ${peak}`,
  ];
  const peaks = `${device}, ${precision || "unknown precision"}; peaks: ${figures.peak_source}, ${peak}`;
  return [...rows, factRow("Roofline", roofline, peaks)];
}

function factRow(name: string, parts: readonly (string | false)[], title: string): FactRow {
  const value = parts.filter(Boolean).join(" · ");
  return { name, value, title: title || value, className: "wrapped" };
}
