/** The view of a graph, which marks running nodes. */

import { heat } from "../colours";
import { button, html, select, setText } from "../dom";
import type { Choice, Feed } from "../feed/feed";
import { number } from "../feed/tables";
import { count } from "../format";
import { Arrangement } from "../layout/arrangement";
import { Layouts } from "../layout/layouts";
import { scaleIn, type Layout } from "../layout/types";
import { askStages, type ViewModel } from "../passes/stages";
import { PassesView } from "../passes/view";
import { Activity, type Doing, type NodePlace } from "./activity";
import { AwayMarks } from "./away";
import { Canvas, READABLE } from "./canvas";
import { boxNow, contentsOf, groupsToOpen, type Box, type Contents, type Edge } from "./contents";
import { detailsOf, overviewOf } from "./details";
import { footerOf } from "./footer";
import { legendOf, type Colouring } from "./legend";
import { Marks } from "./marks";
import { GroupTree, walk, type Group, type Grouping } from "./groups";
import { Layers } from "./layers";
import { Search } from "./search";
import type { Structure } from "./structure";

/** numbers of boxes to begin with, whether only the forward pass is open: the first that can be read is taken */
const FIRST = [[24, false], [24, true], [16, true], [10, true]] as const;
const FEWEST = 10;
/** default limit of boxes: further groups stay closed */
export const MOST = 300;
/** milliseconds between updates of the details */
const OFTEN = 300;
export class GraphView {
  readonly element: HTMLElement;
  private readonly canvas: Canvas;
  private readonly layouts: Layouts;
  private readonly arrangement: Arrangement;
  private readonly marks: Marks;
  private readonly away: AwayMarks;
  private readonly details = html("aside", { class: "ef-details", "aria-label": "selection" });
  /** diagnosis of the function as a whole */
  private readonly fault = html("div", { class: "ef-fault", hidden: true });
  private readonly now = html("div", { class: "ef-now", "aria-live": "off" });
  private readonly search: Search;
  private readonly legend = html("div", { class: "ef-legend" });
  private readonly grouping: HTMLSelectElement;
  private readonly unlisten: (() => void) | undefined;
  private passes: PassesView | null = null;
  private structure: Structure | null = null;
  private activity: Activity | null = null;
  private tree: GroupTree | null = null;
  private layers: Layers | null = null;
  private contents: Contents | null = null;
  private open = new Set<string>();
  /** number of changes of the open groups, or of new layouts */
  private opened = 0;
  /** whether the initial open groups are still being chosen, so that boxes may be missing */
  private begins = false;
  private chosen: Box | null = null;
  private colouring: Colouring = "device";
  /** a node to show once the groups around it are open, and whether the reader has chosen it here */
  private sought: { readonly node: number; readonly chosen: boolean } | null = null;
  /** text of the details, and time of their last update */
  private said = "";
  private toldAt = 0;
  /** revision of the table of nodes when boxes were last coloured */
  private coloured = -1;

  /**
   * @param feed messages of the kernel
   * @param most limit of boxes
   * @param model for requests about passes; without it there is no view of passes
   */
  constructor(
    private readonly feed: Feed | null,
    private readonly most = MOST,
    private readonly model: ViewModel | null = null,
  ) {
    this.layouts = new Layouts(feed);
    this.arrangement = new Arrangement(this.layouts);
    this.canvas = new Canvas({
      select: (box) => { this.choose(box); },
      toggle: (box) => { this.toggle(box); },
      close: (group) => { this.close(group); },
      key: (event) => { this.key(event); },
    }); // prettier-ignore
    this.marks = new Marks(this.canvas);
    this.away = new AwayMarks(this.canvas, this.legend, feed);
    this.search = new Search({
      changed: () => { this.mark(); },
      reach: (node) => { this.reach(node, true); },
      ended: () => { this.canvas.element.focus(); },
    }); // prettier-ignore
    this.grouping = select("boxes by", [["scope", "by scope"], ["device", "by device"]], (by) => {
      this.regroup(by as Grouping);
    }); // prettier-ignore
    const colours = [["device", "colour: device"], ["time", "colour: time"], ["bytes", "colour: memory"]] as const;
    const tools = html("div", { class: "ef-tools", role: "toolbar", "aria-label": "graph" },
      this.search.field, this.search.hits, this.grouping,
      select("colour", colours, (by) => { this.colour(by as Colouring); }),
      button("+", "zoom in", () => { this.canvas.zoom(1.3); }),
      button("−", "zoom out", () => { this.canvas.zoom(1 / 1.3); }),
      button("fit", "fit the whole graph", () => { this.canvas.fit(true); }),
      button("collapse", "close all groups", () => { this.collapse(); }),
      button("expand", "open groups as far as there is room", () => { this.expand(); }),
      button("arrange", "lay out the open groups again", () => { void this.arrange(); }),
      ...(model ? [button("passes", "before and after each pass", () => { this.showPasses(); })] : []),
    ); // prettier-ignore
    const picture = html("div", { class: "ef-picture" },
      this.canvas.element, this.canvas.minimap, this.legend, this.fault); // prettier-ignore
    this.element = html("div", { class: "ef-graph-view" },
      html("div", { class: "ef-whole" }, tools, html("div", { class: "ef-split" }, picture, this.details)),
      this.now); // prettier-ignore
    this.unlisten = feed?.onChoice((chosen) => { this.follow(chosen); });
  }

  /** Show a graph, and its activity. */
  show(structure: Structure, executable: number): void {
    this.structure = structure;
    this.layers = new Layers(structure);
    this.search.within(structure);
    this.activity = this.feed && executable ? new Activity(this.feed, executable) : null;
    // in a training step the order of layers matters more; devices have colours and names anyway
    const spread = structure.devices().length > 1 && !this.layers.phases;
    this.grouping.value = spread ? "device" : "scope";
    this.regroup(this.grouping.value as Grouping);
    this.follow(this.feed?.chosen ?? null);
  }

  dispose(): void {
    this.passes?.dispose();
    this.unlisten?.();
    this.layouts.close();
  }

  /** Show a graph before and after each pass, in place of the graph, until the reader closes that. */
  private showPasses(): void {
    const whole = this.element.querySelector<HTMLElement>(".ef-whole")!;
    if (!this.model || this.passes) return;
    const passes = new PassesView(this.feed, () => {
      this.passes = null;
      passes.dispose();
      passes.element.remove();
      whole.hidden = false;
      whole.querySelector<HTMLElement>('[aria-label^="before and after"]')?.focus();
      this.resize();
    });
    this.passes = passes;
    whole.hidden = true;
    whole.after(passes.element);
    void askStages(this.model, this.activity?.executable ?? 0).then((stages) => { passes.load(stages); });
  } // prettier-ignore

  /** Adapt to a new size. */
  resize(): void {
    this.passes?.resize();
    this.canvas.resize();
  }

  // --- open groups ---

  private regroup(by: Grouping): void {
    if (!this.structure) return;
    this.tree = new GroupTree(this.structure, by);
    this.open = groupsToOpen(this.tree, FIRST[0][0]);
    this.select(null);
    const { tree } = this;
    this.begins = true;
    void this.begin(tree).finally(() => { this.begins &&= tree !== this.tree; }); // prettier-ignore
  }

  /** Choose and lay out the initial open groups: fewer if there is little room. */
  private async begin(tree: GroupTree): Promise<void> {
    const { room } = this.canvas;
    const opened = this.opened;
    for (const [limit, forward] of FIRST) {
      const open = groupsToOpen(tree, limit, false, forward);
      const contents = contentsOf(tree, open);
      for await (const layout of this.arrangement.anew(contents, room)) {
        if (tree !== this.tree || opened !== this.opened) return;
        const isReadable = scaleIn(layout, room) >= READABLE;
        if (!isReadable && layout.engine === "graphviz" && limit !== FEWEST) continue;
        this.open = open;
        this.put(contents, layout, false);
        if (isReadable && layout.engine === "graphviz") return;
      }
      if (opened !== this.opened) return; // the reader changed the groups meanwhile
    }
  }

  private toggle(box: Box): void {
    if (!box.group) return;
    const group = box.group;
    this.open.add(group.id);
    // a group that holds only another group has nothing else to show
    for (let g = group; g.groups.length === 1 && !g.nodes.length; g = g.groups[0]!) {
      this.open.add(g.groups[0]!.id);
    }
    this.makeRoom(group);
    void this.draw();
  }

  /** Close groups neither around a group nor in it, the largest first, until few enough boxes are left. */
  private makeRoom(group: Group): void {
    const tree = this.tree!;
    let boxes = contentsOf(tree, this.open).boxes.length;
    if (boxes <= this.most) return;
    const near = new Set<string>();
    for (let g: Group | null = group; g; g = g.parent) near.add(g.id);
    const far = [...walk(tree.root)].filter((g) => this.open.has(g.id) && !near.has(g.id));
    for (const g of far.sort((a, b) => b.total - a.total)) {
      this.open.delete(g.id);
      boxes = contentsOf(tree, this.open).boxes.length;
      if (boxes <= this.most) return;
    }
  }

  private close(id: string): void {
    for (const open of [...this.open]) {
      if (open === id || open.startsWith(`${id}/`)) this.open.delete(open);
    }
    void this.draw();
  }

  private collapse(): void {
    if (!this.tree) return;
    this.open = new Set([this.tree.root.id]);
    void this.arrange();
  }

  private expand(): void {
    if (!this.tree) return;
    this.open = groupsToOpen(this.tree, this.most, true);
    void this.arrange();
  }

  /** Make a new layout of all that is open: boxes may move anywhere. */
  private async arrange(): Promise<void> {
    if (!this.tree) return;
    this.opened += 1;
    const contents = contentsOf(this.tree, this.open);
    for await (const layout of this.arrangement.anew(contents, this.canvas.room)) this.put(contents, layout, false);
  }

  /** Show a change of the open groups: remaining boxes stay about where they are. */
  private async draw(): Promise<void> {
    if (!this.tree) return;
    this.opened += 1;
    const contents = contentsOf(this.tree, this.open);
    const versions = this.arrangement.next(contents, this.canvas.window);
    for await (const layout of versions) this.put(contents, layout, true);
  }

  private put(contents: Contents, layout: Layout, still: boolean): void {
    this.contents = contents;
    this.chosen &&= boxNow(this.chosen, contents);
    this.canvas.show(contents, layout, still);
    const total = this.structure!.count;
    this.canvas.element.setAttribute(
      "aria-label", `graph ${this.structure!.graph} of ${total} nodes, ${contents.boxes.length} boxes`,
    ); // prettier-ignore
    this.element.dataset["boxes"] = String(contents.boxes.length);
    this.element.dataset["layout"] = layout.engine;
    this.colour(this.colouring);
    this.marks.again();
    this.mark();
    this.update();
    this.showSought();
  }

  // --- the chosen box, and nodes found ---

  /** The reader has chosen a box in this view: other views follow. */
  private choose(box: Box | null): void {
    this.select(box);
    const executable = this.activity?.executable;
    if (executable) this.feed?.choose(box && { executable, node: box.node });
  }

  /** Follow a choice in another view: show the node, and open the groups around it. */
  private follow(chosen: Choice | null): void {
    if (chosen?.executable !== this.activity?.executable || !this.tree) return;
    const node = chosen?.node ?? -1;
    if (node < 0) {
      // a choice without a node may come from this view, which has shown its box already
      if (this.chosen && this.chosen.node >= 0) this.select(null);
    } else if (this.chosen?.node !== node) this.reach(node);
  }

  private select(box: Box | null): void {
    this.chosen = box;
    if (box && box.node >= 0) this.activity?.look(box.node);
    this.mark();
    // buttons there, such as the one that closes it, keep the focus and would keep the details
    if (this.details.contains(document.activeElement)) this.canvas.element.focus({ preventScroll: true });
    this.tell();
  }

  /** Show details of the chosen box, or the overview of the graph. */
  private tell(): void {
    const [tree, box] = [this.tree, this.chosen];
    this.toldAt = performance.now();
    // replace nothing while an element in there has the focus
    if (!tree || this.details.contains(document.activeElement)) return;
    const parts: Node[] = [];
    if (box) {
      parts.push(button("×", "close", () => { this.choose(null); })); // prettier-ignore
      if (box.group) parts.push(button("open", "open this group", () => { this.toggle(box); })); // prettier-ignore
      parts.push(detailsOf(box, tree, this.activity));
    } else {
      parts.push(overviewOf(tree, this.layers!, this.activity, (node) => { this.reach(node, true); })); // prettier-ignore
    }
    const text = parts.map((part) => part.textContent).join("\n");
    if (text === this.said) return;
    this.said = text;
    this.details.replaceChildren(...parts);
  }

  /** Open the groups around a node, and show it. */
  private reach(node: number, chosen = false): void {
    const home = this.tree?.homes[node];
    if (!home) return;
    const before = this.open.size;
    for (let g: Group | null = home; g; g = g.parent) this.open.add(g.id);
    this.sought = { node, chosen };
    if (this.open.size === before && !this.begins) {
      this.showSought();
      return;
    }
    this.makeRoom(home);
    void this.draw();
  }

  private showSought(): void {
    const { sought } = this;
    const box = sought && this.contents?.boxOf[sought.node];
    this.sought = null;
    if (!sought || !box) return;
    if (sought.chosen) this.choose(box);
    else this.select(box);
    this.canvas.reveal(box, true);
  }

  private mark(): void {
    const hits = this.search.matches.map((n) => this.contents?.boxOf[n]?.id).filter((id) => id !== undefined);
    this.marks.find(new Set(hits));
    this.marks.choose(this.chosen?.id ?? null);
  }

  // --- colours ---

  private colour(by: Colouring): void {
    this.colouring = by;
    const s = this.structure;
    if (!s || !this.contents) return;
    this.coloured = this.feed?.revision("nodes") ?? 0;
    const sums = by === "bytes" ? this.sizes(s) : by === "time" ? this.times() : new Map<Box, number>();
    const most = Math.max(...sums.values(), by === "time" ? 0.05 : 1);
    for (const box of this.contents.boxes) {
      const element = this.canvas.of(box.id);
      const sum = sums.get(box) ?? 0;
      element?.style.setProperty("--ef-fill", by === "device" ? "" : heat(sum / most));
      element?.classList.toggle("ef-heat", by !== "device");
    }
    const any = sums.size > 0 && Math.max(...sums.values()) > 0;
    this.legend.replaceChildren(...legendOf(by, s.devices(), most, any));
    this.away.mark(this.contents, s, true);
  }

  /** The share of a step of each box, from observed steps. */
  private times(): Map<Box, number> {
    const sums = new Map<Box, number>();
    for (const row of this.activity?.costs() ?? []) {
      const box = this.contents!.boxOf[number(row, "node")];
      if (box) sums.set(box, (sums.get(box) ?? 0) + number(row, "share"));
    }
    return sums;
  }

  private sizes(s: Structure): Map<Box, number> {
    const sums = new Map<Box, number>();
    this.contents!.boxOf.forEach((box, n) => {
      if (box) sums.set(box, (sums.get(box) ?? 0) + Math.max(s.number("bytes", n), 0));
    });
    return sums;
  }

  // --- activity ---

  /** The kernel has sent a message. */
  update(): void {
    const { activity, contents } = this;
    if (!activity || !contents) return;
    const places = activity.places();
    const doing = new Map<string, Doing>();
    for (const place of places) {
      const box = contents.boxOf[place.node];
      if (box) doing.set(box.id, place.doing);
    }
    this.marks.light(doing);
    this.marks.blame(this.faulty(contents));
    this.away.mark(contents, this.structure!);
    const fault = activity.faultOfAll();
    setText(this.fault, fault);
    this.fault.hidden = !fault;
    this.canvas.element.classList.toggle("ef-wrong", fault !== "");
    this.count(contents, places);
    setText(this.now, footerOf(activity, this.structure!, this.feed!.now()));
    if (this.colouring === "time" && this.feed?.revision("nodes") !== this.coloured) this.colour("time");
    if (performance.now() - this.toldAt > OFTEN) this.tell();
  }

  private faulty(contents: Contents): Set<string> {
    const is = this.activity!.faults();
    const wrong = contents.boxOf.filter((_, node) => is(node, this.structure!.text("device", node)));
    const queues = contents.boxes.filter((box) => box.queue && this.activity!.isFaulty(box.queue));
    return new Set([...wrong, ...queues].map((box) => box?.id ?? ""));
  }

  /** Write iterations at loops, depths at queues. */
  private count(contents: Contents, places: readonly NodePlace[]): void {
    const badges = new Map<string, string>();
    for (const box of contents.boxes) {
      if (!box.queue) continue;
      const row = this.activity?.queue(box.queue);
      if (!row) continue;
      const capacity = number(row, "capacity");
      badges.set(box.id, `${number(row, "depth")}${capacity ? `/${capacity}` : ""}`);
    }
    for (const place of places) {
      const box = place.iteration >= 0 ? this.loopAround(place.node) : undefined;
      if (box) badges.set(box.id, `iteration ${count(place.iteration)}`);
    }
    this.marks.number(badges);
  }

  private loopAround(node: number): Box | undefined {
    const s = this.structure!;
    for (let n = node; n >= 0; n = s.number("parent", n)) {
      if (s.text("kind", n) === "loop") return this.contents?.boxOf[n];
    }
    return undefined;
  }

  // --- keys ---

  private key(event: KeyboardEvent): void {
    const act = this.keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    act();
    event.preventDefault();
    event.stopPropagation();
  }

  private readonly keys: Readonly<Partial<Record<string, () => void>>> = {
    "+": () => { this.canvas.zoom(1.3); },
    "=": () => { this.canvas.zoom(1.3); },
    "-": () => { this.canvas.zoom(1 / 1.3); },
    0: () => { this.canvas.fit(true); },
    "/": () => { this.search.field.focus(); },
    z: () => { if (this.chosen?.home.parent) this.canvas.closeUp(this.chosen.home.id); },
    Escape: () => { this.choose(null); },
    Enter: () => { if (this.chosen) this.toggle(this.chosen); },
    " ": () => { if (this.chosen) this.toggle(this.chosen); },
    Backspace: () => { if (this.chosen?.home.parent) this.close(this.chosen.home.id); },
    ArrowDown: () => { this.walk((e, box) => (e.from === box ? e.to : undefined)); },
    ArrowUp: () => { this.walk((e, box) => (e.to === box ? e.from : undefined)); },
    ArrowRight: () => { this.step(1); },
    ArrowLeft: () => { this.step(-1); },
  }; // prettier-ignore

  /** Choose the box at the other end of an edge. */
  private walk(next: (edge: Edge, box: Box) => Box | undefined): void {
    const ends = this.contents?.edges.map((e) => this.chosen && next(e, this.chosen));
    const box = ends?.find((end) => end);
    if (box || !this.chosen) this.go(box ?? this.contents?.boxes[0]);
  }

  private step(by: number): void {
    const boxes = this.contents?.boxes ?? [];
    const at = boxes.findIndex((b) => b.id === this.chosen?.id);
    this.go(boxes[at + by] ?? boxes[0]);
  }

  private go(box: Box | undefined): void {
    if (!box) return;
    this.choose(box);
    this.canvas.reveal(box);
  }
}
