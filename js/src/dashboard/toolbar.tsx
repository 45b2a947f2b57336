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
  const { selectionState, shownPanels, folding } = ctx;
  /** The panel that was last added with the menu. */
  const added = useRef("");
  const offered = groupPanels(ctx.offeredPanels);
  const panels = (): MenuItem[] =>
    offered.map(({ id, group: name = "More", ...kind }) => {
      const [text, about, group] = [kind.title, kind.about, name].map((words) =>
        fillDeviceWord(words, ctx.device),
      ) as [string, string, string];
      const on = shownPanels.value.includes(id);
      const press = (): void => {
        ctx.showPanel(id, !on);
        added.current = on ? "" : id;
      };
      const isIdle = ctx.idlePanels.value.includes(id);
      return { text, note: isIdle ? "nothing to show in this job" : about, on, group, press };
    });
  const showAdded = (): void => {
    if (added.current !== "") ctx.bringIntoView(added.current);
    added.current = "";
  };
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
      <MenuButton
        text="Panels"
        name="Choose which panels are shown"
        keep
        search="Search panels"
        items={panels}
        onClose={showAdded}
      >
        {" ▾"}
      </MenuButton>
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

/** The title and facts of the job, with a badge that opens the list of its problems. */
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

/** The selector of the scope of all figures: panels, legend, the timeline's column of totals. */
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
