/** The line of an edge. Its label is drawn above all lines, so that no line crosses the label. */

import { svg } from "../dom";
import { bytes } from "../format";
import type { Edge } from "./contents";
import type { EdgeLabels } from "./edge_labels";
import { setNumbers } from "./shapes";

export class EdgeLine {
  readonly element: SVGGElement;
  /** the bytes that it moves, on a background; null if it moves none */
  readonly label: SVGGElement | null = null;
  private readonly path: SVGPathElement;

  /**
   * @param said the text that it was drawn for: another text needs another line
   * @param arrow identifier of the arrow head
   */
  constructor(edge: Edge, readonly said: string, arrow: string) {
    const moved = edge.moved ? bytes(edge.moved) : "";
    const what = edge.kind === "control" ? "runs before" : moved && `${moved} a step`;
    const values = edge.values > 1 ? `${edge.values} values` : "";
    const title = [`${edge.from.lines[0] ?? ""} → ${edge.to.lines[0] ?? ""}`, values, what];
    this.path = svg("path", { "marker-end": `url(#${arrow})` });
    this.element = svg("g", {
      class: `ef-edge ef-come ef-${edge.kind}${moved ? " ef-moved" : ""}`,
      "data-from": edge.from.id, "data-to": edge.to.id,
    }, svg("title", {}, title.filter(Boolean).join("\n")), this.path); // prettier-ignore
    if (moved) this.label = svg("g", { class: "ef-amount ef-come" }, svg("rect"), svg("text", {}, moved));
  }

  /** Draw the line along a path, with its label where there is room. */
  run(path: string, free: EdgeLabels, scale: number): void {
    this.path.setAttribute("d", path);
    this.element.style.setProperty("--ef-size", String(scale));
    if (!this.label) return;
    const [ground, text] = [this.label.firstElementChild!, this.label.lastElementChild!];
    const at = free.place(path, text.textContent, scale);
    setNumbers(ground, { ...at, rx: at.height / 4 });
    setNumbers(text, { x: at.x + at.width / 2, y: at.y + 0.79 * at.height });
    this.label.style.setProperty("--ef-size", String(scale));
  }
}
