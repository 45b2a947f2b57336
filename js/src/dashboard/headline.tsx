/** The headline of a dashboard: one to three sentences computed in Python. */

import { wholeRunName } from "../ui/formats";
import { Button, Skeleton } from "../ui/controls";
import type { DashContext } from "./context";
import { type HeadlinePiece, rankText } from "./findings";
import type { DashSelection } from "./selection_state";

/** Maximum number of findings offered in one place. */
const MAX_FINDINGS = 4;

export function Headline({ ctx }: { ctx: DashContext }) {
  const { selectionState, scene } = ctx;
  const facts = ctx.headline.value;
  if (facts === null && ctx.isHeadlinePending.value) {
    return <Skeleton class="hta-headline" lines={2} />;
  }
  if (facts === null || facts.headline.length === 0) return null;
  const sentence = (pieces: readonly HeadlinePiece[]) =>
    pieces.map((piece) => <Piece piece={piece} selectionState={selectionState} />);
  return (
    <div class="hta-headline">
      <h2>{sentence(facts.headline)}</h2>
      {facts.more.length > 0 && (
        <p>{facts.more.flatMap((pieces, index) => [index > 0 ? " " : "", ...sentence(pieces)])}</p>
      )}
      <div class="hta-headline-findings" role="group" aria-label="Findings">
        {selectionState.scope.value !== "job" && (
          <span class="hta-note">{`of the ${wholeRunName(scene.value)}`}</span>
        )}
        <FindingButtons ctx={ctx} isWindow />
      </div>
    </div>
  );
}

/** A piece of text, or a rank as a button that selects it. */
function Piece(props: { piece: HeadlinePiece; selectionState: DashSelection }) {
  const { piece, selectionState } = props;
  if (typeof piece === "string") return <>{piece}</>;
  return (
    <button
      type="button"
      class={`hta-rank-link${piece.fact === true ? " hta-rank-fact" : ""}`}
      title={`Select rank ${piece.rank}`}
      onClick={({ ctrlKey, metaKey, shiftKey }) =>
        selectionState.chooseRank(piece.rank, ctrlKey || metaKey || shiftKey)
      }
    >
      {rankText(piece)}
    </button>
  );
}

/** Buttons for the first findings, either with a window or without one (`isWindow`). */
export function FindingButtons({ ctx, isWindow }: { ctx: DashContext; isWindow: boolean }) {
  const findings = ctx.headline.value?.findings ?? [];
  return (
    <>
      {findings
        .filter(({ selection }) => (selection.start_ns !== null) === isWindow)
        .slice(0, MAX_FINDINGS)
        .map((finding) => (
          // The visible text is the accessible name; the hint is the description.
          <Button
            key={finding.label}
            text={finding.label}
            title={finding.text}
            press={() => ctx.selectionState.chooseWindow(finding)}
          />
        ))}
    </>
  );
}
