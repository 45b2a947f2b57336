/** The parts of the comparison's page, and its headline. */

import { batch, signal } from "@preact/signals";
import { type ComponentChildren, render, type VNode } from "preact";
import { median } from "../expressions/numbers";
import type { Frame, ThemeName } from "../protocol/source";
import { h } from "../ui/dom";
import { formatDuration, plural } from "../ui/formats";
import { rowsOf, shareWords, text } from "./frames";

/** A part of the page: its content or its error; drawn again when a signal changes. */
export abstract class Part<Shown> {
  readonly el: HTMLElement;
  readonly shown = signal<Shown | null>(null);
  readonly theme = signal<ThemeName>("light");
  /** Width for layouts that depend on it, px. */
  readonly width = signal(0);
  private readonly why = signal<VNode | null>(null);

  protected constructor(name: string, label?: string) {
    this.el = h("section", { class: name, "aria-label": label });
    const Drawn = () => {
      const { value } = this.shown;
      return <>{this.why.value ?? (value !== null && this.draw(value))}</>;
    };
    // Render later: subclasses have not set their fields yet.
    queueMicrotask(() => render(<Drawn />, this.el));
  }

  show(shown: Shown): void {
    batch(() => {
      this.shown.value = shown;
      this.why.value = null;
    });
  }

  /** Show an error in place of the content. */
  fail(why: VNode): void {
    this.why.value = why;
  }

  protected abstract draw(shown: Shown): ComponentChildren;
}

// The headline: the findings as text.

/** Number of sentences after the first; the others unfold. */
const SENTENCES = 4;
/** The smallest difference that is reported, as a share of the time. */
export const WORTH_TELLING = 0.01;

/** Total time of the compared events, before and after, ns. */
export type Totals = readonly [number, number];

/**
 * The findings, most important first; `whose`: text on the ranks if one pair is chosen;
 * `conditions`: sentence on different hardware or numbers of ranks.
 */
export function Findings(look: {
  told: Frame | null;
  totals?: Totals | null;
  whose?: string;
  conditions?: string;
}) {
  const { told, totals = null, whose = "", conditions = "" } = look;
  const all = told === null ? [] : rowsOf(told);
  // The finding's own text follows the order of sides in the page.
  const unlike =
    all[1]?.kind === "caution" && conditions !== "" ? text(all[1], "text") : conditions;
  // The toolbar lists the other cautions.
  const rows = all.filter((row) => row.kind !== "caution");
  const [first, ...rest] = rows.map((row) => text(row, "text"));
  const [words, why] = silence(totals);
  const [lead, share, end] = headParts(first ?? words);
  const next = first === undefined ? why : rest.slice(0, SENTENCES).join(" ");
  const more = rest.slice(SENTENCES);
  // `whose` is a heading here, if everything below is of one pair of ranks.
  return (
    <>
      {whose !== "" && <p class="hta-diff-whose">{whose}</p>}
      <h2>
        {lead}
        {share !== "" && <em class={deltaClass(share)}>{share}</em>}
        {end}
      </h2>
      {unlike !== "" && <p class="hta-diff-conditions">{unlike}</p>}
      {next !== "" && <p>{next}</p>}
      {more.length > 0 && (
        <details>
          <summary>{plural(more.length, "more finding")}</summary>
          <ul>
            {more.map((line) => (
              <li>{line}</li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}

/** The median of the steps' changes; null for a single step. */
export function medianShare(steps: Frame): number | null {
  const shares = rowsOf(steps).map(
    (row) => Number(row.diff_ns) / Math.max(Number(row.before_ns), 1),
  );
  return shares.length < 2 ? null : median(shares);
}

/** Split a sentence into the text before its share, the share, which is coloured, and the rest. */
export function headParts(sentence: string): [string, string, string] {
  const found =
    /^(.*?, )([+\u2212][\d.\s\u202f]+%)((?: \(mean over ranks\))?(?:[:;] .*)?\.)$/su.exec(sentence);
  return found === null ? [sentence, "", ""] : [found[1]!, found[2]!, found[3]!];
}

/** Shown without a finding: nothing to compare, or a difference that may be chance. */
export function silence(totals: Totals | null): [string, string] {
  const nothing = "Nothing changed beyond the noise.";
  if (totals === null) return [nothing, ""];
  const [before, after] = totals;
  if (before === 0 && after === 0)
    return ["Nothing to compare: neither side has events in what was chosen.", ""];
  const diff = after - before;
  if (Math.abs(diff) < WORTH_TELLING * Math.max(before, after)) return [nothing, ""];
  const change = `${formatDuration(before)} → ${formatDuration(after)}`;
  const share = shareWords(diff, before);
  return [
    nothing,
    `After takes ${diff > 0 ? "longer" : "less"}: ${change}${share && `, ${share}`}; that may be chance.`,
  ];
}

function deltaClass(share: string): string {
  return share.startsWith("+") ? "hta-diff-slower" : "hta-diff-faster";
}
