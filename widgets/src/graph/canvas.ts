/** Draws boxes and edges, and moves the picture: pan, zoom, minimap. */

import { deviceColour } from "../colours";
import { KEYS, setText, svg, unique } from "../dom";
import { bytes } from "../format";
import type { Layout, Placed } from "../layout/types";
import type { Box, Contents, Edge } from "./contents";

const [LEAST, MOST] = [0.05, 4];
/** below this names cannot be read: then the picture begins at its top, and the minimap has all */
const READABLE = 0.55;
const ROOM = 20;
/** pixels of the picture that stay in sight */
const EDGE = 40;
/** boxes from which on they come to their places at once: to let so many glide takes too long */
const STILL = 300;

export interface CanvasEvents {
  select(box: Box | null): void;
  toggle(box: Box): void;
  close(group: string): void;
  key(event: KeyboardEvent): void;
}

export class Canvas {
  readonly element: SVGSVGElement;
  readonly minimap: SVGSVGElement;
  private readonly stage = svg("g", { class: "ef-stage" });
  private readonly clusters = svg("g");
  private readonly edges = svg("g");
  private readonly boxes = svg("g");
  private readonly small = svg("g");
  private readonly window = svg("rect", { class: "ef-window" });
  private readonly drawn = new Map<string, SVGGElement>();
  private lines: readonly SVGGElement[] = [];
  /** of arrows: another view, perhaps hidden, has others */
  private readonly arrow = unique("arrow");
  private layout: Layout | null = null;
  private contents: Contents | null = null;
  private view = { x: 0, y: 0, scale: 1 };
  /** whether the reader has moved the picture: then it is not fitted any more */
  private moved = false;
  /** pixels of the page, as far as known: to ask the page would have it laid out at once */
  private size = { width: 0, height: 0 };
  private placing = false;

  constructor(private readonly events: CanvasEvents) {
    this.element = svg("svg", {
      class: "ef-canvas", tabindex: 0, role: "application", "aria-roledescription": "graph", ...KEYS,
    }); // prettier-ignore
    this.stage.append(this.clusters, this.edges, this.boxes);
    this.element.append(markers(this.arrow), this.stage);
    this.minimap = svg("svg", { class: "ef-minimap", "aria-hidden": "true" }, this.small, this.window);
    this.listen();
  }

  // --- drawing ---

  /** Show a layout; what stays glides to its new place, and ``anchor`` stays where it is seen. */
  show(contents: Contents, layout: Layout, anchor: string | null): void {
    const before = anchor === null ? undefined : this.middleOf(anchor);
    this.contents = contents;
    this.layout = layout;
    this.drawClusters();
    this.drawBoxes();
    this.lines = contents.edges.map((e, i) => edgeOf(e, layout.edges[i] ?? "", this.arrow));
    this.edges.replaceChildren(...this.lines);
    this.element.classList.toggle("ef-many", contents.boxes.length > STILL);
    this.drawMinimap();
    const after = anchor === null ? undefined : this.middleOf(anchor);
    if (before && after && (this.moved || !this.fits())) {
      this.move(before.x - after.x, before.y - after.y);
    } else this.fit();
  }

  private drawClusters(): void {
    const { contents, layout } = this;
    this.clusters.replaceChildren();
    for (const group of contents!.clusters) {
      const at = layout!.clusters.get(group.id);
      if (!at) continue;
      const colour = group.kind === "device" ? deviceColour(group.name) : "";
      const name = group.kind === "body" ? group.name : group.name || "…";
      const frame = svg("rect", { ...corner(at), rx: 6 });
      if (colour) frame.style.stroke = colour;
      const label = svg("text", { x: at.x + 9, y: at.y + 16 }, `▾ ${name}`);
      const made = svg("g", { class: `ef-cluster ef-${group.kind}`, "data-group": group.id },
        frame, svg("title", {}, `${name}: ${group.total} nodes. Press to close.`), label); // prettier-ignore
      label.addEventListener("click", (event) => {
        event.stopPropagation();
        this.events.close(group.id);
      });
      this.clusters.append(made);
    }
  }

  private drawBoxes(): void {
    const { contents, layout } = this;
    const kept = new Set(contents!.boxes.map((b) => b.id));
    for (const [id, made] of this.drawn) {
      if (kept.has(id)) continue;
      made.remove();
      this.drawn.delete(id);
    }
    for (const box of contents!.boxes) {
      const at = layout!.boxes.get(box.id);
      if (!at) continue;
      let made = this.drawn.get(box.id);
      const text = box.lines.join("\n");
      if (made?.dataset["text"] !== text) {
        made?.remove();
        made = this.drawBox(box, at);
        made.dataset["text"] = text;
        this.drawn.set(box.id, made);
        this.boxes.append(made);
      }
      made.style.transform = `translate(${at.x}px, ${at.y}px)`;
    }
  }

  private drawBox(box: Box, { width, height }: Placed): SVGGElement {
    const colour = deviceColour(box.device);
    const shape = frameOf(box, width, height);
    shape.classList.add("ef-shape");
    const lid = box.kind === "variable" || box.kind === "queue" ? 5 : 0;
    const first = -height / 2 + 19 + lid;
    const lines = box.lines.map((line, i) =>
      svg("text", { x: box.kind === "queue" ? -4 : 0, y: first + 14.5 * i, class: i ? "ef-second" : "ef-first" }, line));
    const stubs = box.taken.length
      ? [svg("path", { class: "ef-stub", d: `M0,${-height / 2}v-9m-3,3l3,-3l3,3` },
          svg("title", {}, `also takes ${box.taken.join(", ")}`))]
      : []; // prettier-ignore
    const made = svg("g", {
      class: `ef-box ef-${box.kind}${box.group ? " ef-closed" : ""}`,
      "data-box": box.id, role: "button", "aria-label": box.lines.join(", "),
    }, svg("title", {}, box.lines.join("\n")), ...stubs, shape, ...lines); // prettier-ignore
    if (box.group) {
      const under = frameOf(box, width, height);
      under.classList.add("ef-under");
      shape.before(under);
      made.append(svg("path", { class: "ef-sign", d: `M${width / 2 - 13},${-height / 2 + 8}h7m-3.5,-3.5v7` }));
    }
    made.style.setProperty("--ef-device", colour);
    made.addEventListener("click", (event) => {
      event.stopPropagation();
      this.events.select(box);
    });
    made.addEventListener("dblclick", (event) => {
      event.stopPropagation();
      this.events.toggle(box);
    });
    return made;
  }

  /** The element of a box, to be marked. */
  of(id: string): SVGGElement | undefined {
    return this.drawn.get(id);
  }

  /** The element of an edge, by its place among the contents. */
  edge(at: number): SVGGElement | undefined {
    return this.lines[at];
  }

  /** The places of the edges from and to a box. */
  edgesAt(id: string): number[] {
    const all = this.contents?.edges ?? [];
    return [...all.keys()].filter((i) => all[i]!.from.id === id || all[i]!.to.id === id);
  }

  /** Write something below a box. */
  badge(id: string, text: string): void {
    const box = this.drawn.get(id);
    const at = this.layout?.boxes.get(id);
    if (!box || !at) return;
    const known = box.querySelector(".ef-badge");
    if (known) setText(known, text);
    else if (text) box.append(svg("text", { class: "ef-badge", y: at.height / 2 + 11 }, text));
  }

  // --- moving ---

  /** Fit the picture into what is seen of it; all of it, or what can be read. */
  fit(whole = false): void {
    if (!this.layout) return;
    const { width, height } = this.seen();
    const scale = Math.min(
      (width - 2 * ROOM) / Math.max(this.layout.width, 1),
      (height - 2 * ROOM) / Math.max(this.layout.height, 1), 1.25,
    ); // prettier-ignore
    this.view.scale = Math.min(Math.max(scale, whole ? LEAST : READABLE), MOST);
    this.view.x = (width - this.layout.width * this.view.scale) / 2;
    this.view.y = Math.max((height - this.layout.height * this.view.scale) / 2, ROOM);
    this.moved = false;
    this.place();
  }

  zoom(factor: number, at?: { x: number; y: number }): void {
    const { width, height } = this.seen();
    const { x, y } = at ?? { x: width / 2, y: height / 2 };
    const scale = Math.min(Math.max(this.view.scale * factor, LEAST), MOST);
    const change = scale / this.view.scale;
    this.view = { x: x - (x - this.view.x) * change, y: y - (y - this.view.y) * change, scale };
    this.moved = true;
    this.place();
  }

  move(x: number, y: number): void {
    this.view.x += x;
    this.view.y += y;
    this.moved = true;
    this.place();
  }

  /** Bring a box into view, if it is not. */
  reveal(box: Box): void {
    const at = this.middleOf(box.id);
    if (!at) return;
    const { width, height } = this.seen();
    const out = at.x < 40 || at.y < 20 || at.x > width - 40 || at.y > height - 20;
    if (out) this.move(width / 2 - at.x, height / 2 - at.y);
  }

  get scale(): number {
    return this.view.scale;
  }

  /** Whether all of it is seen at the size that it has now. */
  private fits(): boolean {
    const { width, height } = this.seen();
    const { scale } = this.view;
    return this.layout!.width * scale <= width && this.layout!.height * scale <= height;
  }

  /** The page has given the picture another size. */
  resize(): void {
    const { clientWidth, clientHeight } = this.element;
    if (!clientWidth || !clientHeight) return;
    const { width, height } = this.size;
    this.size = { width: clientWidth, height: clientHeight };
    if (width === clientWidth && height === clientHeight) return;
    if (this.moved) this.place();
    else this.fit();
  }

  private seen(): { width: number; height: number } {
    if (!this.size.width) this.size = { width: this.element.clientWidth, height: this.element.clientHeight };
    const { width, height } = this.size;
    return { width: width || 640, height: height || 400 };
  }

  private middleOf(id: string): { x: number; y: number } | undefined {
    const cluster = this.layout?.clusters.get(id);
    const box = this.layout?.boxes.get(id);
    const at = box ?? (cluster && { x: cluster.x + cluster.width / 2, y: cluster.y + 20 });
    const { x, y, scale } = this.view;
    return at && { x: at.x * scale + x, y: at.y * scale + y };
  }

  /** Once a frame, however often it is asked for. */
  private place(): void {
    if (this.placing) return;
    this.placing = true;
    requestAnimationFrame(() => {
      this.placing = false;
      this.transform();
    });
  }

  private transform(): void {
    this.keepInSight();
    const { x, y, scale } = this.view;
    // as a style: while it is dragged the stage is a layer, which moves without being drawn anew
    this.stage.style.transform = `translate(${x}px,${y}px) scale(${scale})`;
    this.stage.classList.toggle("ef-far", scale < 0.45);
    const { width, height } = this.seen();
    set(this.window, { x: -x / scale, y: -y / scale, width: width / scale, height: height / scale });
    const layout = this.layout;
    const whole = !layout || (layout.width * scale <= width && layout.height * scale <= height);
    this.minimap.classList.toggle("ef-needless", whole);
  }

  /** Some of the picture is always seen: it cannot be lost by moving it. */
  private keepInSight(): void {
    const { layout, view } = this;
    if (!layout) return;
    const { width, height } = this.seen();
    const between = (at: number, size: number, room: number): number =>
      Math.min(Math.max(at, EDGE - size * view.scale), room - EDGE);
    view.x = between(view.x, layout.width, width);
    view.y = between(view.y, layout.height, height);
  }

  private drawMinimap(): void {
    const layout = this.layout!;
    this.minimap.setAttribute("viewBox", `0 0 ${layout.width} ${layout.height}`);
    this.small.replaceChildren(
      ...[...layout.boxes.values()].map((b) =>
        svg("rect", corner({ ...b, x: b.x - b.width / 2, y: b.y - b.height / 2 }))),
    );
  }

  private listen(): void {
    const e = this.element;
    e.addEventListener("wheel", (event) => {
      // without a key the page scrolls on, as readers of notebooks expect
      if (!event.ctrlKey && !event.metaKey && !e.matches(":focus")) return;
      event.preventDefault();
      const box = e.getBoundingClientRect();
      const at = { x: event.clientX - box.left, y: event.clientY - box.top };
      this.zoom(Math.exp(-event.deltaY * 0.0016), at);
    }, { passive: false }); // prettier-ignore
    let held: { x: number; y: number; far: number } | null = null;
    e.addEventListener("pointerdown", (event) => {
      if (event.button === 0) held = { x: event.clientX, y: event.clientY, far: 0 };
    });
    e.addEventListener("pointermove", (event) => {
      if (!held || !(event.buttons & 1)) return;
      const [x, y] = [event.clientX - held.x, event.clientY - held.y];
      if (held.far + Math.abs(x) + Math.abs(y) < 4) return;
      // capture only once it is a drag, else a click would not reach its box
      if (!e.hasPointerCapture(event.pointerId)) {
        e.setPointerCapture(event.pointerId);
        e.classList.add("ef-dragged");
      }
      this.move(x, y);
      held = { x: event.clientX, y: event.clientY, far: 4 };
    });
    const release = (): void => {
      held = null;
      e.classList.remove("ef-dragged");
    };
    e.addEventListener("pointerup", release);
    e.addEventListener("pointercancel", release);
    e.addEventListener("click", () => {
      this.events.select(null);
    });
    e.addEventListener("keydown", (event) => {
      this.events.key(event);
    });
    const jump = (event: PointerEvent): void => {
      if (!(event.buttons & 1)) return;
      const at = new DOMPoint(event.clientX, event.clientY);
      const { x, y } = at.matrixTransform(this.minimap.getScreenCTM()!.inverse());
      const { width, height } = this.seen();
      const { scale } = this.view;
      this.move(width / 2 - x * scale - this.view.x, height / 2 - y * scale - this.view.y);
    };
    this.minimap.addEventListener("pointerdown", jump);
    this.minimap.addEventListener("pointermove", jump);
  }
}

function corner(at: Placed): { x: number; y: number; width: number; height: number } {
  return { x: at.x, y: at.y, width: at.width, height: at.height };
}

function set(element: Element, attributes: Readonly<Record<string, number>>): void {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value.toFixed(1));
}

/** The outline of a box, around its middle: what it is can be told from its shape. */
function frameOf(box: Box, width: number, height: number): SVGElement {
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

function edgeOf(edge: Edge, path: string, arrow: string): SVGGElement {
  const what = edge.kind === "control" ? "runs before" : edge.moved ? `${bytes(edge.moved)} a step` : "";
  const values = edge.values > 1 ? `${edge.values} values` : "";
  const title = [`${edge.from.lines[0] ?? ""} → ${edge.to.lines[0] ?? ""}`, values, what];
  const line = svg("path", { d: path, "marker-end": `url(#${arrow})` });
  const made = svg("g", {
    class: `ef-edge ef-${edge.kind}${edge.moved ? " ef-moved" : ""}`,
    "data-from": edge.from.id, "data-to": edge.to.id,
  }, svg("title", {}, title.filter(Boolean).join("\n")), line); // prettier-ignore
  const middle = edge.moved ? /C(?:\S+ ){1}(\S+)/.exec(path)?.[1]?.split(",").map(Number) : undefined;
  if (middle) {
    const [x = 0, y = 0] = middle;
    made.append(svg("text", { x: x + 4, y }, bytes(edge.moved)));
  }
  return made;
}

function markers(id: string): SVGDefsElement {
  return svg("defs", {}, svg("marker", {
    id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 6, markerHeight: 6, orient: "auto",
  }, svg("path", { d: "M0,1L7,4L0,7z", fill: "context-stroke" }))); // prettier-ignore
}
