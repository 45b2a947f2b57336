/** A timeline's commands, which are run by keys, buttons and menus. */

import { selectionSpan } from "../protocol/selection";
import type { Span } from "../protocol/source";
import type { TimeMark } from "../stage/overlay";
import type { RichText } from "../ui/text";
import { MOTION } from "../ui/theme";
import type { FullWindow } from "../ui/placing";
import type { Popover } from "../ui/menu";
import { addTimeMark, removeNearestTimeMark, type TimelineContext } from "./context";
import type { FoldingController } from "./folding";
import type { HoverController } from "./hover";
import type { Command, KeyMatch } from "./keys";
import { KeyMotion, type KeyPush } from "./motion";
import type { Navigation } from "./navigation";
import type { PanelControl } from "./panels/control";
import type { PointerInput } from "./pointer";
import type { RowsController } from "./rows";
import type { SearchController } from "./search";
import type { EventSelection } from "./selected_event";
import type { StatusLine } from "./status";

/** Commands that repeat while their key is held down. */
const PUSHES: Partial<Record<Command, Omit<KeyPush, "fast">>> = {
  "zoom-in": { axis: "zoom", direction: 1 },
  "zoom-out": { axis: "zoom", direction: -1 },
  "pan-left": { axis: "pan", direction: -1 },
  "pan-right": { axis: "pan", direction: 1 },
  "rows-up": { axis: "rows", direction: -1 },
  "rows-down": { axis: "rows", direction: 1 },
};

/** What the arrow keys do if no event is selected. */
const ARROW_PANS: Partial<Record<Command, Command>> = { previous: "pan-left", next: "pan-right" };

const BUTTON_ZOOM = 2;

/** Commands for the selected event. They wait for replies to earlier keys that may select it. */
const EVENT_COMMANDS: ReadonlySet<Command> = new Set<Command>([
  "zoom-selection",
  "mark",
  "mark-keep",
  "select-window",
  "pin",
  "fold-group",
]);

type CommandActions = Partial<Record<Command, () => unknown>>;

interface CommandParts {
  readonly ctx: TimelineContext;
  readonly nav: Navigation;
  readonly rows: RowsController;
  readonly picking: EventSelection;
  readonly folding: FoldingController;
  readonly search: SearchController;
  readonly status: StatusLine;
  readonly panels: PanelControl;
  readonly hover: HoverController;
  readonly pointer: PointerInput;
  readonly help: Popover;
  /** Null if the timeline is a panel of a dashboard, because the dashboard fills the window. */
  readonly fullWindow: FullWindow | null;
}

export class Commands {
  readonly motion: KeyMotion;
  private timeMarks: readonly TimeMark[] = [];
  private readonly bookmarks = new Map<number, Span>();
  private readonly actions: CommandActions;

  constructor(private readonly app: CommandParts) {
    const { nav, pointer, ctx } = app;
    this.actions = this.makeActions(app);
    this.motion = new KeyMotion(
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

  press(match: KeyMatch, id: string): boolean {
    const { command } = match;
    const panOfArrow = this.app.picking.active ? undefined : ARROW_PANS[command];
    const push = PUSHES[panOfArrow ?? command];
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

  /** Return the action of each command. An action returns false if there was nothing to do. */
  private makeActions(app: CommandParts): CommandActions {
    const { nav, rows, picking, pointer, search, status, fullWindow, ctx } = app;
    const { shared } = ctx;
    const flash = (text: string): void => status.flashMessage([text], 1200);
    const zoom = (factor: number): void => nav.zoomBy(factor, pointer.focusTime(), MOTION.zoomKey);
    return {
      "zoom-in": () => zoom(BUTTON_ZOOM),
      "zoom-out": () => zoom(1 / BUTTON_ZOOM),
      previous: () => this.step(-1),
      "previous-event": () => this.step(-1),
      next: () => this.step(1),
      "next-event": () => this.step(1),
      "zoom-selection": () => nav.toggleZoom(picking.target()),
      fit: () => nav.fit(),
      undo: () => ctx.requests.run(() => shared.undo() || flash("Nothing to undo.")),
      redo: () => ctx.requests.run(() => shared.redo() || flash("Nothing to redo.")),
      mark: () => this.addMark(false),
      "mark-keep": () => this.addMark(true),
      unmark: () => this.removeMark(),
      "select-window": () => {
        if (picking.brief === null)
          status.flashMessage(["Select an event first: R makes it a window."]);
        picking.eventToWindow();
      },
      "select-all": () => picking.selectAll(),
      "flow-back": () => this.followFlow("in", "into"),
      "flow-forward": () => this.followFlow("out", "out of"),
      search: () => search.focus(),
      "hit-next": () => search.text !== "" && search.step(1),
      "hit-previous": () => search.text !== "" && search.step(-1),
      pin: () => this.pin(),
      color: () => shared.set({ color: ctx.nextColor }),
      "open-all": () => rows.toggleAll(),
      fold: () => this.fold(),
      "fold-group": () => this.foldGroup(),
      stacks: () =>
        rows.toggleAllStacks() || status.flashMessage(["No stacks of Python frames to fold."]),
      roomy: () => rows.toggleEmptyLanes(),
      export: () => app.panels.openExport(),
      help: () => app.help.toggle(ctx.button("help")),
      "full-window": () => fullWindow !== null && fullWindow.toggle(),
      leave: () => this.leave(),
    };
  }

  /** Run a command. Return false if there was nothing to do, which lets the key propagate. */
  run(command: Command): boolean {
    const act = this.actions[command];
    if (act === undefined) return false;
    if (!EVENT_COMMANDS.has(command)) return act() !== false;
    this.app.picking.whenLoaded("brief", act);
    return true;
  }

  private pin(): void {
    const { hover, picking, rows, status, ctx } = this.app;
    const brief = picking.brief;
    const rowOfEvent = brief && {
      rank: brief.rank,
      track: ctx.lanes.locate(brief.lane)?.track ?? null,
    };
    const row = hover.row ?? rowOfEvent;
    if (row === null) {
      status.flashMessage(["Point at a row, or select an event: P pins its row to the top."]);
      return;
    }
    const name = row.track === null ? `rank ${row.rank}` : `rank ${row.rank}, ${row.track.label}`;
    const change = rows.togglePin(row) ? "Pinned to the top: " : "No longer pinned: ";
    status.flashMessage([change, { strong: name }, "."]);
  }

  private fold(): boolean {
    const { folding, status } = this.app;
    const { isOffered, isOn } = folding.stateSignal.value;
    if (!isOffered) return false;
    if (folding.foldsNothing)
      status.flashMessage([folding.note || "There are no similar ranks to fold."]);
    folding.set(!isOn);
    return true;
  }

  /** Fold or unfold the group of the row under the pointer, or that of the selected event. */
  private foldGroup(): boolean {
    const { folding, hover, picking, rows, status } = this.app;
    if (rows.rankGroups.value === null) return false;
    const rank = hover.row?.rank ?? picking.brief?.rank ?? null;
    if (rank === null || !folding.toggleGroup(rank)) {
      status.flashMessage([
        "Point at a row of several ranks: ",
        { key: "Shift+U" },
        " shows all of them.",
      ]);
    }
    return true;
  }

  private step(direction: 1 | -1): void {
    const { picking, status } = this.app;
    const side = direction > 0 ? "later" : "earlier";
    picking.step(direction, (hasEvent) => {
      const text = hasEvent ? `No ${side} event on this lane.` : "Select an event first.";
      status.flashMessage([text], 1500);
    });
  }

  private followFlow(direction: "in" | "out", placeText: string): void {
    const { picking, status } = this.app;
    picking.whenLoaded("detail", () => {
      const { active, detail } = picking;
      const flow = detail?.flows.find((candidate) => candidate.direction === direction);
      if (flow !== undefined) picking.goTo(flow.brief);
      else if (detail !== null)
        status.flashMessage([`No arrow leads ${placeText} this event.`], 1500);
      else if (!active) status.flashMessage(["Select an event first."], 1500);
    });
  }

  private addMark(isKept: boolean): void {
    const { picking, pointer, status, ctx } = this.app;
    const { brief } = picking;
    const span: Span =
      brief !== null
        ? [brief.start, brief.start + brief.dur]
        : (selectionSpan(picking.window, ctx.scene) ?? [pointer.focusTime(), pointer.focusTime()]);
    this.setTimeMarks(addTimeMark(this.timeMarks, span, isKept));
    const text: RichText = isKept
      ? ["Marked and kept. ", { key: "Delete" }, " removes the nearest mark."]
      : ["Marked until the next ", { key: "M" }, ". ", { key: "Shift+M" }, " keeps a mark."];
    status.flashMessage(text);
  }

  private removeMark(): void {
    const { pointer, status } = this.app;
    if (this.timeMarks.length === 0) status.flashMessage(["No mark to remove."], 1500);
    this.setTimeMarks(removeNearestTimeMark(this.timeMarks, pointer.focusTime()));
  }

  private setTimeMarks(timeMarks: TimeMark[]): void {
    this.timeMarks = timeMarks;
    this.app.ctx.stage.setOverlay({ timeMarks });
  }

  private bookmark(command: "bookmark-set" | "bookmark-go", digit: number): void {
    const { nav, status } = this.app;
    if (command === "bookmark-set") {
      this.bookmarks.set(digit, nav.view());
      status.flashMessage(["View saved: ", { key: String(digit) }, " comes back to it."]);
      return;
    }
    const view = this.bookmarks.get(digit);
    if (view !== undefined) nav.zoomTo(view);
    else
      status.flashMessage(["No view saved here. ", { key: `Ctrl+${digit}` }, " saves this one."]);
  }

  /** On Escape, cancel a drag, close a panel with its event, clear the selection, or leave. */
  private leave(): boolean {
    const { pointer, picking, panels, fullWindow, ctx, status } = this.app;
    ctx.requests.cancel();
    if (pointer.cancel()) return true;
    const ask = new Event("hta-escape", { bubbles: true, cancelable: true });
    ctx.root.dispatchEvent(ask);
    if (ask.defaultPrevented) return true;
    if (panels.close()) return true;
    status.setMessage("search", null);
    if (picking.active || picking.window !== null) {
      picking.clearAll();
      return true;
    }
    if (fullWindow?.leave() === true) return true;
    ctx.focus();
    ctx.root.blur();
    return true;
  }
}
