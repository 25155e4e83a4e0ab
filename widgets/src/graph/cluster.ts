/** An open group: its frame lies below the edges, and its name above them, so that no edge crosses the name. */

import { deviceColour } from "../colours";
import { svg } from "../dom";
import type { Placed, Scaled } from "../layout/types";
import type { Group } from "./groups";

/** width of a letter and height of a name in pixels, at full size */
const [LETTER, HIGH] = [7.2, 20];

export class Cluster {
  readonly frame: SVGGElement;
  readonly name: SVGGElement;
  /** the name; a click closes the group */
  readonly label: SVGTextElement;
  /** a sign; a click zooms in on the group */
  readonly closer: SVGTextElement;
  private readonly rect = svg("rect");
  private at: Scaled = { x: 0, y: 0, width: 0, height: 0, scale: 1 };

  constructor(group: Group) {
    const name = group.kind === "body" ? group.name : group.name || "…";
    const said = `${name}: ${group.total} nodes. Press the name to close it, twice inside to see it closely.`;
    if (group.kind === "device") this.rect.style.stroke = deviceColour(group.name);
    this.label = svg("text", { x: 9, y: 16, class: "ef-name", "data-name": group.id }, `▾ ${name}`);
    this.closer = svg("text", { x: -16, y: 16, class: "ef-closer" }, svg("title", {}, "see it closely"), "⤢");
    this.frame = svg("g", { class: `ef-cluster ef-${group.kind} ef-come`, "data-group": group.id },
      this.rect, svg("title", {}, said)); // prettier-ignore
    this.name = svg("g", { class: "ef-names ef-come" }, svg("title", {}, said), this.label, this.closer);
  }

  put(at: Scaled): void {
    this.at = at;
    for (const side of ["x", "y", "width", "height"] as const) this.rect.style.setProperty(side, `${at[side]}px`);
    this.rect.setAttribute("rx", String(6 * at.scale));
    this.frame.style.setProperty("--ef-size", String(at.scale));
    this.label.style.transform = `translate(${at.x}px, ${at.y}px) scale(${at.scale})`;
    this.closer.style.transform = `translate(${at.x + at.width}px, ${at.y}px) scale(${at.scale})`;
  }

  /** The frame of its name. */
  get named(): Placed {
    const { x, y, width, scale } = this.at;
    const wide = Math.min(9 + this.label.textContent.length * LETTER, width / scale);
    return { x, y, width: wide * scale, height: HIGH * scale };
  }
}
