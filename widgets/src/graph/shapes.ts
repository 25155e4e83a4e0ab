/** The outlines of boxes and the heads of arrows. */

import { svg } from "../dom";
import type { Box } from "./contents";

/** The outline of a box, around its middle: the shape shows the kind of the box. */
export function outline(box: Box, width: number, height: number): SVGElement {
  const [x, y] = [-width / 2, -height / 2];
  switch (box.kind) {
    case "variable": // a cylinder
      return svg("path", { d:
        `M${x},${y + 5}a${width / 2},5 0 0 1 ${width},0v${height - 10}a${width / 2},5 0 0 1 ${-width},0z` +
        `m0,0a${width / 2},5 0 0 0 ${width},0` }); // prettier-ignore
    case "queue": // a tube that lies, open at its end
      return svg("path", { d:
        `M${x + 7},${y}h${width - 14}a7,${height / 2} 0 0 1 0,${height}h${14 - width}` +
        `a7,${height / 2} 0 0 1 0,${-height}m${width - 14},0a7,${height / 2} 0 0 0 0,${height}` }); // prettier-ignore
    case "loop": // cut corners
      return svg("path", { d: `M${x + 10},${y}h${width - 20}l10,${height / 2}l-10,${height / 2}h${20 - width}l-10,${-height / 2}z` });
    case "branches": // a diamond, flat
      return svg("path", { d: `M${x + 14},${y}h${width - 28}l14,${height / 2}l-14,${height / 2}h${28 - width}l-14,${-height / 2}z` });
    case "group":
      return svg("rect", { x, y, width, height, rx: 3 });
    case "input":
    case "output":
      return svg("rect", { x, y, width, height, rx: height / 2 });
    default:
      return svg("rect", { x, y, width, height, rx: 5 });
  }
}

/** The arrow head at the end of lines. */
export function arrowHead(id: string): SVGDefsElement {
  return svg("defs", {}, svg("marker", {
    id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto",
  }, svg("path", { d: "M0,1L7,4L0,7z", fill: "context-stroke" }))); // prettier-ignore
}

/** Set attributes to numbers, rounded to a tenth of a pixel. */
export function setNumbers(element: Element, attributes: object): void {
  for (const [name, value] of Object.entries(attributes) as [string, number][]) element.setAttribute(name, value.toFixed(1));
}
