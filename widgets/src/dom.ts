/** Creation of elements of a page, each in one line. */

type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
const SVG = "http://www.w3.org/2000/svg";

function fill<E extends Element>(element: E, attributes: Attributes, inner: readonly (Node | string)[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  element.append(...inner);
  return element;
}

export function html<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...inner: (Node | string)[]
): HTMLElementTagNameMap[K] {
  return fill(document.createElement(tag), attributes, inner);
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...inner: (Node | string)[]
): SVGElementTagNameMap[K] {
  return fill(document.createElementNS(SVG, tag), attributes, inner);
}

/** Attributes of elements that take keys: else JupyterLab would take `b` for a new cell. */
export const KEYS = { "data-lm-suppress-shortcuts": "true" } as const;

export function button(label: string, title: string, pressed: () => void): HTMLButtonElement {
  const made = html("button", { type: "button", title, "aria-label": title, ...KEYS }, label);
  made.addEventListener("click", pressed);
  return made;
}

export function select(
  label: string,
  options: readonly (readonly [value: string, text: string])[],
  chosen: (value: string) => void,
): HTMLSelectElement {
  const made = html("select", { "aria-label": label, title: label, ...KEYS });
  made.append(...options.map(([value, text]) => html("option", { value }, text)));
  made.addEventListener("change", () => {
    chosen(made.value);
  });
  return made;
}

/** Set a text only if it differs: text that a screen reader reads must not flicker. */
export function setText(element: Element, text: string): void {
  if (element.textContent !== text) element.textContent = text;
}

/** A name that is unique on this page; `crypto.randomUUID` is missing without https. */
export function unique(kind: string): string {
  const parts = crypto.getRandomValues(new Uint32Array(2));
  return `ef-${kind}-${Array.from(parts, (n) => n.toString(36)).join("")}`;
}
