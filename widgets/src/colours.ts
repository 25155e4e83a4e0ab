/** Colours: a device has the same one everywhere; all can be told apart by the colour-blind. */

/** As `DEVICE_COLORS` of eagerflow/pictures: middle tones, seen on white and on black. */
const DEVICES = ["#4c78a8", "#e58606", "#2f9e74", "#b5539b", "#a0893b", "#cf4b4b"] as const;
export const NEUTRAL = "#7a828c";

export function deviceColour(device: string): string {
  if (!device) return NEUTRAL;
  const number = Number(/:(\d+)$/.exec(device)?.[1] ?? 0);
  const kind = device.split(":")[0]!;
  const first = kind.includes("gpu") || kind.includes("cuda") ? 1 : 0;
  return DEVICES[(first + number) % DEVICES.length]!;
}

/** From nothing to much, in one hue that reads on light and dark ground. */
export function heat(part: number): string {
  return `rgba(214, 96, 20, ${(0.06 + 0.8 * Math.sqrt(Math.min(Math.max(part, 0), 1))).toFixed(3)})`;
}

/** What canvases draw with, as the page has it now. */
export interface Theme {
  readonly text: string;
  readonly soft: string;
  readonly line: string;
  readonly ground: string;
  readonly accent: string;
  readonly run: string;
  readonly warn: string;
  readonly error: string;
}

export function themeOf(element: Element): Theme {
  const style = getComputedStyle(element);
  const read = (name: string): string => style.getPropertyValue(name).trim();
  return {
    text: read("--ef-text"), soft: read("--ef-soft"), line: read("--ef-line"),
    ground: read("--ef-ground"), accent: read("--ef-accent"), run: read("--ef-run"), warn: read("--ef-warn"),
    error: read("--ef-error"),
  }; // prettier-ignore
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
