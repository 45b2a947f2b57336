/** Type into a field; for tests. */
export function fill(field: HTMLElement, value: string): void {
  (field as HTMLInputElement).value = value;
  field.dispatchEvent(new Event("input", { bubbles: true }));
}
