/** Panel of a device's idle time: its causes, the host's activities, and the work that ended it. */

import { CAUSE_FACTS } from "../../facts/panels";
import type { Brief, Gap, HostTime } from "../../protocol/source";
import { button, closeButton, eventLink, type Fact, facts } from "../../ui/controls";
import { fill, h } from "../../ui/dom";
import {
  formatCount,
  formatDuration,
  formatExact,
  formatShare,
  formatTime,
  plural,
} from "../../ui/formats";

interface GapActions {
  close(): void;
  go(brief: Brief): void;
  zoom(): void;
  /** Show what the window contains; null if other panels show it. */
  showArea: (() => void) | null;
  /** Track of a lane, as the rows name it. */
  trackOf(lane: number): string;
}

/** `the host loads data, 72 % of it`. */
export function causeWords({ causes, start, end }: Gap): string {
  const [first] = causes;
  if (first === undefined) return "";
  return `${CAUSE_FACTS[first.cause]?.meaning ?? first.cause}, ${formatShare(first.time / (end - start))} of it`;
}

export class GapPanel {
  readonly id = "gap" as const;
  readonly name = "Idle time";
  readonly el = h("div", { class: "hta-panel hta-details hta-gap" });

  constructor(private readonly actions: GapActions) {}

  show(gap: Gap): void {
    fill(
      this.el,
      h(
        "div",
        { class: "hta-column hta-what" },
        this.head(gap),
        h("p", { class: "hta-gap-words" }, ...words(gap)),
        facts(this.facts(gap)),
      ),
      this.host(gap),
    );
  }

  private head({ start, end }: Gap): HTMLElement {
    const { zoom, showArea, close } = this.actions;
    return h(
      "div",
      { class: "hta-head" },
      h("h3", { class: "hta-short" }, `GPU idle ${formatDuration(end - start)}`),
      button({ text: "Zoom", name: "Zoom to the gap", key: "F", showKey: true, press: zoom }),
      showArea !== null &&
        button({ text: "Totals", name: "Totals of the window", press: showArea }),
      closeButton(close, ""),
    );
  }

  private facts({ rank, start, end, causes, ends, launch }: Gap): Fact[] {
    const { go } = this.actions;
    const length = end - start;
    const rows: Fact[] = [
      {
        name: "Idle",
        value: [`100\u2009% of rank ${rank}, ${formatTime(start)} to ${formatTime(end)}`],
        title: formatExact(length),
      },
      { name: "Ended by", value: [eventLink(ends, go)], title: ends.name },
    ];
    if (launch !== null) {
      const delay = `called ${formatDuration(Math.abs(launch.start - start))} ${launch.start < start ? "before the gap" : "into it"}`;
      rows.push({
        name: "Launched by",
        value: [eventLink(launch, go), h("span", { class: "hta-note" }, delay)],
        look: "line",
      });
    }
    rows.push(
      ...causes.map(({ cause, time }, at): Fact => ({
        name: at === 0 ? "Causes" : "",
        value: [
          `${CAUSE_FACTS[cause]?.label ?? cause} ${formatDuration(time)}, ${formatShare(time / length)}`,
        ],
        title: CAUSE_FACTS[cause]?.meaning ?? "",
      })),
    );
    return rows;
  }

  private host({ host, host_time: recorded, start, end }: Gap): HTMLElement {
    const [first] = host;
    const rest = end - start - recorded;
    const most = Math.max(first?.time ?? 0, rest, 1);
    const row = (name: Node | string, time: number, note: string): HTMLElement =>
      h(
        "div",
        { class: "hta-gap-row" },
        name,
        h(
          "span",
          { class: "hta-sumplace", "aria-hidden": "true" },
          h("span", {
            class: "hta-sumbar",
            "data-kind": "cpu",
            style: { width: `${(time / most) * 100}%` },
          }),
        ),
        h("span", { class: "hta-number", title: formatExact(time) }, formatDuration(time)),
        h("span", { class: "hta-number hta-note" }, note),
      );
    const named = ({ longest, count, time }: HostTime): HTMLElement =>
      row(eventLink(longest, this.actions.go), time, `${formatCount(count)}×`);
    return h(
      "div",
      { class: "hta-column" },
      h(
        "div",
        { class: "hta-head" },
        h("h3", {}, "The host meanwhile"),
        first !== undefined &&
          h(
            "span",
            { class: "hta-note hta-grow" },
            `${this.actions.trackOf(first.longest.lane)} · own time`,
          ),
      ),
      h(
        "div",
        { class: "hta-scroll", tabindex: 0, role: "group", "aria-label": "What the host did" },
        ...host.map(named),
        rest > 0 && row(h("span", { class: "hta-note" }, "nothing recorded"), rest, ""),
      ),
    );
  }
}

/** Cause and what to change, as sentences. */
function words(gap: Gap): (Node | string)[] {
  const [first] = gap.causes;
  if (first === undefined) return [];
  const said = causeWords(gap);
  const cause = h("b", {}, `${said.charAt(0).toUpperCase()}${said.slice(1)}. `);
  return [cause, CAUSE_FACTS[first.cause]?.advice ?? ""];
}

/** Lines of the tooltip over a gap. */
export function gapLines(gap: Gap): [string, string] {
  const [first] = gap.host;
  const host = first === undefined ? "" : `; host: ${first.longest.short}`;
  const more = gap.host.length > 1 ? ` and ${plural(gap.host.length - 1, "other name")}` : "";
  return [`GPU idle ${formatDuration(gap.end - gap.start)}`, `${causeWords(gap)}${host}${more}`];
}
