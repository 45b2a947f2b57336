/** The toolbar of a dashboard. */

import { useRef } from "preact/hooks";
import { PANELS } from "../facts/panels";
import { fillDeviceWord } from "../protocol/scene";
import type { FigureScope } from "../protocol/source";
import { problemLines } from "../timeline/panels/problems";
import { Button, ChoiceButtons, CutName, Icon, UndoRedoPair } from "../ui/controls";
import { formatCount, formatDuration, plural } from "../ui/formats";
import { MenuButton, type MenuItem, Toolbar } from "../ui/menu";
import { FullButton, type FullWindow } from "../ui/placing";
import type { DashContext } from "./context";
import { ShareButton } from "./share";

export function DashToolbar({ ctx, full }: { ctx: DashContext; full: FullWindow }) {
  const { selectionState, folding } = ctx;
  return (
    <Toolbar class="hta-dash-toolbar" name="Dashboard">
      <JobName ctx={ctx} />
      <UndoRedoPair
        {...selectionState.steps}
        undo={() => selectionState.travel("undo")}
        redo={() => selectionState.travel("redo")}
      />
      {folding.value.isOffered && (
        <Button
          icon="fold"
          name="Fold similar ranks"
          keys="U"
          class="hta-fold"
          on={folding.value.isOn}
          press={() => ctx.timeline.commands.run("fold")}
        />
      )}
      <ScopeChoice ctx={ctx} />
      <PanelsMenu ctx={ctx} />
      <ShareButton ctx={ctx} />
      {!ctx.isFilled.value && <FullButton full={full} hint />}
      <Button
        text="?"
        name="Keys and gestures"
        class="hta-help-button"
        press={({ currentTarget }) => ctx.timeline.help.toggle(currentTarget as HTMLElement)}
      />
    </Toolbar>
  );
}

/** The menu that shows and hides panels. The most recently added panel is scrolled into view. */
function PanelsMenu({ ctx }: { ctx: DashContext }) {
  const { shownPanels, idlePanels, device } = ctx;
  const addedPanel = useRef("");
  const items = (): MenuItem[] =>
    groupPanels(ctx.offeredPanels).map(({ id, group = "More", title, about }) => {
      const on = shownPanels.value.includes(id);
      const isIdle = idlePanels.value.includes(id);
      return {
        text: fillDeviceWord(title, device),
        note: isIdle ? "nothing to show in this job" : fillDeviceWord(about, device),
        on,
        group: fillDeviceWord(group, device),
        press: () => {
          ctx.showPanel(id, !on);
          addedPanel.current = on ? "" : id;
        },
      };
    });
  const showAdded = (): void => {
    if (addedPanel.current !== "") ctx.bringIntoView(addedPanel.current);
    addedPanel.current = "";
  };
  return (
    <MenuButton
      text="Panels"
      name="Choose which panels are shown"
      keep
      search="Search panels"
      items={items}
      onClose={showAdded}
    >
      {" ▾"}
    </MenuButton>
  );
}

/** The job's title and facts, with a badge that opens the list of problems. */
function JobName({ ctx }: { ctx: DashContext }) {
  const scene = ctx.scene.value;
  const { format = "" } = ctx.jobFacts;
  const { title, range, events, steps } = scene;
  const isPart = (scene.ranks_of_job ?? "") !== "";
  const ranks = isPart ? scene.ranks_of_job! : plural(scene.ranks.length, "rank");
  const before = format === "" ? [] : [format];
  const after = [
    ...(events > 0 ? [plural(events, "event"), formatDuration(range[1] - range[0])] : []),
    ...(steps.length > 0 ? [plural(steps.length, "step")] : []),
  ];
  return (
    <div class="hta-name hta-grow">
      <b class="hta-title" title={title}>
        <CutName text={title} />
      </b>
      <span class="hta-facts" title={[...before, ranks, ...after].join(" · ")}>
        {before.map((fact) => `${fact} · `)}
        {isPart ? <span class="hta-warn-text">{ranks}</span> : ranks}
        {after.map((fact) => ` · ${fact}`)}
      </span>
      <ProblemBadge ctx={ctx} />
    </div>
  );
}

function ProblemBadge({ ctx }: { ctx: DashContext }) {
  const scene = ctx.scene.value;
  const { truth } = scene;
  const count = problemLines(scene).length;
  if (count === 0) return null;
  const isWarning = truth.level !== "ok";
  const text = plural(count, isWarning ? "problem" : "note");
  return (
    <button
      type="button"
      class={`hta-badge hta-problem-badge ${isWarning ? "hta-warn" : ""}`}
      title={truth.text}
      aria-label={text}
      onClick={({ currentTarget }) => ctx.timeline.panels.openProblems(currentTarget)}
    >
      {isWarning && <Icon name="warn" />}
      <span class="hta-if-wide">{text}</span>
      <span class="hta-if-tight">{formatCount(count)}</span>
    </button>
  );
}

function groupPanels(ids: readonly string[]): typeof PANELS {
  const offered = PANELS.filter(({ id }) => ids.includes(id));
  const groups = [...new Set(offered.map(({ group }) => group))];
  return groups.flatMap((group) => offered.filter((panel) => panel.group === group));
}

/** The selector of the scope of all figures: panels, legend, and the timeline's totals column. */
function ScopeChoice({ ctx: { selectionState, scene, timeline } }: { ctx: DashContext }) {
  const isPart = scene.value.part !== undefined && scene.value.part !== null;
  const choose = (scope: FigureScope): void => {
    selectionState.setScope(scope);
    if (scope === "selection" && selectionState.selection.value === null) {
      timeline.flash("Nothing is selected: click a bar, or drag over the timeline with Alt.");
    }
  };
  return (
    <span class="hta-scope">
      <span class="hta-note">Numbers for</span>
      <ChoiceButtons
        name="Numbers for"
        options={[
          ["job", isPart ? "whole export" : "whole job"],
          ["view", "view", "What is in the timeline's window"],
          ["selection", "selection", "What is selected"],
        ]}
        chosen={selectionState.scope.value}
        data="scope"
        choose={choose}
      />
    </span>
  );
}
