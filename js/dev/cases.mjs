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
    name: "in",
    size: { height: 640 },
    act: async () => {
      const { stage } = harness;
      stage.setRows({ open: new Set([5]), pinned: [], filter: "" });
      stage.setView([451.32e6, 453.36e6]);
      await harness.settled();
    },
  },
  { name: "narrow", size: { width: 700, height: 445 } },
  { name: "ranks64", query: { ranks: 64 } },
  { name: "search", act: () => harness.overlay({ search: "wgrad" }) },
  { name: "hidpi", size: { scale: 2 } },
];
