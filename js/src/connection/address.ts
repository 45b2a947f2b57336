/** The address of a view, as a page or tab of ours gives it to the view's model. */

/** The address of a view: a trait of its model that exists only in pages and tabs of ours. */
export interface ViewAddress {
  /** The address up to the state. */
  base: string;
  /** The state when the address was opened; "" for none. */
  state: string;
  /** Whether it is the address of the page, which then follows the state. */
  isPage: boolean;
  /** Panels of an address that names none. */
  panels: PanelIds;
  /** The reach of the address, in words for the user. */
  reach: string;
}

export type PanelIds = readonly (string | readonly string[])[];

/** The address of this page. */
export function pageAddress(panels: PanelIds, reach: string): ViewAddress {
  const [base, state] = splitPageAddress();
  return { base, state, isPage: true, panels, reach };
}

/** The address of this page, up to the state, and the state. */
export function splitPageAddress(): [base: string, state: string] {
  const { href } = window.location;
  const end = `${href}#`.indexOf("#");
  const [route, state] = splitFragment(href.slice(end));
  return [`${href.slice(0, end)}${route}`, state];
}

/** A fragment as route and state: `#/dashboard/job?view=0_9` as `#/dashboard/job`, `view=0_9`. */
export function splitFragment(fragment: string): [route: string, state: string] {
  const end = `${fragment}?`.indexOf("?");
  return [fragment.slice(0, end) || "#", fragment.slice(end + 1)];
}
