/** Commands of the timeline; keys, buttons and menus call these. */

import { selectionSpan } from "../protocol/selection";
import type { Span } from "../protocol/source";
import type { Words } from "../ui/text";
import { marked, type Note, unmarked } from "./context";
import type { Command, Match } from "./keys";
import { Motion, type Push } from "./motion";
import type { TimelineApp } from "./view";

/** Commands that repeat while their key is held. */
const PUSHES: Partial<Record<Command, Omit<Push, "fast">>> = {
  "zoom-in": { axis: "zoom", direction: 1 },
  "zoom-out": { axis: "zoom", direction: -1 },
  "pan-left": { axis: "pan", direction: -1 },
  "pan-right": { axis: "pan", direction: 1 },
  "rows-up": { axis: "rows", direction: -1 },
  "rows-down": { axis: "rows", direction: 1 },
};

type Acts = Partial<Record<Command, () => unknown>>;

export class Commands {
  readonly motion: Motion;
  private notes: readonly Note[] = [];
  private readonly bookmarks = new Map<number, Span>();
  private readonly acts: Acts;

  constructor(private readonly app: TimelineApp) {
    const { nav, pointer, ctx } = app;
    this.acts = this.actsOf(app);
    this.motion = new Motion(
      (axis, amount) => {
        if (axis === "zoom") nav.zoomBy(Math.exp(amount), pointer.focusTime());
        else if (axis === "pan") nav.panBy(amount);
        else ctx.stage.scrollBy(amount);
      },
      () => nav.end(),
      () => matchMedia("(prefers-reduced-motion: reduce)").matches,
    );
    ctx.signal.addEventListener("abort", () => this.motion.stop(), { once: true });
  }

  /** Handle a key press. */
  press(match: Match, id: string): boolean {
    const { command } = match;
    const arrowPans =
      (command === "previous" || command === "next") && this.app.picking.brief === null;
    const held = arrowPans ? (command === "previous" ? "pan-left" : "pan-right") : command;
    const push = PUSHES[held];
    if (push !== undefined) {
      if (!this.motion.active) this.app.nav.begin();
      this.motion.press(id, { ...push, fast: match.fast }, performance.now());
      return true;
    }
    if (command === "bookmark-set" || command === "bookmark-go") {
      this.bookmark(command, match.digit);
      return true;
    }
    return this.run(command);
  }

  /** What each command does; false if there was nothing to do. */
  private actsOf(app: TimelineApp): Acts {
    const { nav, rows, picking, search, status, full, ctx } = app;
    const { shared } = ctx;
    return {
      previous: () => this.step(-1),
      "previous-event": () => this.step(-1),
      next: () => this.step(1),
      "next-event": () => this.step(1),
      "zoom-selection": () => nav.toggleZoom(picking.target()),
      fit: () => nav.fit(),
      undo: () => shared.undo() || status.flash(["Nothing to undo."], 1200),
      redo: () => shared.redo() || status.flash(["Nothing to redo."], 1200),
      mark: () => this.mark(false),
      "mark-keep": () => this.mark(true),
      unmark: () => this.unmark(),
      "select-window": () => {
        if (picking.brief === null) status.flash(["Select an event first: R makes it a window."]);
        picking.eventToWindow();
      },
      "select-all": () => picking.selectAll(),
      "flow-back": () => picking.followFlow("in") || this.noFlow("into"),
      "flow-forward": () => picking.followFlow("out") || this.noFlow("out of"),
      search: () => search.focus(),
      "hit-next": () => search.text !== "" && search.step(1),
      "hit-previous": () => search.text !== "" && search.step(-1),
      pin: () => this.pin(),
      color: () => shared.set({ color: shared.state.color === "kind" ? "name" : "kind" }),
      "open-all": () => rows.toggleAll(),
      fold: () => this.fold(),
      "fold-group": () => this.foldGroup(),
      roomy: () => rows.toggleRoomy(),
      export: () => app.panels.openExport(),
      help: () => app.help.toggle(ctx.button("help")),
      "full-window": () => full !== null && full.toggle(),
      leave: () => this.leave(),
    };
  }

  /** Run a command; false if there was nothing to do, so that the key propagates. */
  run(command: Command): boolean {
    const act = this.acts[command];
    return act !== undefined && act() !== false;
  }

  /** Pin the row under the pointer, else the selected event's. */
  private pin(): void {
    const { hover, picking, rows, status, ctx } = this.app;
    const brief = picking.brief;
    const row =
      hover.row ??
      (brief === null
        ? null
        : { rank: brief.rank, track: ctx.lanes.at(brief.lane)?.track ?? null });
    if (row === null) {
      status.flash(["Point at a row, or select an event: P pins its row to the top."]);
      return;
    }
    const name = row.track === null ? `rank ${row.rank}` : `rank ${row.rank}, ${row.track.label}`;
    status.flash([
      rows.togglePin(row) ? "Pinned to the top: " : "No longer pinned: ",
      { strong: name },
      ".",
    ]);
  }

  private fold(): boolean {
    const { folding, status } = this.app;
    const { isOffered, isOn } = folding.now.value;
    if (!isOffered) return false;
    if (folding.isVain) status.flash([folding.note || "There are no similar ranks to fold."]);
    folding.set(!isOn);
    return true;
  }

  /** Fold or unfold the group of the row under the pointer, else of the selected event's row. */
  private foldGroup(): boolean {
    const { folding, hover, picking, rows, status } = this.app;
    if (rows.alike.value === null) return false;
    const rank = hover.row?.rank ?? picking.brief?.rank ?? null;
    if (rank === null || !folding.toggleGroup(rank)) {
      status.flash([
        "Point at a row of several ranks: ",
        { key: "Shift+U" },
        " shows all of them.",
      ]);
    }
    return true;
  }

  private step(direction: 1 | -1): void {
    const { ctx, picking, status } = this.app;
    if (picking.brief === null) {
      status.flash(["Select an event first."], 1500);
      return;
    }
    picking
      .step(direction)
      .then((found) => {
        if (!found)
          status.flash([`No ${direction > 0 ? "later" : "earlier"} event on this lane.`], 1500);
      })
      .catch((error: unknown) => ctx.fail("The neighbour cannot be found", error));
  }

  private noFlow(where: string): void {
    const { picking, status } = this.app;
    if (picking.brief === null) status.flash(["Select an event first."], 1500);
    else if (picking.detail !== null) status.flash([`No arrow leads ${where} this event.`], 1500);
  }

  private mark(kept: boolean): void {
    const { picking, pointer, status, ctx } = this.app;
    const { brief } = picking;
    const span: Span =
      brief !== null
        ? [brief.start, brief.start + brief.dur]
        : (selectionSpan(picking.window, ctx.scene) ?? [pointer.focusTime(), pointer.focusTime()]);
    this.setNotes(marked(this.notes, span, kept));
    const words: Words = kept
      ? ["Marked and kept. ", { key: "Delete" }, " removes the nearest mark."]
      : ["Marked until the next ", { key: "M" }, ". ", { key: "Shift+M" }, " keeps a mark."];
    status.flash(words);
  }

  private unmark(): void {
    const { pointer, status } = this.app;
    if (this.notes.length === 0) status.flash(["No mark to remove."], 1500);
    this.setNotes(unmarked(this.notes, pointer.focusTime()));
  }

  private setNotes(notes: Note[]): void {
    this.notes = notes;
    this.app.ctx.stage.setOverlay({ notes });
  }

  private bookmark(command: "bookmark-set" | "bookmark-go", digit: number): void {
    const { nav, status } = this.app;
    if (command === "bookmark-set") {
      this.bookmarks.set(digit, nav.view());
      status.flash(["View saved: ", { key: String(digit) }, " comes back to it."]);
      return;
    }
    const view = this.bookmarks.get(digit);
    if (view !== undefined) nav.zoomTo(view);
    else status.flash(["No view saved here. ", { key: `Ctrl+${digit}` }, " saves this one."]);
  }

  /** On Escape, leave one thing at a time, the nearest first. */
  private leave(): boolean {
    const { pointer, picking, panels, full, ctx, status } = this.app;
    if (pointer.cancel()) return true;
    const ask = new Event("hta-escape", { bubbles: true, cancelable: true });
    ctx.root.dispatchEvent(ask);
    if (ask.defaultPrevented) return true;
    if (panels.close()) return true;
    status.say("search", null);
    if (picking.active || picking.window !== null) {
      picking.clearAll();
      return true;
    }
    if (full?.leave() === true) return true;
    ctx.focus();
    ctx.root.blur();
    return true;
  }
}
