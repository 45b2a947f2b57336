/** Search by name: counts, and stepping from hit to hit. */

import { type ReadonlySignal, signal } from "@preact/signals";
import { asError, type Brief, isAbort } from "../protocol/source";
import { Button, Icon, Kbd } from "../ui/controls";
import { formatCount } from "../ui/formats";
import { Opener } from "../ui/menu";
import { debounce, Newest } from "./context";
import { type HitCount, isWhole } from "./text";
import type { TimelineApp } from "./view";

const TYPE_MS = 160;

interface Found {
  /** Count of the hits; null without a search. */
  hits: HitCount | null;
  /** Reason for a lack of hits: an invalid pattern, or a failed request. */
  error: string | null;
  isPending: boolean;
}

const NOTHING: Found = { hits: null, error: null, isPending: false };

export class Search {
  readonly found = signal<Found>(NOTHING);
  /** Text of the field: searched for once the user stops typing. */
  readonly typed = signal("");
  readonly ctx;
  private readonly newest: Newest;
  private readonly later;
  private at: Brief | null = null;

  constructor(private readonly app: Pick<TimelineApp, "ctx" | "picking">) {
    const { ctx } = app;
    this.ctx = ctx;
    this.newest = new Newest(ctx.signal);
    this.later = debounce(TYPE_MS, ctx.signal, () => this.commit());
    ctx.source.onReply((op, request, reply) => {
      const { hits } = this.found.value;
      if (op !== "marks" || hits === null || request.text !== hits.text) return;
      const inView = reply.reply.in_view;
      if (typeof inView === "number" && inView !== hits.inView)
        this.set({ hits: { ...hits, inView } });
    });
  }

  get text(): string {
    return this.ctx.shared.state.search;
  }

  /** Write in the field, which a narrow toolbar has behind a button. */
  focus(): void {
    const { root } = this.ctx;
    const field = (): HTMLInputElement | null => root.querySelector(".hta-search > input");
    if (field() === null) root.querySelector<HTMLElement>(".hta-search-place > button")!.click();
    field()!.focus({ preventScroll: true });
    field()!.select();
  }

  clear(): void {
    this.search("");
    this.focus();
  }

  /** Whether an event is the current hit. */
  isAt(brief: Brief): boolean {
    const { at } = this;
    return at?.rank === brief.rank && at.table === brief.table && at.id === brief.id;
  }

  /** Search for a text once the user stops typing. */
  type(text: string): void {
    this.typed.value = text;
    this.later();
  }

  /** Search for a text immediately. */
  search(text: string): void {
    this.typed.value = text;
    this.commit();
  }

  /** Follow the text of the shared state. */
  follow(): void {
    this.later.cancel();
    this.typed.value = this.text;
    this.load();
  }

  /** Go to the next or previous hit of the text in the field. */
  async step(direction: 1 | -1): Promise<void> {
    this.commit();
    const text = this.text;
    if (text === "") return;
    this.set({ isPending: true });
    try {
      const { picking } = this.app;
      const from = picking.brief ?? this.at ?? this.viewStart();
      const reply = await this.ctx.source.ask("find", { text, from, direction }, this.ctx.signal);
      if (text !== this.text) return;
      const { brief, total, index, error } = reply.reply;
      const inView = this.found.value.hits?.inView ?? null;
      this.set({ hits: { text, index, total, inView }, error });
      if (brief !== null) {
        this.at = brief;
        picking.go(brief);
      }
    } catch (error) {
      if (!isAbort(error)) this.set({ error: asError(error).message });
    } finally {
      this.set({ isPending: false });
    }
  }

  /** Start of stepping: the start of the view, unless that is the whole job. */
  private viewStart(): { rank: number; start: number } | null {
    const { stage, scene } = this.ctx;
    const rank = scene.ranks[0]?.rank;
    if (rank === undefined || isWhole(stage.view(), scene)) return null;
    return { rank, start: Math.round(stage.view()[0]) };
  }

  private set(found: Partial<Found>): void {
    this.found.value = { ...this.found.value, ...found };
  }

  private commit(): void {
    this.later.cancel();
    if (this.typed.value === this.text) return;
    this.ctx.shared.set({ search: this.typed.value });
    this.load();
  }

  private load(): void {
    this.newest.cancel();
    const { stage, source } = this.ctx;
    const text = this.text;
    this.at = null;
    stage.setOverlay({ search: text, hits: new Map() });
    this.found.value = { ...NOTHING, isPending: text !== "" };
    if (text === "") return;
    this.newest.ask(
      (signal) => source.ask("search", { text }, signal),
      ({ reply: { total, ranks, error } }) => {
        const hits = error === null ? { text, index: 0, total, inView: null } : null;
        stage.setOverlay({ hits: new Map(ranks) });
        this.found.value = { hits, error, isPending: false };
      },
      ({ message: error }) => (this.found.value = { ...NOTHING, error }),
    );
  }
}

/** The search field; in narrow toolbars a button that opens it. */
export function SearchBox({ search, narrow }: { search: Search; narrow: ReadonlySignal<boolean> }) {
  return (
    <div class="hta-search-place">
      {narrow.value ? (
        <Opener
          icon="search"
          name="Search names"
          keys="/"
          class={search.typed.value === "" ? "" : "hta-on"}
          content={(close) => <SearchField search={search} close={close} isWide />}
        />
      ) : (
        <SearchField search={search} close={() => undefined} />
      )}
    </div>
  );
}

/** The field with its count and arrows. */
function SearchField(look: { search: Search; close(): void; isWide?: boolean }) {
  const { search, close, isWide = false } = look;
  const { error } = search.found.value;
  const text = search.typed.value;
  const active = text !== "";
  const press = (event: KeyboardEvent): void => {
    if (event.key === "Enter") {
      event.preventDefault();
      void search.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
      search.ctx.focus();
    }
  };
  const looks = `${isWide ? " hta-search-wide" : ""}${active ? " hta-active" : ""}`;
  return (
    <div class={`hta-search${looks}${error === null ? "" : " hta-invalid"}`} role="search">
      <Icon name="search" />
      <input
        type="text"
        class="hta-input"
        placeholder="Search"
        aria-label="Search names; /…/ is a regular expression"
        aria-invalid={error !== null}
        title={error ?? ""}
        spellcheck={false}
        autocomplete="off"
        value={text}
        onInput={({ currentTarget }) => search.type(currentTarget.value)}
        onKeyDown={press}
      />
      <span class="hta-count" aria-live="polite" title={error ?? ""}>
        {countWords(search.found.value)}
      </span>
      {active ? (
        <span class="hta-steps">
          <Button
            icon="up"
            name="Previous hit"
            keys="Shift+Enter"
            press={() => void search.step(-1)}
          />
          <Button icon="down" name="Next hit" keys="Enter" press={() => void search.step(1)} />
          <Button icon="close" name="Clear the search" press={() => search.clear()} />
        </span>
      ) : (
        <Kbd name="/" />
      )}
    </div>
  );
}

function countWords({ hits, error, isPending }: Found): string {
  if (error !== null) return "not searchable";
  if (hits === null) return isPending ? "…" : "";
  if (hits.total === 0) return "no hit";
  const total = formatCount(hits.total);
  return hits.index > 0 ? `${formatCount(hits.index)} of ${total}` : total;
}
