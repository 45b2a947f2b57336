/** The address of a view, which our pages and tabs set on the view's model. */

/** The value of the trait `_address`, which only models in our pages and tabs have. */
export interface ViewAddress {
  /** The address up to the state. */
  base: string;
  /** The state when the address was opened; "" for none. */
  state: string;
  /** Whether it is the address of the page, which then follows the state. */
  isPage: boolean;
  /** Panels of an address that names none. */
  panels: PanelIds;
  /** The places in which the address works, as text for the user. */
  reach: string;
}

export type PanelIds = readonly (string | readonly string[])[];

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
