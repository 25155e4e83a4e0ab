/** Colours: a device has the same one everywhere; all can be told apart by the colour-blind. */

import PALETTE from "../../eagerflow/pictures/device_palette.json";

export const NEUTRAL = "#7a828c";
/** where the devices of a kind begin; those of other packages begin at `OTHERS` */
const FIRST: Readonly<Record<string, number>> = { cpu: 0, gpu: 1 };
const OTHERS = 3;
/** jobs begin elsewhere, those that are called "ps" and "worker" for two */
const SPREAD = 4;
/** on a page: what is registered twice is an error, and each view has a copy of this module */
const REGISTERED = Symbol.for("eagerflow.colours");

/** As `device_color` of eagerflow/pictures/device_colors.py has it; a test holds both against one table. */
export function deviceColour(device: string): string {
  if (!device) return NEUTRAL;
  const [, job = "", task, kind = "cpu", index = "0"] = /^(?:(\w+):(\d+)\/)?([A-Za-z]\w*)(?::(\d+))?$/.exec(device) ?? [];
  const number = Number(index) + (FIRST[kind] ?? OTHERS) + (task === undefined ? 0 : 1 + Number(task) + SPREAD * sumOf(job));
  return PALETTE[number % PALETTE.length]!;
}

function sumOf(job: string): number {
  return Array.from(job, (letter) => letter.codePointAt(0)!).reduce((sum, code) => sum + code, 0);
}

/** From nothing to much, in one hue that reads on light and dark ground; nothing shines through it. */
export function heat(part: number): string {
  const percent = 6 + 80 * Math.sqrt(Math.min(Math.max(part, 0), 1));
  return `color-mix(in srgb, #d66014 ${percent.toFixed(1)}%, var(--ef-ground))`;
}

const NAMES = ["text", "soft", "line", "ground", "accent", "run", "warn", "error"] as const;

/** What canvases draw with, as the page has it now. */
export type Theme = Readonly<Record<(typeof NAMES)[number], string>>;

export function themeOf(element: Element): Theme {
  registerColours();
  const style = getComputedStyle(element);
  return Object.fromEntries(NAMES.map((name) => [name, style.getPropertyValue(`--ef-${name}`)])) as Theme;
}

/**
 * As properties that are colours, the page works them out; else their value is the text of the style
 * sheet, such as `light-dark(…)`, which a canvas does not know and draws black.
 */
function registerColours(): void {
  const page = globalThis as unknown as Record<symbol, boolean | undefined>;
  if (page[REGISTERED]) return;
  page[REGISTERED] = true;
  for (const name of NAMES) {
    CSS.registerProperty({ name: `--ef-${name}`, syntax: "<color>", inherits: true, initialValue: NEUTRAL });
  }
}

/** Calls when the page changes from light to dark, or back; gives what ends that. */
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
