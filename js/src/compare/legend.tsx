/** The color selector for both timelines, and the legend of changes. */

import {
  type ClassGroup,
  classStyle,
  countEventsInGroup,
  GROUPS,
  classCss,
} from "../facts/event_classes";
import type { ThemeName } from "../protocol/source";
import { Button, ChoiceButtons } from "../ui/controls";
import { formatCount } from "../ui/formats";
import type { Color } from "./context";

const COLOR_MODES: readonly (readonly [id: Color, text: string, about: string])[] = [
  ["change", "change", "By the change of each event"],
  ["kind", "kind", "By kind: compute, communication, copies, host"],
  ["name", "name", "By kind, each name in a shade of its own"],
];

interface ColorLegendProps {
  color: Color;
  swapped: boolean;
  theme: ThemeName;
  /** Number of events of each class, before and after; null until it is loaded. */
  counts: readonly (readonly number[])[] | null;
  /** Repeat the matching after a failure; null while it runs. */
  again: (() => void) | null;
  choose(color: Color): void;
}

export function ColorLegend(props: ColorLegendProps) {
  const { color, choose } = props;
  return (
    <div class="hta-diff-colors">
      <span class="hta-note">Colour by</span>
      <ChoiceButtons
        name="Colour by"
        data="color"
        options={COLOR_MODES}
        chosen={color}
        choose={choose}
      />
      <div class="hta-diff-keys">{color === "change" && <ChangeKeys {...props} />}</div>
    </div>
  );
}

function ChangeKeys({ swapped, theme, counts, again: retry }: ColorLegendProps) {
  const groups = GROUPS.map((group) => ({
    group,
    count: countEventsInGroup(group, counts, swapped),
    // Only changed events have counts. The rest are unchanged, changed by chance, or not compared.
    isChange: !["same", "not compared"].includes(group.name),
  })).filter(({ count }) => count !== 0);
  const matchingNote = retry === null ? "matching calls …" : "calls could not be matched";
  const shortNote = "short events are coloured only if they change by 10 % or more";
  return (
    <>
      {groups.map(({ group, count, isChange }) => (
        <ColorKey key={group.name} group={group} count={isChange ? count : null} theme={theme} />
      ))}
      <span class="hta-note">{counts === null ? matchingNote : shortNote}</span>
      {counts === null && retry !== null && <Button text="Try again" press={retry} />}
    </>
  );
}

function ColorKey(props: { group: ClassGroup; count: number | null; theme: ThemeName }) {
  const { group, count, theme } = props;
  const text = count === null ? "" : ` ${formatCount(count)} events on both sides.`;
  return (
    <span class="hta-diff-key" title={`${group.name}: ${group.words}.${text}`}>
      {group.classes.map((name) => (
        <i key={name} class="hta-diff-swatch" style={classCss(classStyle(name, theme))} />
      ))}
      <span>{group.name}</span>
      {count !== null && <small>{formatCount(count)}</small>}
    </span>
  );
}
