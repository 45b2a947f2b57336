/** Search by name: count the matches, and step from one match to the next. */

import { type ReadonlySignal, signal } from "@preact/signals";
import { asError, type Brief, isAbort } from "../protocol/source";
import { Button, Icon, Kbd } from "../ui/controls";
import { formatCount } from "../ui/formats";
import { OpenerButton } from "../ui/menu";
import { debounce, LatestRequest, type TimelineContext } from "./context";
import type { EventSelection } from "./selected_event";
import { type HitCount, isWholeRange } from "./text";

const TYPE_MS = 160;

interface SearchResult {
  /** Number of matches; null if no search is active. */
  hits: HitCount | null;
  /** Why there are no matches: an invalid pattern, or a failed request. */
  error: string | null;
  isPending: boolean;
}

const NO_RESULT: SearchResult = { hits: null, error: null, isPending: false };

export class SearchController {
  readonly result = signal<SearchResult>(NO_RESULT);
  /** Text in the field. The search starts when the user stops typing. */
  readonly fieldText = signal("");
  readonly ctx;
  private readonly newest: LatestRequest;
  private readonly requestLater;
  private currentHit: Brief | null = null;

  constructor(private readonly app: { ctx: TimelineContext; picking: EventSelection }) {
    const { ctx } = app;
    this.ctx = ctx;
    this.newest = new LatestRequest(ctx.signal);
    this.requestLater = debounce(TYPE_MS, ctx.signal, () => this.commit());
    ctx.source.onReply((op, request, reply) => {
      const { hits } = this.result.value;
      if (op !== "marks" || hits === null || request.text !== hits.text) return;
      const inView = reply.reply.in_view;
      if (typeof inView === "number" && inView !== hits.inView)
        this.set({ hits: { ...hits, inView } });
    });
  }

  get text(): string {
    return this.ctx.shared.state.search;
  }

  /** Focus the field, opening it first in a narrow toolbar. */
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

  isAt(brief: Brief): boolean {
    const { currentHit } = this;
    return (
      currentHit?.rank === brief.rank &&
      currentHit.table === brief.table &&
      currentHit.id === brief.id
    );
  }

  /** Search for a text when the user stops typing. */
  type(text: string): void {
    this.fieldText.value = text;
    this.requestLater();
  }

  search(text: string): void {
    this.fieldText.value = text;
    this.commit();
  }

  syncText(): void {
    this.requestLater.cancel();
    this.fieldText.value = this.text;
    this.load();
  }

  /** Go to the next or previous match of the text in the field. */
  step(direction: 1 | -1): void {
    this.commit();
    const { text, ctx } = this;
    const { picking } = this.app;
    if (text === "") return;
    ctx.requests.ask(
      (signal) => {
        const from = picking.brief ?? this.currentHit ?? this.viewStart();
        return ctx.source.ask("find", { text, from, direction }, signal);
      },
      ({ reply: { brief, total, index, error } }) => {
        if (text !== this.text) return;
        const inView = this.result.value.hits?.inView ?? null;
        this.set({ hits: { text, index, total, inView }, error });
        if (brief === null) return;
        this.currentHit = brief;
        picking.goTo(brief);
      },
      (error) => isAbort(error) || this.set({ error: asError(error).message }),
    );
  }

  /** Return where the search starts: at the start of the view; null if all is in view. */
  private viewStart(): { rank: number; start: number } | null {
    const { stage, scene } = this.ctx;
    const rank = scene.ranks[0]?.rank;
    if (rank === undefined || isWholeRange(stage.view(), scene)) return null;
    return { rank, start: Math.round(stage.view()[0]) };
  }

  private set(result: Partial<SearchResult>): void {
    this.result.value = { ...this.result.value, ...result };
  }

  private commit(): void {
    this.requestLater.cancel();
    if (this.fieldText.value === this.text) return;
    this.ctx.shared.set({ search: this.fieldText.value });
    this.load();
  }

  private load(): void {
    this.newest.cancel();
    const { stage, source } = this.ctx;
    const text = this.text;
    this.currentHit = null;
    stage.setOverlay({ search: text, hits: new Map() });
    this.result.value = { ...NO_RESULT, isPending: text !== "" };
    if (text === "") return;
    this.newest.ask(
      (signal) => source.ask("search", { text }, signal),
      ({ reply: { total, ranks, error } }) => {
        // The reply to a step may arrive before the count.
        const { index = 0, inView = null } = this.result.value.hits ?? {};
        const hits = error === null ? { text, index, total, inView } : null;
        stage.setOverlay({ hits: new Map(ranks) });
        this.result.value = { hits, error, isPending: false };
      },
      ({ message: error }) => (this.result.value = { ...NO_RESULT, error }),
    );
  }
}

/** The search field; in narrow toolbars, a button that opens it. */
export function SearchBox(props: { search: SearchController; isNarrow: ReadonlySignal<boolean> }) {
  const { search, isNarrow } = props;
  return (
    <div class="hta-search-place">
      {isNarrow.value ? (
        <OpenerButton
          icon="search"
          name="Search names"
          keys="/"
          class={search.fieldText.value === "" ? "" : "hta-on"}
          content={(close) => <SearchField search={search} close={close} isWide />}
        />
      ) : (
        <SearchField search={search} close={() => undefined} />
      )}
    </div>
  );
}

function SearchField(props: { search: SearchController; close(): void; isWide?: boolean }) {
  const { search, close, isWide = false } = props;
  const { error } = search.result.value;
  const text = search.fieldText.value;
  const active = text !== "";
  const press = (event: KeyboardEvent): void => {
    if (event.key === "Enter") {
      event.preventDefault();
      search.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      event.preventDefault();
      event.stopPropagation();
      close();
      search.ctx.focus();
    }
  };
  const classNames = `${isWide ? " hta-search-wide" : ""}${active ? " hta-active" : ""}`;
  return (
    <div class={`hta-search${classNames}${error === null ? "" : " hta-invalid"}`} role="search">
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
        {countText(search.result.value)}
      </span>
      {active ? (
        <span class="hta-steps">
          <Button icon="up" name="Previous hit" keys="Shift+Enter" press={() => search.step(-1)} />
          <Button icon="down" name="Next hit" keys="Enter" press={() => search.step(1)} />
          <Button icon="close" name="Clear the search" press={() => search.clear()} />
        </span>
      ) : (
        <Kbd name="/" />
      )}
    </div>
  );
}

function countText({ hits, error, isPending }: SearchResult): string {
  if (error !== null) return "not searchable";
  if (hits === null) return isPending ? "…" : "";
  if (hits.total === 0) return "no hit";
  const total = formatCount(hits.total);
  return hits.index > 0 ? `${formatCount(hits.index)} of ${total}` : total;
}
