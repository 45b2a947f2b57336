/** The address of a view, set on the view's model only by our own pages and tabs. */

/** The value of the trait `_address`, which only models in our own pages and tabs have. */
export interface ViewAddress {
  /** The address without the state. */
  base: string;
  /** The state when the address was opened; "" if it had none. */
  state: string;
  /** Whether this is the page's own address. If so, it follows changes of the state. */
  isPage: boolean;
  /** The panels to show if the address lists none. */
  panels: PanelIds;
  /** Where the address works, as text for the user. */
  reach: string;
}

export type PanelIds = readonly (string | readonly string[])[];

export function pageAddress(panels: PanelIds, reach: string): ViewAddress {
  const [base, state] = splitPageAddress();
  return { base, state, isPage: true, panels, reach };
}

/** Split the address of this page into the part before the state, and the state. */
export function splitPageAddress(): [base: string, state: string] {
  const { href } = window.location;
  const end = `${href}#`.indexOf("#");
  const [route, state] = splitFragment(href.slice(end));
  return [`${href.slice(0, end)}${route}`, state];
}

/** Split `#/dashboard/job?view=0_9` into the route `#/dashboard/job` and the state `view=0_9`. */
export function splitFragment(fragment: string): [route: string, state: string] {
  const end = `${fragment}?`.indexOf("?");
  return [fragment.slice(0, end) || "#", fragment.slice(end + 1)];
}
