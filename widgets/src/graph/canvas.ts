/** The canvas of a graph: draws boxes and edges, and moves the picture (pan, zoom, minimap). */

import { deviceColour } from "../colours";
import { KEYS, setText, svg, unique } from "../dom";
import { LINE, sizeOf } from "../layout/dot";
import { scaleIn, type Layout, type Placed, type Size } from "../layout/types";
import { Cluster } from "./cluster";
import { edgeKey, type Box, type Contents } from "./contents";
import { EdgeLabels } from "./edge_labels";
import { EdgeLine } from "./edge_line";
import type { Group } from "./groups";
import { arrowHead, outline, setNumbers } from "./shapes";

const [LEAST, MOST] = [0.05, 4];
/** scale from which on types read well: it decides which groups are open at first */
export const READABLE = 0.86;
/** scale below which names cannot be read: then the top of the picture is shown, and all of it in the minimap */
const LEGIBLE = 0.6;
/** this limit for two pictures side by side, which show the places of changes first */
const PAIRED = 0.72;
/** scales below which the second line, and all lines, of a box are hidden */
const [SHORT, MUTE] = [0.45, 0.16];
/** scale for a close look at a box */
const CLOSE = 1;
const ROOM = 16;
/** largest scale unless the reader zooms in */
const LARGE = 1.25;
/** pixels at the foot of the picture, for the legend */
const FOOT = 14;
/** pixels of the picture that stay within the view */
const EDGE = 40;
/** number of boxes from which on they move without animation, which would take too long */
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
  /** texts over edges: bytes moved, and names of groups */
  private readonly labels = svg("g");
  private readonly names = svg("g");
  private readonly boxes = svg("g");
  private readonly small = svg("g");
  private readonly part = svg("rect", { class: "ef-window" });
  private readonly drawn = new Map<string, SVGGElement>();
  private frames = new Map<string, Cluster>();
  private lines: readonly EdgeLine[] = [];
  private byKey = new Map<string, EdgeLine>();
  /** identifier of the arrow head: that of another view may be hidden with it */
  private readonly arrow = unique("arrow");
  private layout: Layout | null = null;
  private partner: Canvas | null = null;
  private contents: Contents | null = null;
  private view = { x: 0, y: 0, scale: 1 };
  /** whether the reader has moved the picture, which is then no longer fitted */
  private moved = false;
  /** size on the page in pixels, cached, as reading it forces a layout of the page */
  private size = { width: 0, height: 0 };
  private placing = false;
  /** scale of the smallest boxes, relative to full size */
  private smallest = 1;
  /** scale for which the texts of boxes were last shown or hidden */
  private named = 0;

  constructor(private readonly events: CanvasEvents) {
    this.element = svg("svg", {
      class: "ef-canvas", tabindex: 0, role: "application", "aria-roledescription": "graph", ...KEYS,
    }); // prettier-ignore
    this.stage.append(this.clusters, this.edges, this.labels, this.names, this.boxes);
    this.element.append(arrowHead(this.arrow), this.stage);
    this.minimap = svg("svg", { class: "ef-minimap", "aria-hidden": "true" }, this.small, this.part);
    this.listen();
  }

  // --- drawing ---

  /**
   * Show a layout; elements that remain glide to their new places.
   * @param still whether the view stays in place: else the picture is fitted
   */
  show(contents: Contents, layout: Layout, still: boolean): void {
    if (this.contents?.root !== contents.root) this.forget();
    this.contents = contents;
    this.layout = layout;
    this.smallest = Math.min(1, ...[...layout.boxes.values()].map((b) => b.scale));
    this.named = 0;
    this.element.classList.toggle("ef-many", contents.boxes.length > STILL);
    this.drawClusters();
    this.drawBoxes();
    this.drawEdges();
    this.drawMinimap();
    if (still) this.place();
    else this.fit();
  }

  /** Drop all elements: in another graph, or with other groups, equal names mean other things. */
  private forget(): void {
    for (const made of this.drawn.values()) made.remove();
    this.drawn.clear();
    this.frames.clear();
    this.byKey.clear();
  }

  private drawClusters(): void {
    const frames = new Map<string, Cluster>();
    for (const group of this.contents!.clusters) {
      const at = this.layout!.clusters.get(group.id);
      if (!at) continue;
      const made = this.frames.get(group.id) ?? this.drawCluster(group);
      made.put(at);
      frames.set(group.id, made);
    }
    this.frames = frames;
    this.clusters.replaceChildren(...[...frames.values()].map((c) => c.frame));
    this.names.replaceChildren(...[...frames.values()].map((c) => c.name));
  }

  private drawCluster(group: Group): Cluster {
    const made = new Cluster(group);
    const when = (element: Element, event: string, act: () => void): void => {
      element.addEventListener(event, (heard) => {
        heard.stopPropagation();
        act();
      });
    };
    when(made.label, "click", () => { this.events.close(group.id); }); // prettier-ignore
    when(made.closer, "click", () => { this.closeUp(group.id); }); // prettier-ignore
    when(made.frame, "dblclick", () => { this.closeUp(group.id); }); // prettier-ignore
    return made;
  }

  private drawEdges(): void {
    const { boxes, edges } = this.layout!;
    const names = [...this.frames.values()].map((cluster) => cluster.named);
    const free = new EdgeLabels(boxes.values(), names);
    const byKey = new Map<string, EdgeLine>();
    this.lines = this.contents!.edges.map((edge) => {
      const key = edgeKey(edge);
      const said = `${edge.kind} ${edge.values} ${edge.moved}`;
      let made = this.byKey.get(key);
      if (made?.said !== said) made = new EdgeLine(edge, said, this.arrow);
      const scale = Math.min(boxes.get(edge.from.id)?.scale ?? 1, boxes.get(edge.to.id)?.scale ?? 1);
      made.run(edges.get(key) ?? "", free, scale);
      byKey.set(key, made);
      return made;
    });
    this.byKey = byKey;
    this.edges.replaceChildren(...this.lines.map((line) => line.element));
    this.labels.replaceChildren(...this.lines.flatMap((line) => line.label ?? []));
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
        made = this.drawBox(box);
        made.dataset["text"] = text;
        this.drawn.set(box.id, made);
        this.boxes.append(made);
      }
      made.style.transform = `translate(${at.x}px, ${at.y}px) scale(${at.scale})`;
    }
  }

  private drawBox(box: Box): SVGGElement {
    const { width, height } = sizeOf(box);
    const colour = deviceColour(box.device);
    const shape = outline(box, width, height);
    shape.classList.add("ef-shape");
    const lid = box.kind === "variable" || box.kind === "queue" ? 5 : 0;
    const first = -height / 2 + 16.5 + lid;
    const lines = box.lines.map((line, i) =>
      svg("text", { x: box.kind === "queue" ? -4 : 0, y: first + LINE * i, class: i ? "ef-second" : "ef-first" }, line));
    const stubs = box.taken.length
      ? [svg("path", { class: "ef-stub", d: `M0,${-height / 2}v-9m-3,3l3,-3l3,3` },
          svg("title", {}, `also takes ${box.taken.join(", ")}`))]
      : []; // prettier-ignore
    const made = svg("g", {
      class: `ef-box ef-come ef-${box.kind}${box.group ? " ef-closed" : ""}`,
      "data-box": box.id, role: "button", "aria-label": box.lines.join(", "),
    }, svg("title", {}, box.lines.join("\n")), ...stubs, shape, ...lines); // prettier-ignore
    if (box.group) {
      const under = outline(box, width, height);
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

  /** The element of a box. */
  of(id: string): SVGGElement | undefined {
    return this.drawn.get(id);
  }

  /** The frame of an open group. */
  frame(id: string): SVGGElement | undefined {
    return this.frames.get(id)?.frame;
  }

  /** The element of an edge, by the edge's index among the contents. */
  edge(at: number): SVGGElement | undefined {
    return this.lines[at]?.element;
  }

  /** The indices of the edges from and to a box. */
  edgesAt(id: string): number[] {
    const all = this.contents?.edges ?? [];
    return [...all.keys()].filter((i) => all[i]!.from.id === id || all[i]!.to.id === id);
  }

  /** Write a text below a box. */
  badge(id: string, text: string): void {
    const box = this.drawn.get(id);
    const at = this.layout?.boxes.get(id);
    if (!box || !at) return;
    const known = box.querySelector(".ef-badge");
    if (known) setText(known, text);
    else if (text) box.append(svg("text", { class: "ef-badge", y: at.height / at.scale / 2 + 11 }, text));
  }

  // --- moving ---

  /** Fit the picture into the view: all of it, or as much as can be read. Its partner gets the same scale. */
  fit(whole = false): void {
    if (!this.layout) return;
    const both = [this, this.partner].filter((canvas) => canvas?.layout);
    const scale = Math.min(...both.map((canvas) => canvas!.fitting(whole)));
    for (const canvas of both) canvas!.centre(scale);
  }

  /** The scale at which the picture is fitted. */
  private fitting(whole: boolean): number {
    const scale = Math.min(scaleIn(this.layout!, this.room), LARGE);
    return Math.max(scale, whole ? LEAST : this.partner ? PAIRED : LEGIBLE);
  }

  /** The size available to a fitted picture. */
  get room(): Size {
    const { width, height } = this.seen();
    return { width: width - 2 * ROOM, height: height - 2 * ROOM - FOOT };
  }

  private centre(scale: number): void {
    const { width, height } = this.seen();
    const layout = this.layout!;
    this.view = {
      x: width / 2 - this.middle(width / scale) * scale,
      y: Math.max((height - FOOT - layout.height * scale) / 2, ROOM) - layout.top * scale, scale,
    }; // prettier-ignore
    this.moved = false;
    this.place();
  }

  /** The centre of a view of a given width: the picture's own centre, or, if it is wider, that of its top. */
  private middle(width: number): number {
    const { left, width: whole, boxes } = this.layout!;
    if (whole <= width) return left + whole / 2;
    const top = [...boxes.values()].reduce((a, b) => (b.y < a.y ? b : a));
    return Math.min(Math.max(top.x, left + width / 2 - ROOM), left + whole - width / 2 + ROOM);
  }

  /** Draw two pictures at the same scale, so that their sizes can be compared. */
  pairWith(other: Canvas): void {
    [this.partner, other.partner] = [other, this];
  }

  zoom(factor: number, at?: { x: number; y: number }): void {
    const { width, height } = this.seen();
    const { x, y } = at ?? { x: width / 2, y: height / 2 };
    const scale = Math.min(Math.max(this.view.scale * factor, LEAST), MOST / this.smallest);
    const change = scale / this.view.scale;
    this.view = { x: x - (x - this.view.x) * change, y: y - (y - this.view.y) * change, scale };
    this.moved = true;
    this.place();
    if (this.partner?.layout && Math.abs(this.partner.view.scale / scale - 1) > 1e-9) {
      this.partner.zoom(scale / this.partner.view.scale);
    }
  }

  move(x: number, y: number): void {
    this.view.x += x;
    this.view.y += y;
    this.moved = true;
    this.place();
  }

  /**
   * Bring a box into view, if it is outside.
   * @param legible whether also to zoom in until its name can be read
   */
  reveal(box: Box, legible = false): void {
    const at = this.layout?.boxes.get(box.id);
    if (!at) return;
    const { width, height } = this.seen();
    const far = at.scale * this.view.scale;
    if (legible && far < LEGIBLE) this.zoom(CLOSE / far);
    const { scale } = this.view;
    const [x, y] = [at.x * scale + this.view.x, at.y * scale + this.view.y];
    const out = x < 40 || y < 20 || x > width - 40 || y > height - 20;
    if (out) this.move(width / 2 - x, height / 2 - y);
  }

  /** Zoom in on an open group so that it fills the view. */
  closeUp(group: string): void {
    const at = this.layout?.clusters.get(group);
    if (!at) return;
    const { width, height } = this.seen();
    const fitting = Math.min((width - 2 * ROOM) / at.width, (height - 2 * ROOM) / at.height);
    this.zoom(Math.min(fitting, LARGE / at.scale) / this.view.scale);
    const { x, y, scale } = this.view;
    this.move(width / 2 - (at.x + at.width / 2) * scale - x, height / 2 - (at.y + at.height / 2) * scale - y);
  }

  get scale(): number {
    return this.view.scale;
  }

  /** The visible part of the picture, by its top left. */
  get window(): Placed {
    const { width, height } = this.seen();
    const { x, y, scale } = this.view;
    return { x: -x / scale, y: -y / scale, width: width / scale, height: height / scale };
  }

  /** Adapt to the size that the page gives the picture. */
  resize(): void {
    const { clientWidth, clientHeight } = this.element;
    if (!clientWidth || !clientHeight) return;
    const { width, height } = this.size;
    this.size = { width: clientWidth, height: clientHeight };
    if (width === clientWidth && height === clientHeight) return;
    if (this.moved) this.place();
    else this.fit();
  }

  private seen(): Size {
    if (!this.size.width) this.size = { width: this.element.clientWidth, height: this.element.clientHeight };
    const { width, height } = this.size;
    return { width: width || 640, height: height || 400 };
  }

  /** Update the view in the next frame, once however often it is called. */
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
    // as a style: during a drag the stage is a layer of its own, which moves without a redraw
    this.stage.style.transform = `translate(${x}px,${y}px) scale(${scale})`;
    this.stage.classList.toggle("ef-far", scale < SHORT);
    this.showNames(scale);
    const { width, height } = this.seen();
    setNumbers(this.part, this.window);
    const layout = this.layout;
    const whole = !layout || (layout.width * scale <= width && layout.height * scale <= height);
    this.minimap.classList.toggle("ef-needless", whole);
  }

  /** Show or hide texts of boxes; smaller boxes need a larger scale. */
  private showNames(scale: number): void {
    if (scale === this.named) return;
    this.named = scale;
    for (const [id, element] of this.drawn) {
      const size = (this.layout?.boxes.get(id)?.scale ?? 1) * scale;
      element.classList.toggle("ef-short", size < SHORT);
      element.classList.toggle("ef-mute", size < MUTE);
    }
  }

  /** Keep some of the picture within the view, so that it cannot be lost. */
  private keepInSight(): void {
    const { layout, view } = this;
    if (!layout) return;
    const { width, height } = this.seen();
    const between = (at: number, from: number, size: number, room: number): number =>
      Math.min(Math.max(at, EDGE - (from + size) * view.scale), room - EDGE - from * view.scale);
    view.x = between(view.x, layout.left, layout.width, width);
    view.y = between(view.y, layout.top, layout.height, height);
  }

  private drawMinimap(): void {
    const layout = this.layout!;
    this.minimap.setAttribute("viewBox", `${layout.left} ${layout.top} ${layout.width} ${layout.height}`);
    this.small.replaceChildren(
      ...[...layout.boxes.values()].map((b) =>
        svg("rect", corner({ ...b, x: b.x - b.width / 2, y: b.y - b.height / 2 }))),
    );
  }

  private listen(): void {
    const e = this.element;
    e.addEventListener("wheel", (event) => {
      // without a key the page scrolls, as readers of notebooks expect
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
      // capture only once the pointer drags, else a click would not reach its box
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
