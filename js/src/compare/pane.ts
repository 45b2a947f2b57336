/** What panes of a comparison have in common: they are drawn anew when what they depend on changes. */

import { h } from "../app/dom";
import type { ThemeName } from "../contract";
import { plural } from "../draw/format";

export abstract class Pane {
  protected theme: ThemeName = "light";

  setTheme(theme: ThemeName): void {
    this.theme = theme;
    this.draw();
  }

  protected abstract draw(): void;
}

/** A pane that is laid out for its width. px. */
export abstract class WidePane extends Pane {
  protected width = 0;

  setWidth(width: number): void {
    if (width === this.width) return;
    this.width = width;
    this.draw();
  }
}

/** A pane of rows, of which one may be chosen: as many as there is room for, more when asked. */
export abstract class RowsPane<Choice> extends Pane {
  protected chosen: Choice | null = null;
  /** Rows that were asked for beyond the room. */
  private more = 0;

  constructor(private room: number) {
    super();
  }

  /** How many rows there is room for. */
  setRoom(rows: number): void {
    if (rows === this.room) return;
    this.room = rows;
    this.draw();
  }

  get choice(): Choice | null {
    return this.chosen;
  }

  /** Show what is chosen; null for nothing. */
  setChoice(choice: Choice | null): void {
    this.chosen = choice;
    this.draw();
  }

  /** How many rows are shown. */
  protected get shown(): number {
    return this.room + this.more;
  }

  /** Asks for `step` rows more of a `what`, where there are any. */
  protected moreOf(rows: readonly unknown[], what: string, step: number): HTMLElement | false {
    const left = rows.length - this.shown;
    const show = (): void => {
      this.more += step;
      this.draw();
    };
    return (
      left > 0 &&
      h(
        "button",
        { type: "button", class: "hta-link hta-diff-more", on: { click: show } },
        plural(left, `more ${what}`),
      )
    );
  }
}
