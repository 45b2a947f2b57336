/* global harness */
// What to draw: each case opens the harness with `query`, then runs `act` in the page.
export const CASES = [
  { name: "out" },
  {
    name: "dark",
    query: { theme: "dark", height: 520 },
    size: { height: 520 },
    act: () => harness.stage.setView([262e6, 545e6]),
  },
  {
    // One communication kernel of rank 5 selected, with the arrow from its launch.
    name: "in",
    size: { height: 640 },
    act: async () => {
      const { stage, source } = harness;
      stage.setRows({ open: new Set([5]), pinned: [], filter: "" });
      const from = { rank: 5, start: 4.4e8 };
      const { reply } = await source.ask("find", { text: "ncclKernel", from, direction: 1 });
      const { rank, table, id, start, dur } = reply.brief;
      stage.setView([start - 6.5e5, start + dur + 1.8e5]);
      const detail = (await source.ask("event", { rank, table, id })).reply;
      const flows = detail.flows.map(({ kind, direction, brief }) =>
        direction === "in"
          ? { kind, from: brief, to: detail.event }
          : { kind, from: detail.event, to: brief },
      );
      harness.overlay({ selected: detail.event, flows });
      await harness.settled();
      stage.reveal(detail.event.lane);
    },
  },
  {
    // Everything that can lie over the lanes, at once.
    name: "overlays",
    act: () => {
      const { stage } = harness;
      stage.setView([3e8, 5e8]);
      stage.setRows({ open: new Set(), pinned: ["3"], filter: "" });
      harness.overlay({
        brush: { start: 3.4e8, end: 3.9e8, ranks: [0, 1, 2], tracks: null },
        ruler: { start: 4.1e8, end: 4.43e8, y: 260 },
        notes: [
          { start: 4.5e8, end: 4.5e8, kept: true },
          { start: 4.6e8, end: 4.85e8, kept: false },
        ],
        search: "wgrad",
        dimmed: new Set(["communication"]),
      });
    },
  },
  {
    name: "byname",
    act: () => {
      harness.stage.setColor("name");
      harness.stage.setView([4e8, 4.02e8]);
    },
  },
  { name: "narrow", size: { width: 700, height: 445 } },
  { name: "ranks64", query: { ranks: 64 } },
  { name: "search", act: () => harness.overlay({ search: "wgrad" }) },
  { name: "open", query: { open: "default" }, size: { height: 700 } },
  {
    name: "open_in",
    query: { open: "default" },
    size: { height: 700 },
    act: () => {
      const [start, end] = harness.stage.scene.range;
      const middle = start + (end - start) * 0.45;
      harness.stage.setView([middle, middle + (end - start) / 60]);
    },
  },
  {
    name: "edge",
    act: () => harness.stage.setView([7.8e8, 8.6e8]),
  },
  {
    // The kernel answers no more after the first picture; a zoom in stretches what is there.
    name: "busy_in",
    act: async () => {
      harness.source.held = [];
      harness.stage.setView([3.2e8, 4.2e8]);
    },
  },
  {
    name: "busy_out",
    act: async () => {
      harness.stage.setView([3.2e8, 4.2e8]);
      await harness.settled();
      harness.source.held = [];
      harness.stage.setView([2e8, 6e8]);
    },
  },
  {
    // Deep in: single nanoseconds.
    name: "deep",
    query: { open: "default", ranks: 1 },
    size: { height: 500 },
    act: async () => {
      const { stage } = harness;
      stage.setView([4e8, 4.005e8]);
      await harness.settled();
      const lane = stage.scene.ranks[0].tracks.find(({ role }) => role === "stream").lane0;
      const [slice] = stage.slices(lane);
      if (slice) stage.setView([slice.start - 40, slice.start + 140]);
    },
  },
  { name: "hidpi", size: { scale: 2 } },
];
