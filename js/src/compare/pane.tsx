/** The base class of a comparison's panels, and the headline panel. */

import { batch, signal } from "@preact/signals";
import { type ComponentChildren, render } from "preact";
import { asError, type PanelFrame, isAbort } from "../protocol/source";
import { FailureNote, Skeleton } from "../ui/controls";
import { h } from "../ui/dom";
import { formatDuration, plural } from "../ui/formats";
import type { DiffContext } from "./context";
import { type BySide, rowsOf, shareText, textAt } from "./frames";

/** A part of the page that shows content or an error. It is redrawn when a signal changes. */
export abstract class DiffPanel<Shown> {
  readonly el: HTMLElement;
  readonly shown = signal<Shown | null>(null);
  /** Width in px, for layouts that depend on it. */
  readonly width = signal(0);
  /** Shown instead of the content, for example an error. */
  protected readonly replacement = signal<ComponentChildren>(<Skeleton lines={4} />);
  private requestCount = 0;

  /** `title` names the panel in the message shown if drawing fails. */
  protected constructor(
    protected readonly ctx: DiffContext,
    private readonly title: string,
    elementOptions: { tag?: "section" | "header"; class: string; "aria-label"?: string },
  ) {
    const { tag = "section", ...attributes } = elementOptions;
    this.el = h(tag, attributes);
    const Drawn = () => {
      const { value } = this.shown;
      return <>{this.replacement.value ?? (value !== null && this.draw(value))}</>;
    };
    // Rendering waits until the constructors of subclasses have set their fields.
    queueMicrotask(() => render(<Drawn />, this.el));
  }

  /** Show the result of `request` or its error. Return false if a newer request replaced it. */
  async load(request: () => Promise<Shown | null>): Promise<boolean> {
    const requested = (this.requestCount += 1);
    try {
      const shown = await request();
      if (requested !== this.requestCount) return false;
      if (shown === null) this.replacement.value = null;
      else this.show(shown);
    } catch (error) {
      if (isAbort(error)) throw error;
      if (requested === this.requestCount) this.fail(asError(error));
    }
    return requested === this.requestCount;
  }

  show(shown: Shown): void {
    batch(() => {
      this.shown.value = shown;
      this.replacement.value = null;
    });
  }

  private fail(error: Error): void {
    const retry = (): void => {
      this.replacement.value = <p class="hta-note">Retrying…</p>;
      this.ctx.reloadRequested.emit();
    };
    const title = `${this.title} could not be drawn`;
    this.replacement.value = <FailureNote title={title} error={error} retry={retry} />;
  }

  protected abstract draw(shown: Shown): ComponentChildren;
}

// The headline, which shows the findings as text.

/** Number of sentences shown after the first one. A disclosure button reveals the rest. */
const SENTENCES = 4;
/** Smallest difference that is reported, as a share of the time. */
const MIN_REPORTED_SHARE = 0.01;

/** Total time of the compared events before and after, in ns. */
type TotalTimes = BySide<number>;

interface FindingsProps {
  /** The findings in order of importance. */
  frame: PanelFrame;
  /** Null if there are no events. */
  totals: TotalTimes | null;
  /** Text about the ranks if a single rank pair is selected. */
  ranksText: string;
  /** Whether the total changed by more than noise. If so, its share is colored. */
  isChange: boolean;
}

export class Headline extends DiffPanel<FindingsProps> {
  constructor(ctx: DiffContext) {
    super(ctx, "The findings", { tag: "header", class: "hta-headline" });
  }

  override show(shown: FindingsProps): void {
    super.show(shown);
    this.ctx.statusText.value = null;
  }

  protected draw(shown: FindingsProps) {
    const { conditions, steps } = this.ctx.about;
    return <Findings {...shown} conditions={conditions} isPerStep={steps > 0} />;
  }
}

/** `conditions`: sentence about different hardware or rank counts. */
export function Findings(props: FindingsProps & { conditions: string; isPerStep: boolean }) {
  const { frame, totals, ranksText, isChange, conditions, isPerStep } = props;
  const findings = rowsOf(frame);
  // `rank_findings` in Python puts the caution about different conditions after the total. Unlike
  // `conditions`, the caution's text follows the display order of the sides.
  const caution = findings[1]?.kind === "caution" ? textAt(findings[1], "text") : "";
  const conditionsText = conditions === "" ? "" : caution || conditions;
  // The toolbar shows the other cautions.
  const sentences = findings
    .filter((row) => row.kind !== "caution")
    .map((row) => textAt(row, "text"));
  const [noFindingText, noChangeText] = noFindingTexts(totals, isPerStep);
  const [leadText, share, tailText] = headlineParts(sentences[0] ?? noFindingText);
  const shareClass = share.startsWith("+") ? "hta-diff-slower" : "hta-diff-faster";
  const reasonsText =
    sentences.length === 0 ? noChangeText : sentences.slice(1, SENTENCES + 1).join(" ");
  const more = sentences.slice(SENTENCES + 1);
  // `ranksText` is a heading if everything below it refers to one rank pair.
  return (
    <>
      {ranksText !== "" && <p class="hta-diff-whose">{ranksText}</p>}
      <h2>
        {leadText}
        {share !== "" && <em class={isChange ? shareClass : undefined}>{share}</em>}
        {tailText}
      </h2>
      {conditionsText !== "" && <p class="hta-diff-conditions">{conditionsText}</p>}
      {reasonsText !== "" && <p>{reasonsText}</p>}
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

/** Split a sentence at its share: the text before, the colored share, and the text after. */
export function headlineParts(sentence: string): [string, string, string] {
  const match =
    /^(.*?, )([+\u2212][\d.\s\u202f]+%)((?: \(mean over ranks\))?(?:[:;] .*)?\.)$/su.exec(sentence);
  return match === null ? [sentence, "", ""] : [match[1]!, match[2]!, match[3]!];
}

/** Return a headline and a sentence below it for a comparison without findings. */
export function noFindingTexts(totals: TotalTimes | null, isPerStep = true): [string, string] {
  const noChangeText = "Nothing changed beyond the noise.";
  if (totals === null) return [noChangeText, ""];
  const [before, after] = totals;
  if (before === 0 && after === 0)
    return ["Nothing to compare: neither side has events in the selection.", ""];
  const diff = after - before;
  const unit = isPerStep ? " a step" : "";
  if (diff === 0)
    return [`After takes the same time: ${formatDuration(after)}${unit}.`, noChangeText];
  const share = shareText(diff, before);
  const times = `${formatDuration(before)} → ${formatDuration(after)}${share && `, ${share}`}`;
  const isLarge = Math.abs(diff) >= MIN_REPORTED_SHARE * Math.max(before, after);
  const head = `After takes ${formatDuration(Math.abs(diff))} ${diff > 0 ? "longer" : "less"}${unit}`;
  return [`${head}: ${times}${isLarge ? "; that may be chance" : ""}.`, noChangeText];
}
