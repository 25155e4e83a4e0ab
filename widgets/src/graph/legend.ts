/** The legend of the colours of boxes. */

import { deviceColour } from "../colours";
import { html } from "../dom";
import { bytes, share } from "../format";

export type Colouring = "device" | "time" | "bytes";

/**
 * The parts of a legend.
 * @param devices devices of the graph
 * @param most value of the strongest colour
 * @param any whether any value is known
 */
export function legendOf(by: Colouring, devices: readonly string[], most: number, any: boolean): Node[] {
  if (by === "device") {
    return [...devices].sort().map((name) => {
      const patch = html("i", {});
      patch.style.background = deviceColour(name);
      return html("span", { "data-device": name }, patch, html("span", {}, name));
    });
  }
  const what = by === "time" ? `${share(most)} of a step` : bytes(most);
  const text = any ? `0 to ${what}` : by === "time" ? "no step was observed yet" : "sizes are not known";
  return [html("span", {}, html("i", { class: "ef-scale" }), text)];
}
