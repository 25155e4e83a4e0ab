/** Colours: each device has the same colour in all views; the palette is safe for the colour-blind. */

import PALETTE from "../../eagerflow/pictures/device_palette.json";

export const NEUTRAL = "#7a828c";
/** first colour of a kind of device; kinds of other packages begin at `OTHERS` */
const FIRST: Readonly<Record<string, number>> = { cpu: 0, gpu: 1 };
const OTHERS = 3;
/** distance in the palette between jobs of different names, such as "ps" and "worker" */
const SPREAD = 4;
/** kept on the page: registering a property twice is an error, and each view has a copy of this module */
const REGISTERED = Symbol.for("eagerflow.colours");

/** The colour of a device, as by `device_color` of eagerflow/pictures/device_colors.py; tests compare both. */
export function deviceColour(device: string): string {
  if (!device) return NEUTRAL;
  const [, job = "", task, kind = "cpu", index = "0"] = /^(?:(\w+):(\d+)\/)?([A-Za-z]\w*)(?::(\d+))?$/.exec(device) ?? [];
  const number = Number(index) + (FIRST[kind] ?? OTHERS) + (task === undefined ? 0 : 1 + Number(task) + SPREAD * sumOf(job));
  return PALETTE[number % PALETTE.length]!;
}

function sumOf(job: string): number {
  return Array.from(job, (letter) => letter.codePointAt(0)!).reduce((sum, code) => sum + code, 0);
}

/** A colour for a part from 0 to 1, of one hue that reads on light and dark ground; it is opaque. */
export function heat(part: number): string {
  const percent = 6 + 80 * Math.sqrt(Math.min(Math.max(part, 0), 1));
  return `color-mix(in srgb, #d66014 ${percent.toFixed(1)}%, var(--ef-ground))`;
}

const NAMES = ["text", "soft", "line", "ground", "accent", "run", "warn", "error"] as const;

/** The colours of the page's present theme, for canvases. */
export type Theme = Readonly<Record<(typeof NAMES)[number], string>>;

export function themeOf(element: Element): Theme {
  registerColours();
  const style = getComputedStyle(element);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--ef-${name}`)])) as Theme;
}

/**
 * The page evaluates properties that are registered as colours; the value of others is the text of the
 * style sheet, such as `light-dark(…)`, which a canvas does not know and draws black.
 */
function registerColours(): void {
  const page = globalThis as unknown as Record<symbol, boolean | undefined>;
  if (page[REGISTERED]) return;
  page[REGISTERED] = true;
  for (const name of NAMES) {
    CSS.registerProperty({ name: `--ef-${name}`, syntax: "<color>", inherits: true, initialValue: NEUTRAL });
  }
}

/** Calls back when the page changes between light and dark; gives a function that ends this. */
export function onTheme(changed: () => void): () => void {
  const observer = new MutationObserver(changed);
  const attributeFilter = ["data-jp-theme-name", "data-jp-theme-light", "class"];
  observer.observe(document.body, { attributes: true, attributeFilter });
  const system = matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", changed);
  return () => {
    observer.disconnect();
    system.removeEventListener("change", changed);
  };
}
