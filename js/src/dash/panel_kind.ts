/** What is said of a panel in the lists of them. */

export type Dimension = "ranks" | "names" | "kinds" | "window";

export interface PanelKind {
  id: string;
  title: string;
  /** One line on what is seen there. */
  about: string;
  /** What it is not filtered by. */
  own: readonly Dimension[];
  look: "timeline" | "heatmap" | "chart" | "table" | "words";
}

export const panel = (
  id: string,
  look: PanelKind["look"],
  title: string,
  about: string,
  ...own: Dimension[]
): PanelKind => ({ id, look, title, about, own });
