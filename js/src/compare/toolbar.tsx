/** Toolbar of a comparison, its cautions, and the legend of change classes. */

import { useSignal } from "@preact/signals";
import { type ClassGroup, classLook, countOf, GROUPS, lookStyle } from "../facts/event_classes";
import { asError, type ThemeName } from "../protocol/source";
import { Button, Choice, UndoRedo } from "../ui/controls";
import { formatCount, plural } from "../ui/formats";
import { Opener, Toolbar } from "../ui/menu";
import { FullButton, type FullWindow } from "../ui/placing";
import type { Base } from "./align";
import type { Colour, Context } from "./context";
import { shortLabels } from "./frames";
import type { Timelines } from "./timelines";

interface DiffToolbarLook {
  ctx: Context;
  /** Null if the runs have no events. */
  timelines: Timelines | null;
  full: FullWindow;
  walk(way: "undo" | "redo"): void;
}

const BASES: readonly (readonly [id: Base, text: string, about: string])[] = [
  ["steps", "steps", "Every pair of steps starts in line"],
  ["first_step", "start", "The first steps start in line"],
  ["collectives", "collectives", "Every pair of collectives starts in line"],
  ["absolute", "absolute", "Each run's own times"],
  ["scaled", "scaled", "The shorter run stretched to the length of the longer one"],
];

export function DiffToolbar(look: DiffToolbarLook) {
  const { ctx, timelines, walk } = look;
  const { about, base, swapped, coupled } = ctx;
  const { cautions } = about;
  const labels = ctx.inOrder(about.labels);
  return (
    <Toolbar class="hta-dash-toolbar" name="Comparison">
      <div class="hta-name hta-grow">
        <b class="hta-title" title={labels.join(" → ")}>
          {shortLabels(labels).join(" → ")}
        </b>
        <span class="hta-facts">{about.facts}</span>
        {cautions.length > 0 && <Cautions texts={cautions.map(({ text }) => text)} />}
      </div>
      <div class="hta-diff-controls">
        {timelines !== null && (
          <>
            <div class="hta-diff-align">
              <span class="hta-note">Align</span>
              <Choice
                name="Align"
                data="base"
                options={BASES}
                chosen={base.value}
                choose={(one) => ctx.keep("align", one)}
              />
              <select
                class="hta-diff-bases-narrow"
                aria-label="Align"
                value={base.value}
                onChange={({ currentTarget }) => ctx.keep("align", currentTarget.value)}
              >
                {BASES.map(([id, text]) => (
                  <option key={id} value={id}>
                    {text}
                  </option>
                ))}
              </select>
            </div>
            {about.rank_pairs.length > 1 && <Pairs ctx={ctx} />}
            <UndoRedo
              canUndo={timelines.link.history.canUndo}
              canRedo={timelines.link.history.canRedo}
              undo={() => walk("undo")}
              redo={() => walk("redo")}
            />
            <Button
              text="Linked"
              name="Linked: zoom and select on both timelines together"
              class={`hta-diff-link${coupled.value ? " hta-on" : ""}`}
              on={coupled.value}
              press={() => ctx.keep("coupled", !coupled.value)}
            />
          </>
        )}
        <Button
          text="Swap"
          name="Swap: before becomes after"
          press={() => ctx.keep("swapped", !swapped.value)}
        />
        {(timelines !== null || ctx.options.live !== null) && (
          <Opener
            text="Export…"
            name="Export… both runs as one trace, or a window"
            content={(_, anchor) => <Sheet ctx={ctx} timelines={timelines} anchor={anchor} />}
          />
        )}
        <FullButton full={look.full} />
      </div>
    </Toolbar>
  );
}

function Cautions({ texts }: { texts: readonly string[] }) {
  const more = texts.length > 1 ? ` and ${plural(texts.length - 1, "more caution")}` : "";
  return (
    <Opener
      name="Limits of the comparison"
      title={texts.join("\n")}
      class="hta-badge hta-warn hta-problem-badge"
      content={() => (
        <ul class="hta-diff-cautions">
          {texts.map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
    >
      <span class="hta-diff-caution-long">{`⚠ ${texts[0]!}${more}`}</span>
      <span class="hta-diff-caution-short">{`⚠ ${plural(texts.length, "caution")}`}</span>
    </Opener>
  );
}

/** The choice of a pair of ranks for figures and timelines, or of all. */
function Pairs({ ctx }: { ctx: Context }) {
  const { rank_pairs: pairs, held_pairs: held, by_rank_means: means } = ctx.about;
  return (
    <select
      class="hta-diff-pairs"
      aria-label="Ranks"
      title="Ranks for figures and timelines"
      value={String(ctx.pair.value ?? "")}
      onChange={({ currentTarget: { value } }) =>
        ctx.keep("pair", value === "" ? null : Number(value))
      }
    >
      <option value="">{means ? "all ranks (means)" : `all ${pairs.length} pairs of ranks`}</option>
      {pairs.map((pair, at) => {
        const [before, after] = ctx.inOrder(pair);
        const words = before === after ? `rank ${before}` : `rank ${before} → rank ${after}`;
        const lacks = held !== undefined && !held.includes(at);
        return (
          <option key={at} value={String(at)} disabled={lacks}>
            {lacks ? `${words} (not in this page)` : words}
          </option>
        );
      })}
    </select>
  );
}

const FILES = [
  ["export_pair", "Write both as one trace", "pair.json.gz"],
  ["save_html", "Save this page", "diff.html"],
] as const;

function Sheet(look: { ctx: Context; timelines: Timelines | null; anchor: HTMLElement }) {
  const { ctx, timelines, anchor } = look;
  const { source, live, signal: ended } = ctx.options;
  const said = useSignal("");
  const write = async (op: (typeof FILES)[number][0], path: string): Promise<void> => {
    said.value = "Writing…";
    try {
      const { reply } = await source.ask(op, { path }, ended);
      said.value = `Written: ${reply.path}`;
    } catch (error) {
      said.value = asError(error).message;
    }
  };
  // The kernel writes files.
  const files = FILES.filter(([op]) => live !== null && (op === "save_html" || timelines !== null));
  return (
    <div class="hta-save-form">
      {files.map(([op, label, name]) => (
        <FileField key={op} label={label} name={name} press={(path) => void write(op, path)} />
      ))}
      {timelines !== null && (
        <div class="hta-diff-file">
          <Button text="Window of before…" press={() => timelines.openExport(0, anchor)} />
          <Button text="Window of after…" press={() => timelines.openExport(1, anchor)} />
        </div>
      )}
      <p class="hta-note" aria-live="polite">
        {said.value}
      </p>
    </div>
  );
}

function FileField(look: { label: string; name: string; press(path: string): void }) {
  const path = useSignal(look.name);
  return (
    <div class="hta-diff-file">
      <input
        type="text"
        class="hta-path"
        aria-label={look.label}
        value={path.value}
        onInput={({ currentTarget }) => (path.value = currentTarget.value)}
      />
      <Button text={look.label} press={() => look.press(path.value)} />
    </div>
  );
}

// Colour mode of both timelines, and the legend of changes.

const MODES: readonly (readonly [id: Colour, text: string, about: string])[] = [
  ["change", "change", "By the change of each event"],
  ["kind", "kind", "By kind: compute, communication, copies, host"],
  ["name", "name", "By kind, each name in a shade of its own"],
];

interface LegendLook {
  colour: Colour;
  swapped: boolean;
  theme: ThemeName;
  /** Number of events of each class, before and after; null until known. */
  counts: readonly (readonly number[])[] | null;
  /** Retries matching after a failure; null while matching runs. */
  again: (() => void) | null;
  choose(colour: Colour): void;
}

export function ColourLegend({ colour, swapped, theme, counts, again, choose }: LegendLook) {
  const there = GROUPS.map((group) => ({ group, count: countOf(group, counts, swapped) }));
  const trying = again === null ? "matching calls …" : "calls could not be matched";
  return (
    <div class="hta-diff-colours">
      <span class="hta-note">Colour by</span>
      <Choice name="Colour by" data="colour" options={MODES} chosen={colour} choose={choose} />
      <div class="hta-diff-keys">
        {colour === "change" && (
          <>
            {there
              .filter(({ count }) => count !== 0)
              .map(({ group, count }) => (
                <Key key={group.name} group={group} count={count} theme={theme} />
              ))}
            <span class="hta-note">
              {counts === null ? trying : "short events: by most of their time"}
            </span>
            {counts === null && again !== null && <Button text="Try again" press={again} />}
          </>
        )}
      </div>
    </div>
  );
}

function Key(look: { group: ClassGroup; count: number | null; theme: ThemeName }) {
  const { group, count, theme } = look;
  const words = count === null ? "" : ` ${formatCount(count)} events on both sides.`;
  return (
    <span class="hta-diff-key" title={`${group.name}: ${group.words}.${words}`}>
      {group.classes.map((name) => (
        <i key={name} class="hta-diff-swatch" style={lookStyle(classLook(name, theme))} />
      ))}
      <span>{group.name}</span>
      {count !== null && <small>{formatCount(count)}</small>}
    </span>
  );
}
